//! Amounts as whole cents: they are DECIMAL in the tables and never pass through a float.

use std::io::Write as _;

/// An amount in cents as the server takes it, as in 12.34.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    bytes: [u8; 24],
    length: u8,
}

impl Text {
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
pub fn parse(text: &[u8]) -> Option<i64> {
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
    fn amounts_are_read_with_none_one_or_two_digits_after_the_point() {
        assert_eq!(parse(b"12.34"), Some(1234));
        assert_eq!(parse(b"-0.05"), Some(-5));
        assert_eq!(parse(b"7"), Some(700));
        assert_eq!(parse(b"7.5"), Some(750));
        assert_eq!(parse(b"7.555"), None);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1e3"), None);
    }

    proptest! {
        #[test]
        fn every_amount_comes_back(cents in -1_000_000_000_000_000i64..1_000_000_000_000_000) {
            prop_assert_eq!(parse(Text::of(cents).bytes()), Some(cents));
        }
    }
}
