//! Errors by code, with the first message of each.

use std::collections::BTreeMap;

/// Codes of the client's side, as MySQL's client library numbers them.
pub mod client_code {
    /// The connection could not be made.
    pub const CONNECTION: u16 = 2003;
    /// The connection was lost.
    pub const SERVER_LOST: u16 = 2013;
    /// Tables without a row that the workload counts on (CR_UNKNOWN_ERROR).
    pub const UNEXPECTED_DATA: u16 = 2000;
    /// The answer was not the protocol's.
    pub const MALFORMED_PACKET: u16 = 2027;
}

/// One code.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ErrorCount {
    /// How many.
    pub count: u64,
    /// The first message.
    pub message: String,
}

/// Counts by code.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ErrorCounts(BTreeMap<u16, ErrorCount>);

impl ErrorCounts {
    /// Counts one error.
    pub fn record(&mut self, code: u16, message: &str) {
        let entry = self.0.entry(code).or_insert_with(|| ErrorCount {
            count: 0,
            message: message.to_string(),
        });
        entry.count += 1;
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        for (code, theirs) in &other.0 {
            self.0
                .entry(*code)
                .or_insert_with(|| ErrorCount {
                    count: 0,
                    message: theirs.message.clone(),
                })
                .count += theirs.count;
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether a connection was lost, or could not be made.
    pub fn has_losses(&self) -> bool {
        [client_code::CONNECTION, client_code::SERVER_LOST]
            .iter()
            .any(|code| self.0.contains_key(code))
    }

    /// By code.
    pub fn by_code(&self) -> &BTreeMap<u16, ErrorCount> {
        &self.0
    }
}
