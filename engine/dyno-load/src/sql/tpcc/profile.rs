//! What all terminals of a run share: homes, constants, times, which transaction comes when; and what the five transaction
//! profiles have in common (clauses 2.4 to 2.8): steps, customers, amounts, values of rows.
//!
//! A transaction follows from its operation's number alone: `number` modulo the terminals is the terminal, `number` divided
//! by them its place in that terminal's sequence. So the same seed asks the same, whatever the threads and connections.

use std::io::Write as _;

use dyno_core::random::{self, Domain, RandomStream, WARMUP_BIT};
use dyno_loop::arrivals::TerminalCycle;
use dyno_mysql::Value;
use serde::Serialize;

use super::rows::{between, put_last_name, Constants, DISTRICTS};
use super::statements::Id;

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
        let (count, terminals) = (random::count_of(number), u64::from(self.terminals));
        ((count % terminals) as u32, count / terminals)
    }

    /// What an operation is: a card of its terminal's deck, which is shuffled anew each time it is used up.
    pub fn kind(&self, number: u64) -> Kind {
        let (terminal, sequence) = self.terminal(number);
        let deck = (sequence / DECK as u64) << 32 | u64::from(terminal) | (number & WARMUP_BIT);
        let seed = self.seed ^ DECK_SEED ^ u64::from(random::stream_of(number)).wrapping_mul(STREAM_SEED);
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

/// Where a transaction comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID of the terminal's own district.
    pub district: u32,
}

/// One transaction profile: its input, its progress, and what it has read.
pub trait Profile {
    /// Draws the input.
    fn begin(&mut self, config: &TpccConfig, terminal: Terminal, stream: &mut RandomStream);

    /// Back to the first statement, with the same input.
    fn restart(&mut self);

    /// Hands the whole transaction to `send` as a stored procedure.
    fn call<T>(&mut self, send: impl FnOnce(Id, &[Value<'_>]) -> T) -> T;

    /// Takes the first value of the procedure's only row.
    fn take_answer(&mut self, _answer: u32) {}

    /// Whether the next statement needs every answer to those before it.
    fn waits(&self) -> bool;

    /// Hands the next statement to `send`; `outstanding` answers are still to come.
    ///
    /// # Errors
    /// With the name of a row that should be there and is not.
    fn send_next<T>(
        &mut self,
        outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str>;

    /// Takes a row of statement `id`.
    fn row<'a>(&mut self, id: Id, values: impl Iterator<Item = Value<'a>>);

    /// Hands the next statement to `send`, unless it needs one of the `outstanding` answers.
    ///
    /// # Errors
    /// With the name of a row that should be there and is not.
    #[inline]
    fn advance<T>(
        &mut self,
        outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        if outstanding > 0 && self.waits() {
            return Ok(Next::Wait);
        }
        self.send_next(outstanding, send)
    }
}

/// The next step of a transaction, with what sending its statement gave.
#[derive(Debug)]
pub enum Next<T> {
    /// A statement was sent.
    Sent(T),
    /// An answer is needed first.
    Wait,
    /// The transaction is over.
    End,
}

/// Customers of one name in one district; the commonest of the standard's names have about 20, more are still read.
const EXPECTED_OF_ONE_NAME: usize = 32;

/// The customer asked for, and the customer found.
#[derive(Debug, Default)]
pub struct CustomerChoice {
    /// C_W_ID.
    pub warehouse: u32,
    /// C_D_ID.
    pub district: u32,
    /// Found by name.
    found: Vec<u32>,
    name: Vec<u8>,
    id: Option<u32>,
}

impl CustomerChoice {
    /// Draws name or number (clauses 2.5.1.2 and 2.6.1.2).
    pub fn begin(&mut self, config: &TpccConfig, warehouse: u32, district: u32, stream: &mut RandomStream) {
        self.warehouse = warehouse;
        self.district = district;
        self.name.clear();
        self.id = None;
        if between(stream, 1, 100) <= 60 {
            put_last_name(&mut self.name, config.nurand_constants.last_name(stream));
        } else {
            self.id = Some(config.nurand_constants.customer(stream));
        }
        self.restart();
    }

    /// Forgets what was found by name.
    pub fn restart(&mut self) {
        self.found.clear();
        self.found.reserve(EXPECTED_OF_ONE_NAME);
    }

    /// Whether the name is given.
    pub fn is_by_name(&self) -> bool {
        self.id.is_none()
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Takes a customer of that name, in the order of C_FIRST.
    pub fn found(&mut self, customer: Option<u32>) {
        self.found.extend(customer);
    }

    /// The number; of those of a name the one at n/2 rounded up (clause 2.5.2.2), `None` when there is none.
    pub fn id(&self) -> Option<u32> {
        self.id
            .or_else(|| self.found.get(self.found.len().div_ceil(2).checked_sub(1)?).copied())
    }
}

/// A whole number; `None` for NULL, or what is none.
pub fn integer(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        Value::UInt(value) => i64::try_from(*value).ok(),
        Value::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A whole number from 0 to 2^32 - 1.
pub fn unsigned(value: &Value<'_>) -> Option<u32> {
    integer(value)?.try_into().ok()
}

/// An amount; a DECIMAL is a text in both protocols.
pub fn cents(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Bytes(text) => parse_cents(text),
        _ => None,
    }
}

/// An amount in cents as the server takes it, as in 12.34.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmountText {
    bytes: [u8; 24],
    length: u8,
}

impl AmountText {
    /// The text of an amount.
    pub fn of(cents: i64) -> Self {
        let mut bytes = [0; 24];
        let capacity = bytes.len();
        let mut rest = &mut bytes[..];
        let sign = if cents < 0 { "-" } else { "" };
        let cents = cents.unsigned_abs();
        // The longest i64 has 19 digits, a sign and a point: it fits.
        let _ = write!(rest, "{sign}{}.{:02}", cents / 100, cents % 100);
        let length = (capacity - rest.len()) as u8;
        Self { bytes, length }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Cents of a DECIMAL with up to two digits after the point; `None` when it is none.
pub fn parse_cents(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut cents: i64 = 0;
    let mut after_point: Option<u32> = None;
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                after_point = after_point.map(|count| count + 1);
                cents = cents.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
            }
            b'.' if after_point.is_none() => after_point = Some(0),
            _ => return None,
        }
    }
    let missing = 2u32.checked_sub(after_point.unwrap_or(0))?;
    let cents = cents.checked_mul(10i64.pow(missing))?;
    (!digits.is_empty()).then_some(if negative { -cents } else { cents })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_loop::arrivals::Terminals;
    use proptest::prelude::*;

    #[test]
    fn of_customers_of_one_name_the_middle_one_is_chosen() {
        let of = |found: &[u32]| {
            CustomerChoice {
                found: found.to_vec(),
                ..CustomerChoice::default()
            }
            .id()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some(7));
        assert_eq!(of(&[7, 8]), Some(7));
        assert_eq!(of(&[7, 8, 9]), Some(8));
        assert_eq!(of(&[7, 8, 9, 10]), Some(8));
    }

    #[test]
    fn amounts_are_read_with_none_one_or_two_digits_after_the_point() {
        assert_eq!(parse_cents(b"12.34"), Some(1234));
        assert_eq!(parse_cents(b"-0.05"), Some(-5));
        assert_eq!(parse_cents(b"7"), Some(700));
        assert_eq!(parse_cents(b"7.5"), Some(750));
        assert_eq!(parse_cents(b"7.555"), None);
        assert_eq!(parse_cents(b""), None);
        assert_eq!(parse_cents(b"1e3"), None);
    }

    proptest! {
        #[test]
        fn every_amount_comes_back(cents in -1_000_000_000_000_000i64..1_000_000_000_000_000) {
            prop_assert_eq!(parse_cents(AmountText::of(cents).bytes()), Some(cents));
        }
    }

    #[test]
    fn a_stream_has_the_same_terminals_and_decks_of_its_own() {
        let plan = plan(7);
        let kinds = |base: u64| (0..1000).map(|count| plan.kind(base + count)).collect::<Vec<_>>();
        let base = random::first_number(3, true);
        assert_eq!(plan.terminal(base + 8), (1, 1));
        assert_ne!(kinds(base), kinds(0));
        assert_ne!(kinds(base), kinds(random::first_number(4, true)));
        assert_ne!(kinds(base), kinds(random::first_number(3, false)));
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
}
