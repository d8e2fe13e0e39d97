//! The initial population (clause 4.3.3.1), each row from its own number: any number of threads makes the same tables.

use dyno_core::random::{Domain, RandomStream};
use dyno_mysql::{DateTime, Value};

use super::config::{
    between, loaded_last_name, permutation, put_data, put_digits, put_last_name, put_text, CUSTOMERS, DISTRICTS, ITEMS,
};

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

/// The date of everything in the initial population: fixed, so that the same seed makes the same tables.
pub const LOAD_DATE: DateTime = DateTime {
    year: 2026,
    month: 1,
    day: 1,
    hour: 0,
    minute: 0,
    second: 0,
    microsecond: 0,
};

#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    Int(i32),
    Long(i64),
    Text(u32, u32),
    Date,
}

/// Rows of one table, cell by cell.
#[derive(Debug, Default)]
pub struct Batch {
    text: Vec<u8>,
    cells: Vec<Cell>,
}

impl Batch {
    /// Empties it.
    pub fn clear(&mut self) {
        self.text.clear();
        self.cells.clear();
    }

    /// Adds an integer.
    pub fn int(&mut self, value: u32) {
        self.cells.push(Cell::Int(value as i32));
    }

    /// Adds a large integer.
    pub fn long(&mut self, value: u64) {
        self.cells.push(Cell::Long(value as i64));
    }

    /// Adds NULL.
    pub fn null(&mut self) {
        self.cells.push(Cell::Null);
    }

    /// Adds the date of the load.
    pub fn date(&mut self) {
        self.cells.push(Cell::Date);
    }

    /// Adds the text that `write` appends.
    pub fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len() as u32;
        write(&mut self.text);
        self.cells.push(Cell::Text(start, self.text.len() as u32));
    }

    /// Adds a number of ten-thousandths or hundredths as a decimal text, as in 0.1234 or 12.34.
    pub fn decimal(&mut self, value: u32, digits: usize) {
        let scale = 10u32.pow(digits as u32);
        // Writing to a vector cannot fail.
        self.text(|out| {
            drop(std::io::Write::write_fmt(
                out,
                format_args!("{}.{:0digits$}", value / scale, value % scale),
            ))
        });
    }

    /// The last text added.
    pub fn last_text(&self) -> &[u8] {
        match self.cells.last() {
            Some(Cell::Text(start, end)) => &self.text[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// Cells so far.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// The cells as parameters.
    pub fn values(&self) -> Vec<Value<'_>> {
        let value = |cell: &Cell| match *cell {
            Cell::Null => Value::Null,
            Cell::Int(value) => Value::Int32(value),
            Cell::Long(value) => Value::Int(value),
            Cell::Text(start, end) => Value::Bytes(&self.text[start as usize..end as usize]),
            Cell::Date => Value::DateTime(LOAD_DATE),
        };
        self.cells.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
