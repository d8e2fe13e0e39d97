//! What the five transaction profiles have in common (clauses 2.4 to 2.8): steps, customers, amounts, values of rows.

use std::io::Write as _;

use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use super::config::{between, put_last_name, TpccConfig};
use super::statements::Id;

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
    use proptest::prelude::*;

    use super::*;

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
}
