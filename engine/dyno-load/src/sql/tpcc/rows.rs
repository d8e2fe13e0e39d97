//! Random values (clauses 2.1.6 and 4.3.2), and the initial population (clause 4.3.3.1) made of them, each row from its own
//! number: any number of threads makes the same tables.

use dyno_core::random::{Domain, RandomStream};

use super::schema::Batch;

/// C of the C_LAST that the load draws. Fixed, so that a run keeps clause 2.1.6.1's distance without knowing the load's seed.
const LOADED_C_LAST_CONSTANT: u32 = 157;
/// A of C_LAST.
const C_LAST_A: u32 = 255;
/// A of C_ID.
const C_ID_A: u32 = 1023;
/// A of OL_I_ID.
const ITEM_A: u32 = 8191;
/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Customers of a district.
pub const CUSTOMERS: u32 = 3000;
/// Items.
pub const ITEMS: u32 = 100_000;

/// The constants C of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Constants {
    /// Constant C of C_LAST.
    pub c_last: u32,
    /// Constant C of C_ID.
    pub c_id: u32,
    /// Constant C of OL_I_ID.
    pub ol_i_id: u32,
}

impl Constants {
    /// The constants of a run with this seed. C_LAST's is 65 to 119 away from the load's, never 96 or 112 (clause 2.1.6.1).
    pub fn of_run(stream: &mut RandomStream) -> Self {
        let c_last = loop {
            let drawn = between(stream, 0, C_LAST_A);
            if is_allowed_distance(drawn.abs_diff(LOADED_C_LAST_CONSTANT)) {
                break drawn;
            }
        };
        Self {
            c_last,
            c_id: between(stream, 0, C_ID_A),
            ol_i_id: between(stream, 0, ITEM_A),
        }
    }

    /// Number of a last name, 0 to 999.
    pub fn last_name(&self, stream: &mut RandomStream) -> u32 {
        nurand(stream, C_LAST_A, self.c_last, 0, 999)
    }

    /// A customer of a district.
    pub fn customer(&self, stream: &mut RandomStream) -> u32 {
        nurand(stream, C_ID_A, self.c_id, 1, CUSTOMERS)
    }

    /// An item.
    pub fn item(&self, stream: &mut RandomStream) -> u32 {
        nurand(stream, ITEM_A, self.ol_i_id, 1, ITEMS)
    }
}

fn is_allowed_distance(distance: u32) -> bool {
    (65..=119).contains(&distance) && distance != 96 && distance != 112
}

/// A value in [low, high], all alike to within 2^-32.
#[inline]
pub fn between(stream: &mut RandomStream, low: u32, high: u32) -> u32 {
    let span = u64::from(high - low) + 1;
    low + (((stream.next_u64() >> 32) * span) >> 32) as u32
}

/// Clause 2.1.6: (((random(0, A) | random(x, y)) + C) % (y - x + 1)) + x.
#[inline]
fn nurand(stream: &mut RandomStream, a: u32, c: u32, low: u32, high: u32) -> u32 {
    let drawn = between(stream, 0, a) | between(stream, low, high);
    (drawn + c) % (high - low + 1) + low
}

/// The last name of the load: NURand(255, 0, 999) with the load's own constant.
fn loaded_last_name(stream: &mut RandomStream) -> u32 {
    nurand(stream, C_LAST_A, LOADED_C_LAST_CONSTANT, 0, 999)
}

const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

/// Appends the last name of that number: a syllable for each of its three digits (clause 4.3.2.3).
pub fn put_last_name(out: &mut Vec<u8>, number: u32) {
    for digit in [number / 100, number / 10 % 10, number % 10] {
        out.extend_from_slice(SYLLABLES[digit as usize].as_bytes());
    }
}

/// 62 letters and digits; two of them twice, so that six bits choose one.
const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyzeo";

/// Appends an a-string of `low` to `high` characters.
pub fn put_text(out: &mut Vec<u8>, stream: &mut RandomStream, low: u32, high: u32) {
    let length = between(stream, low, high) as usize;
    let end = out.len() + length;
    while out.len() < end {
        let mut bits = stream.next_u64();
        for _ in 0..10.min(end - out.len()) {
            out.push(ALPHABET[(bits & 63) as usize]);
            bits >>= 6;
        }
    }
}

/// Appends an n-string of `length` digits.
fn put_digits(out: &mut Vec<u8>, stream: &mut RandomStream, length: usize) {
    out.extend((0..length).map(|_| b'0' + between(stream, 0, 9) as u8));
}

/// Appends I_DATA or S_DATA: 26 to 50 characters, every tenth with ORIGINAL in it (clause 4.3.3.1).
fn put_data(out: &mut Vec<u8>, stream: &mut RandomStream) {
    let start = out.len();
    put_text(out, stream, 26, 50);
    if between(stream, 1, 10) == 1 {
        let last = (out.len() - start - 8) as u32;
        let position = start + between(stream, 0, last) as usize;
        out[position..position + 8].copy_from_slice(b"ORIGINAL");
    }
}

/// A permutation of 1 to `count`.
pub fn permutation(stream: &mut RandomStream, count: u32) -> Vec<u32> {
    let mut values: Vec<u32> = (1..=count).collect();
    for last in (1..count).rev() {
        values.swap(last as usize, between(stream, 0, last) as usize);
    }
    values
}

/// The first order that is not delivered.
pub const FIRST_UNDELIVERED: u32 = 2101;
/// Sets warehouse apart from the number below it.
const WAREHOUSE_SHIFT: u32 = 32;
/// Sets the table apart from warehouse and number.
const TABLE_SHIFT: u32 = 56;

/// Makes the rows of one seed.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// The seed.
    pub seed: u64,
}

/// What an order and its lines share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderFacts {
    /// Its carrier; none while it is not delivered.
    pub carrier: Option<u32>,
    /// Its lines.
    pub lines: u32,
}

#[derive(Clone, Copy)]
enum Of {
    Item = 1,
    Warehouse,
    Stock,
    District,
    Customer,
    History,
    Permutation,
    Order,
    Line,
}

impl Rows {
    fn stream(&self, of: Of, warehouse: u32, number: u32) -> RandomStream {
        let number = (of as u64) << TABLE_SHIFT | u64::from(warehouse) << WAREHOUSE_SHIFT | u64::from(number);
        RandomStream::of(self.seed, Domain::Row, number)
    }

    /// Item `item`, from 1.
    pub fn item(&self, batch: &mut Batch, item: u32) {
        let stream = &mut self.stream(Of::Item, 0, item);
        batch.int(item);
        batch.int(between(stream, 1, 10_000));
        batch.text(|out| put_text(out, stream, 14, 24));
        batch.decimal(between(stream, 100, 10_000), 2);
        batch.text(|out| put_data(out, stream));
    }

    /// The stock of an item in a warehouse.
    pub fn stock(&self, batch: &mut Batch, warehouse: u32, item: u32) {
        let stream = &mut self.stream(Of::Stock, warehouse, item);
        batch.int(item);
        batch.int(warehouse);
        batch.int(between(stream, 10, 100));
        for _ in 0..DISTRICTS {
            batch.text(|out| put_text(out, stream, 24, 24));
        }
        batch.int(0);
        batch.int(0);
        batch.int(0);
        batch.text(|out| put_data(out, stream));
    }

    /// A warehouse.
    pub fn warehouse(&self, batch: &mut Batch, warehouse: u32) {
        let stream = &mut self.stream(Of::Warehouse, warehouse, 0);
        batch.int(warehouse);
        batch.text(|out| put_text(out, stream, 6, 10));
        address(batch, stream);
        batch.decimal(between(stream, 0, 2000), 4);
        batch.decimal(30_000_000, 2);
    }

    /// A district of a warehouse.
    pub fn district(&self, batch: &mut Batch, warehouse: u32, district: u32) {
        let stream = &mut self.stream(Of::District, warehouse, district);
        batch.int(district);
        batch.int(warehouse);
        batch.text(|out| put_text(out, stream, 6, 10));
        address(batch, stream);
        batch.decimal(between(stream, 0, 2000), 4);
        batch.decimal(3_000_000, 2);
        batch.int(CUSTOMERS + 1);
    }

    /// A customer of a district.
    pub fn customer(&self, batch: &mut Batch, warehouse: u32, district: u32, customer: u32) {
        let stream = &mut self.stream(Of::Customer, warehouse, in_district(district, customer));
        let name = if customer <= 1000 {
            customer - 1
        } else {
            loaded_last_name(stream)
        };
        batch.int(customer);
        batch.int(district);
        batch.int(warehouse);
        batch.text(|out| put_text(out, stream, 8, 16));
        batch.text(|out| out.extend_from_slice(b"OE"));
        batch.text(|out| put_last_name(out, name));
        address(batch, stream);
        batch.text(|out| put_digits(out, stream, 16));
        batch.date();
        let credit: &[u8] = if between(stream, 1, 10) == 1 { b"BC" } else { b"GC" };
        batch.text(|out| out.extend_from_slice(credit));
        batch.int(50_000);
        batch.decimal(between(stream, 0, 5000), 4);
        batch.text(|out| out.extend_from_slice(b"-10.00"));
        batch.decimal(1000, 2);
        batch.int(1);
        batch.int(0);
        batch.text(|out| put_text(out, stream, 300, 500));
    }

    /// The payment that every customer has made.
    pub fn history(&self, batch: &mut Batch, warehouse: u32, district: u32, customer: u32) {
        let stream = &mut self.stream(Of::History, warehouse, in_district(district, customer));
        let before = u64::from(warehouse - 1) * u64::from(DISTRICTS) + u64::from(district - 1);
        batch.long(before * u64::from(CUSTOMERS) + u64::from(customer));
        batch.int(customer);
        batch.int(district);
        batch.int(warehouse);
        batch.int(district);
        batch.int(warehouse);
        batch.date();
        batch.decimal(1000, 2);
        batch.text(|out| put_text(out, stream, 12, 24));
    }

    /// The customers in the order of their first orders.
    pub fn customers_of_orders(&self, warehouse: u32, district: u32) -> Vec<u32> {
        permutation(&mut self.stream(Of::Permutation, warehouse, district), CUSTOMERS)
    }

    /// What an order and its lines share.
    pub fn order_facts(&self, warehouse: u32, district: u32, order: u32) -> OrderFacts {
        let stream = &mut self.stream(Of::Order, warehouse, in_district(district, order));
        let carrier = between(stream, 1, 10);
        OrderFacts {
            carrier: (order < FIRST_UNDELIVERED).then_some(carrier),
            lines: between(stream, 5, 15),
        }
    }

    /// An order of a customer.
    pub fn order(&self, batch: &mut Batch, warehouse: u32, district: u32, order: u32, customer: u32) {
        let facts = self.order_facts(warehouse, district, order);
        batch.int(order);
        batch.int(district);
        batch.int(warehouse);
        batch.int(customer);
        batch.date();
        match facts.carrier {
            Some(carrier) => batch.int(carrier),
            None => batch.null(),
        }
        batch.int(facts.lines);
        batch.int(1);
    }

    /// The lines of an order.
    pub fn order_lines(&self, warehouse: u32, district: u32, order: u32) -> impl Iterator<Item = OrderLine> {
        let facts = self.order_facts(warehouse, district, order);
        let mut stream = self.stream(Of::Line, warehouse, in_district(district, order));
        (1..=facts.lines).map(move |number| {
            let item = between(&mut stream, 1, ITEMS);
            let cents = between(&mut stream, 1, 999_999);
            let mut information = Vec::with_capacity(24);
            put_text(&mut information, &mut stream, 24, 24);
            OrderLine {
                warehouse,
                district,
                order,
                number,
                item,
                delivered: facts.carrier.is_some(),
                cents,
                information,
            }
        })
    }
}

/// One line of an order.
#[derive(Debug, Clone)]
pub struct OrderLine {
    warehouse: u32,
    district: u32,
    order: u32,
    number: u32,
    item: u32,
    delivered: bool,
    cents: u32,
    information: Vec<u8>,
}

impl OrderLine {
    /// Adds its row.
    pub fn put(&self, batch: &mut Batch) {
        for value in [
            self.order,
            self.district,
            self.warehouse,
            self.number,
            self.item,
            self.warehouse,
        ] {
            batch.int(value);
        }
        if self.delivered {
            batch.date();
        } else {
            batch.null();
        }
        batch.int(5);
        batch.decimal(if self.delivered { 0 } else { self.cents }, 2);
        batch.text(|out| out.extend_from_slice(&self.information));
    }
}

/// A row's number inside its warehouse: districts are 2^20 apart.
fn in_district(district: u32, number: u32) -> u32 {
    district << 20 | number
}

/// Streets, city, state and zip code (clause 4.3.2.7).
fn address(batch: &mut Batch, stream: &mut RandomStream) {
    for _ in 0..3 {
        batch.text(|out| put_text(out, stream, 10, 20));
    }
    batch.text(|out| put_text(out, stream, 2, 2));
    batch.text(|out| {
        put_digits(out, stream, 4);
        out.extend_from_slice(b"11111");
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_core::random::Domain;

    const ROWS: Rows = Rows { seed: 1 };

    #[test]
    fn a_row_has_as_many_cells_as_its_table_has_columns() {
        use super::super::schema;
        let cells = |fill: &dyn Fn(&mut Batch)| {
            let mut batch = Batch::default();
            fill(&mut batch);
            batch.len()
        };
        assert_eq!(cells(&|batch| ROWS.item(batch, 7)), schema::ITEM.columns.len());
        assert_eq!(cells(&|batch| ROWS.stock(batch, 1, 7)), schema::STOCK.columns.len());
        assert_eq!(
            cells(&|batch| ROWS.warehouse(batch, 1)),
            schema::WAREHOUSE.columns.len()
        );
        assert_eq!(
            cells(&|batch| ROWS.district(batch, 1, 2)),
            schema::DISTRICT.columns.len()
        );
        assert_eq!(
            cells(&|batch| ROWS.customer(batch, 1, 2, 3)),
            schema::CUSTOMER.columns.len()
        );
        assert_eq!(
            cells(&|batch| ROWS.history(batch, 1, 2, 3)),
            schema::HISTORY.columns.len()
        );
        assert_eq!(
            cells(&|batch| ROWS.order(batch, 1, 2, 3, 4)),
            schema::ORDERS.columns.len()
        );
        let lines = ROWS.order_facts(1, 2, 3).lines as usize;
        let all = cells(&|batch| ROWS.order_lines(1, 2, 3).for_each(|line| line.put(batch)));
        assert_eq!(all, lines * schema::ORDER_LINE.columns.len());
    }

    #[test]
    fn orders_have_five_to_fifteen_lines_and_the_last_900_no_carrier() {
        let facts: Vec<OrderFacts> = (1..=3000).map(|order| ROWS.order_facts(1, 1, order)).collect();
        assert_eq!(facts.iter().filter(|facts| facts.carrier.is_none()).count(), 900);
        assert!(facts[..2100]
            .iter()
            .all(|facts| facts.carrier.is_some_and(|carrier| (1..=10).contains(&carrier))));
        assert_eq!(facts.iter().map(|facts| facts.lines).min(), Some(5));
        assert_eq!(facts.iter().map(|facts| facts.lines).max(), Some(15));
        let mean = facts.iter().map(|facts| f64::from(facts.lines)).sum::<f64>() / 3000.0;
        assert!((mean - 10.0).abs() < 0.2, "{mean}");
    }

    fn stream(number: u64) -> RandomStream {
        RandomStream::of(1, Domain::Operation, number)
    }

    #[test]
    fn the_constants_of_every_run_keep_the_distance_of_the_standard() {
        for number in 0..2000 {
            let constants = Constants::of_run(&mut stream(number));
            let distance = constants.c_last.abs_diff(LOADED_C_LAST_CONSTANT);
            assert!(
                (65..=119).contains(&distance) && distance != 96 && distance != 112,
                "{distance}"
            );
            assert!(constants.c_last <= 255 && constants.c_id <= 1023 && constants.ol_i_id <= 8191);
        }
    }

    /// The exact distribution by counting all pairs, against draws: every value within five standard deviations.
    #[test]
    fn nurand_has_the_distribution_of_its_definition() {
        let (a, c, low, high) = (255, 173, 0, 999);
        let mut expected = vec![0.0; 1000];
        for first in 0..=a {
            for second in low..=high {
                expected[(((first | second) + c) % (high - low + 1) + low) as usize] += 1.0 / 256_000.0;
            }
        }
        let (draws, mut seen) = (1_000_000, vec![0u32; 1000]);
        let mut source = stream(0);
        for _ in 0..draws {
            seen[nurand(&mut source, a, c, low, high) as usize] += 1;
        }
        for (value, (share, count)) in expected.iter().zip(&seen).enumerate() {
            let mean = share * f64::from(draws);
            assert!(
                (f64::from(*count) - mean).abs() <= 5.0 * mean.sqrt() + 5.0,
                "{value}: {count} not {mean}"
            );
        }
        let greatest = expected.iter().copied().fold(0.0, f64::max);
        assert!(
            greatest > 0.004,
            "NURand is not uniform: the commonest name has {greatest}"
        );
    }

    #[test]
    fn items_and_customers_stay_in_their_range_and_reach_its_ends() {
        let constants = Constants::of_run(&mut stream(3));
        let mut source = stream(4);
        let items: Vec<u32> = (0..400_000).map(|_| constants.item(&mut source)).collect();
        assert!(items.iter().all(|item| (1..=ITEMS).contains(item)));
        let customers: Vec<u32> = (0..400_000).map(|_| constants.customer(&mut source)).collect();
        assert_eq!(customers.iter().min(), Some(&1));
        assert_eq!(customers.iter().max(), Some(&CUSTOMERS));
    }

    #[test]
    fn names_have_the_syllables_of_the_standard() {
        let name = |number| {
            let mut out = Vec::new();
            put_last_name(&mut out, number);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(name(371), "PRICALLYOUGHT");
        assert_eq!(name(40), "BARPRESBAR");
    }

    #[test]
    fn a_permutation_has_every_value_once() {
        let mut values = permutation(&mut stream(9), 3000);
        assert_ne!(values, (1..=3000).collect::<Vec<_>>());
        values.sort_unstable();
        assert_eq!(values, (1..=3000).collect::<Vec<_>>());
    }

    #[test]
    fn one_tenth_of_the_data_has_original_in_it() {
        let mut source = stream(5);
        let mut originals = 0;
        for _ in 0..20_000 {
            let mut out = Vec::new();
            put_data(&mut out, &mut source);
            assert!((26..=50).contains(&out.len()));
            originals += u32::from(out.windows(8).any(|part| part == b"ORIGINAL"));
        }
        assert!((1800..2200).contains(&originals), "{originals}");
    }
}
