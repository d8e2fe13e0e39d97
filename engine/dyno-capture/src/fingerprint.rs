//! Short names for digests and the contents of rows.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A short name for a digest: XXH3 of its text, 64 bits.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16)
            .map(Fingerprint)
            .map_err(|_| serde::de::Error::custom(format!("'{text}' is not a fingerprint of 16 hexadecimal digits")))
    }
}

/// The fingerprint of bytes, such as a digest or the encoded values of a row.
pub fn fingerprint(bytes: &[u8]) -> Fingerprint {
    Fingerprint(xxhash_rust::xxh3::xxh3_64(bytes))
}
