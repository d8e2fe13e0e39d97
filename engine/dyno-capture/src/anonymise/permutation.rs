//! A keyed permutation of the values of one form, in which each place has its own number of possible digits: equal values
//! stay equal, and different ones different, so that unique keys hold.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Rounds of the Feistel network.
const ROUNDS: u8 = 6;

/// Kinds of permutations.
pub(super) mod kind {
    pub const TEXT: u8 = 0;
    pub const WHOLE: u8 = 1;
    pub const FRACTION: u8 = 2;
    pub const DATE: u8 = 3;
    pub const TIME: u8 = 4;
    pub const ADDRESS: u8 = 5;
    pub const HEX: u8 = 6;
    pub const BITS: u8 = 7;
}

/// A place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digit {
    /// Below `radix`.
    pub value: u16,
    /// How many values there are, at most 256.
    pub radix: u16,
}

/// The permutations of one key, HMAC-SHA-256 of which is their function of each round.
pub(super) struct Permutation {
    key: Hmac<Sha256>,
}

impl Permutation {
    pub(super) fn new(key: &[u8]) -> Self {
        let key = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        Self { key }
    }

    /// Replaces the digits by those of the pseudonym; `kind` tells forms of the same places apart.
    pub(super) fn permute(&self, kind: u8, digits: &mut [Digit]) {
        let half = digits.len() / 2;
        for round in 0..ROUNDS {
            let (left, right) = digits.split_at_mut(half);
            let (changed, other) = if round % 2 == 0 { (right, left) } else { (left, right) };
            let mut key = self.key.clone();
            key.update(&[kind, round]);
            for digit in &*other {
                key.update(&digit.value.to_le_bytes());
                key.update(&digit.radix.to_le_bytes());
            }
            for (block, digits) in changed.chunks_mut(16).enumerate() {
                let mut key = key.clone();
                key.update(&(block as u64).to_le_bytes());
                let bytes = key.finalize().into_bytes();
                for (digit, bytes) in digits.iter_mut().zip(bytes.chunks_exact(2)) {
                    let added = u16::from_le_bytes([bytes[0], bytes[1]]) % digit.radix;
                    digit.value = (digit.value + added) % digit.radix;
                }
            }
        }
    }

    /// As [`Self::permute`], among the values of which `is_member` holds, as it does of this one.
    pub(super) fn permute_within(&self, kind: u8, digits: &mut [Digit], is_member: impl Fn(&[Digit]) -> bool) {
        loop {
            self.permute(kind, digits);
            if is_member(digits) {
                return;
            }
        }
    }
}
