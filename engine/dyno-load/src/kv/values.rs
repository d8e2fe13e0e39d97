//! Values that prove themselves: made from the key's number and a version, checked against both.
//!
//! A value of 32 bytes or more begins with its version in 16 hexadecimal digits; the rest is a stretch of one long random
//! text whose start hangs on key and version. A shorter one is a stretch that hangs on the key alone. Making a value is a
//! copy; checking it is a comparison.

use std::sync::LazyLock;

use dyno_core::random::{Domain, RandomStream};

use super::sizes::Sizes;

/// The start of every stretch is below this.
const STARTS: usize = 64 * 1024;
const TEXT_SEED: u64 = 0x7e47;
const START_SEED: u64 = 0x57a7;
const VERSION_DIGITS: usize = 16;
/// Shortest value that has room for a version.
const VERSIONED: usize = 32;

/// Random text for the filler of keys; the same in every run.
pub static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| random_text(STARTS));

fn random_text(length: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut stream = RandomStream::of(TEXT_SEED, Domain::Row, 0);
    let mut text = Vec::with_capacity(length + 8);
    while text.len() < length {
        let bits = stream.next_u64();
        text.extend((0..8).map(|place| ALPHABET[(bits >> (place * 6) & 63) as usize]));
    }
    text.truncate(length);
    text
}

/// Makes and checks values.
#[derive(Debug, Clone)]
pub struct Values {
    sizes: Sizes,
    text: std::sync::Arc<Vec<u8>>,
}

impl Values {
    /// Values of these sizes.
    pub fn new(sizes: Sizes) -> Self {
        let text = std::sync::Arc::new(random_text(STARTS + sizes.greatest() as usize));
        Self { sizes, text }
    }

    /// Length of the value of a key.
    #[inline]
    pub fn length(&self, number: u64) -> usize {
        self.sizes.of(number)
    }

    #[inline]
    fn stretch(&self, number: u64, version: u64, length: usize) -> &[u8] {
        let start = RandomStream::of(START_SEED ^ version, Domain::Row, number).next_u64() as usize % STARTS;
        &self.text[start..start + length]
    }

    /// Writes the value of a key and a version over `out`.
    #[inline]
    pub fn write(&self, number: u64, version: u64, out: &mut Vec<u8>) {
        out.clear();
        let length = self.sizes.of(number);
        if length < VERSIONED {
            out.extend_from_slice(self.stretch(number, 0, length));
            return;
        }
        for place in (0..VERSION_DIGITS).rev() {
            out.push(b"0123456789abcdef"[(version >> (place * 4) & 15) as usize]);
        }
        out.extend_from_slice(self.stretch(number, version, length - VERSION_DIGITS));
    }

    /// Whether this is the value of the key in any version.
    pub fn is_right(&self, number: u64, value: &[u8]) -> bool {
        if value.len() != self.sizes.of(number) {
            return false;
        }
        if value.len() < VERSIONED {
            return value == self.stretch(number, 0, value.len());
        }
        let (digits, rest) = value.split_at(VERSION_DIGITS);
        let version = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok());
        version.is_some_and(|version| rest == self.stretch(number, version, rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_is_right_for_its_key_and_wrong_when_anything_changes(
            number in 0u64..1 << 40, version: u64, length in 8u32..3000, place: usize, other in 0u64..1 << 40,
        ) {
            let values = Values::new(Sizes::Fixed(length));
            let mut value = Vec::new();
            values.write(number, version, &mut value);
            prop_assert_eq!(value.len(), length as usize);
            prop_assert!(values.is_right(number, &value));
            prop_assert!(value.iter().all(u8::is_ascii_graphic));
            if other != number {
                // Another key's value could be the same only where its stretch starts at the same place.
                let mut theirs = Vec::new();
                values.write(other, version, &mut theirs);
                prop_assert_eq!(values.is_right(number, &theirs), theirs == value);
            }
            let place = place % value.len();
            value[place] ^= 1;
            prop_assert!(!values.is_right(number, &value));
            value[place] ^= 1;
            prop_assert!(!values.is_right(number, &value[1..]));
        }
    }
}
