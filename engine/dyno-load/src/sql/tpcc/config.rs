//! What all terminals of a run share: homes, constants, times; which transaction comes when; and random values.
//!
//! A transaction follows from its operation's number alone: `number` modulo the terminals is the terminal, `number` divided
//! by them its place in that terminal's sequence. So the same seed asks the same, whatever the threads and connections.

use dyno_core::operation::{self, WARMUP_BIT};
use dyno_core::random::{Domain, RandomStream};
use dyno_loop::arrivals::TerminalCycle;
use serde::Serialize;

/// The five transactions, in the order of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[repr(u8)]
pub enum Kind {
    /// New-Order.
    NewOrder,
    /// Payment.
    Payment,
    /// Order-Status.
    OrderStatus,
    /// Delivery.
    Delivery,
    /// Stock-Level.
    StockLevel,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::NewOrder,
        Self::Payment,
        Self::OrderStatus,
        Self::Delivery,
        Self::StockLevel,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new_order",
            Self::Payment => "payment",
            Self::OrderStatus => "order_status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock_level",
        }
    }

    /// Cards of a deck (clause 5.2.4.2).
    fn cards(self) -> usize {
        match self {
            Self::NewOrder | Self::Payment => 10,
            _ => 1,
        }
    }

    /// Least share of all transactions that the standard asks for, percent (clause 5.2.3); none for New-Order.
    pub fn least_share_pct(self) -> f64 {
        match self {
            Self::NewOrder => 0.0,
            Self::Payment => 43.0,
            _ => 4.0,
        }
    }

    /// Limit of the 90th percentile of the response time (clause 5.2.5.3). Delivery runs to its end here before it answers.
    pub fn limit_ns(self) -> u64 {
        match self {
            Self::StockLevel => 20_000_000_000,
            _ => 5_000_000_000,
        }
    }

    /// Keying time (clause 5.2.5.2).
    fn key_s(self) -> f64 {
        match self {
            Self::NewOrder => 18.0,
            Self::Payment => 3.0,
            _ => 2.0,
        }
    }

    /// Mean of the think time (clause 5.2.5.4).
    fn think_s(self) -> f64 {
        match self {
            Self::NewOrder | Self::Payment => 12.0,
            Self::OrderStatus => 10.0,
            _ => 5.0,
        }
    }
}

/// Cards of a deck.
const DECK: usize = 23;

/// Which warehouse a terminal orders from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// Always the same one, as in the standard.
    Fixed,
    /// Another one each time, as in tpcc-mysql.
    Random,
}

/// How Stock-Level counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StockLevelQuery {
    /// A statement for each item, as in tpcc-mysql.
    PerItem,
    /// One join, as in the standard's appendix.
    Join,
}

/// What all terminals share.
#[derive(Debug, Clone, Serialize)]
pub struct TpccConfig {
    /// Warehouses that take part.
    pub warehouses: u32,
    /// Terminals.
    pub terminals: u32,
    /// Whether terminals take their key and think times; without, each goes on at once.
    pub key_and_think_times: bool,
    /// Factor for key and think times; 1 is the standard's.
    pub time_factor: f64,
    /// Where terminals order from.
    pub home: Home,
    /// How Stock-Level counts.
    pub stock_level: StockLevelQuery,
    /// Whether statements are sent before the answers of those before them, where they do not need them.
    pub pipelining: bool,
    /// Whether each transaction is one stored procedure; else client SQL.
    pub stored_procedures: bool,
    /// The run's constants of NURand.
    pub nurand_constants: Constants,
    /// Seed of the run.
    #[serde(skip)]
    pub seed: u64,
}

/// Makes seeds of streams' own: decks of different streams have nothing in common.
const STREAM_SEED: u64 = 0x9fb2_1c65_1e98_df25;
/// Makes a seed of its own out of the run's, for decks and times.
const DECK_SEED: u64 = 0x5bd1_e995_7f4a_9d3b;

impl TpccConfig {
    /// The constants of a run with this seed.
    pub fn constants(seed: u64) -> Constants {
        Constants::of_run(&mut RandomStream::of(seed ^ DECK_SEED, Domain::Operation, u64::MAX))
    }

    /// The terminal of an operation, and the operation's place in its sequence.
    pub fn terminal(&self, number: u64) -> (u32, u64) {
        let (count, terminals) = (operation::count_of(number), u64::from(self.terminals));
        ((count % terminals) as u32, count / terminals)
    }

    /// What an operation is: a card of its terminal's deck, which is shuffled anew each time it is used up.
    pub fn kind(&self, number: u64) -> Kind {
        let (terminal, sequence) = self.terminal(number);
        let deck = (sequence / DECK as u64) << 32 | u64::from(terminal) | (number & WARMUP_BIT);
        let seed = self.seed ^ DECK_SEED ^ u64::from(operation::stream_of(number)).wrapping_mul(STREAM_SEED);
        let mut stream = RandomStream::of(seed, Domain::Operation, deck);
        let mut cards = [Kind::NewOrder; DECK];
        let mut place = 0;
        for kind in Kind::ALL {
            cards[place..place + kind.cards()].fill(kind);
            place += kind.cards();
        }
        // Fisher and Yates, only as far as the card asked for.
        let wanted = (sequence % DECK as u64) as usize;
        for card in 0..=wanted {
            cards.swap(card, between(&mut stream, card as u32, DECK as u32 - 1) as usize);
        }
        cards[wanted]
    }

    /// The warehouse and the district that a terminal belongs to: terminals spread over warehouses first.
    pub fn home(&self, terminal: u32) -> (u32, u32) {
        (
            terminal % self.warehouses + 1,
            terminal / self.warehouses % DISTRICTS + 1,
        )
    }
}

impl TerminalCycle for TpccConfig {
    fn terminals(&self) -> u32 {
        self.terminals
    }

    /// The time that a terminal takes to key in the operation.
    fn key_ns(&self, number: u64) -> u64 {
        (self.kind(number).key_s() * self.time_factor * 1e9) as u64
    }

    /// The time that a terminal thinks after the operation: exponential, at most ten times its mean (clause 5.2.5.4).
    fn think_ns(&self, number: u64) -> u64 {
        let mean_s = self.kind(number).think_s();
        let mut stream = RandomStream::of(self.seed ^ DECK_SEED, Domain::Think, number);
        (stream.next_exponential().min(10.0) * mean_s * self.time_factor * 1e9) as u64
    }

    /// When a terminal's first transaction, operation `number`, is due, from the start of the load: as if it were anywhere in its think time.
    fn first_due_ns(&self, number: u64) -> u64 {
        let share = RandomStream::of(self.seed ^ DECK_SEED, Domain::Arrival, number).next_double();
        let cycle_s = 24.0;
        (share * cycle_s * self.time_factor * 1e9) as u64
    }
}

/// C of the C_LAST that the load draws. Fixed, so that a run keeps clause 2.1.6.1's distance without knowing the load's seed.
pub const LOADED_C_LAST_CONSTANT: u32 = 157;
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
pub fn nurand(stream: &mut RandomStream, a: u32, c: u32, low: u32, high: u32) -> u32 {
    let drawn = between(stream, 0, a) | between(stream, low, high);
    (drawn + c) % (high - low + 1) + low
}

/// The last name of the load: NURand(255, 0, 999) with the load's own constant.
pub fn loaded_last_name(stream: &mut RandomStream) -> u32 {
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
pub fn put_digits(out: &mut Vec<u8>, stream: &mut RandomStream, length: usize) {
    out.extend((0..length).map(|_| b'0' + between(stream, 0, 9) as u8));
}

/// Appends I_DATA or S_DATA: 26 to 50 characters, every tenth with ORIGINAL in it (clause 4.3.3.1).
pub fn put_data(out: &mut Vec<u8>, stream: &mut RandomStream) {
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

#[cfg(test)]
mod tests {
    use dyno_core::random::Domain;
    use dyno_loop::arrivals::Terminals;

    use super::*;

    #[test]
    fn a_stream_has_the_same_terminals_and_decks_of_its_own() {
        let plan = plan(7);
        let kinds = |base: u64| (0..1000).map(|count| plan.kind(base + count)).collect::<Vec<_>>();
        let base = operation::base(3, true);
        assert_eq!(plan.terminal(base + 8), (1, 1));
        assert_ne!(kinds(base), kinds(0));
        assert_ne!(kinds(base), kinds(operation::base(4, true)));
        assert_ne!(kinds(base), kinds(operation::base(3, false)));
        let new_orders = kinds(base).iter().filter(|kind| **kind == Kind::NewOrder).count();
        assert!((400..470).contains(&new_orders), "{new_orders}");
    }

    fn plan(terminals: u32) -> TpccConfig {
        TpccConfig {
            warehouses: 3,
            terminals,
            key_and_think_times: true,
            time_factor: 1.0,
            home: Home::Fixed,
            stock_level: StockLevelQuery::PerItem,
            pipelining: false,
            stored_procedures: false,
            nurand_constants: TpccConfig::constants(1),
            seed: 1,
        }
    }

    #[test]
    fn every_deck_of_every_terminal_has_the_standards_mix() {
        let plan = plan(7);
        for terminal in 0..7u64 {
            for deck in 0..20u64 {
                let mut counts = [0; 5];
                for card in 0..23 {
                    counts[plan.kind((deck * 23 + card) * 7 + terminal) as usize] += 1;
                }
                assert_eq!(counts, [10, 10, 1, 1, 1]);
            }
        }
    }

    #[test]
    fn decks_are_shuffled_each_in_its_own_way() {
        let plan = plan(1);
        let deck = |number: u64| (0..23).map(|card| plan.kind(number * 23 + card)).collect::<Vec<_>>();
        assert_ne!(deck(0), deck(1));
        // Each place of a deck has a New-Order in 10 of 23 decks.
        for card in 0..23 {
            let count = (0..5000).filter(|number| deck(*number)[card] == Kind::NewOrder).count();
            assert!((2000..2350).contains(&count), "card {card}: {count}");
        }
    }

    #[test]
    fn terminals_spread_over_warehouses_then_districts() {
        let plan = plan(60);
        assert_eq!(plan.home(0), (1, 1));
        assert_eq!(plan.home(2), (3, 1));
        assert_eq!(plan.home(3), (1, 2));
        assert_eq!(plan.home(30), (1, 1));
    }

    #[test]
    fn think_times_have_their_mean_and_their_limit() {
        let plan = plan(1);
        let thinks: Vec<f64> = (0..200_000)
            .filter(|number| plan.kind(*number) == Kind::NewOrder)
            .map(|number| plan.think_ns(number) as f64 / 1e9)
            .collect();
        let mean = thinks.iter().sum::<f64>() / thinks.len() as f64;
        assert!((mean - 12.0).abs() < 0.2, "{mean}");
        assert!(thinks.iter().all(|think| *think <= 120.0));
        assert_eq!(plan.key_ns(0), (plan.kind(0).key_s() * 1e9) as u64);
    }

    const SECOND: u64 = 1_000_000_000;

    /// With answers that take no time, terminals make the 12.86 New-Orders a minute and ten terminals of the standard.
    #[test]
    fn terminals_keep_the_pace_of_the_standard() {
        let plan = TpccConfig {
            warehouses: 10,
            ..plan(1000)
        };
        let mut terminals = Terminals::new(plan.clone(), 0, 1);
        terminals.enter(0, 0, 1200 * SECOND);
        let mut new_orders = 0;
        while let Some(next) = terminals.take() {
            if next.intended_ns > 600 * SECOND && plan.kind(next.number) == Kind::NewOrder {
                new_orders += 1;
            }
            terminals.ended(next.number, next.intended_ns);
        }
        let per_warehouse = f64::from(new_orders) / 10.0 / 100.0;
        assert!((per_warehouse - 12.86).abs() < 0.4, "{per_warehouse}");
    }

    #[test]
    fn workers_share_the_terminals_without_a_rest() {
        let mut seen = Vec::new();
        for worker in 0..3 {
            let mut terminals = Terminals::new(plan(100), worker, 3);
            terminals.enter(0, 0, u64::MAX);
            while let Some(next) = terminals.take() {
                seen.push(next.number);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<u64>>());
    }

    #[test]
    fn terminals_of_a_stream_are_the_same_again_and_others_in_another() {
        let mut terminals = Terminals::new(plan(100), 0, 1);
        let mut slice = |stream| {
            terminals.restart();
            terminals.enter(stream, 5 * SECOND, 30 * SECOND);
            let mut seen = Vec::new();
            while let Some(next) = terminals.take() {
                seen.push((next.number, next.intended_ns));
                terminals.ended(next.number, next.intended_ns);
            }
            seen
        };
        let first = slice(7);
        assert!(first.len() > 50, "{}", first.len());
        let other = slice(8);
        assert_eq!(slice(7), first);
        let due = |seen: &[(u64, u64)]| seen.iter().map(|(_, due)| *due).collect::<Vec<_>>();
        assert_ne!(due(&other), due(&first));
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
