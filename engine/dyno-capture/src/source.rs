//! Where statements come from.

use serde::{Deserialize, Serialize};

/// Where statements were read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The general query log.
    GeneralLog,
    /// The slow query log.
    SlowLog,
    /// performance_schema.events_statements_history_long.
    StatementsHistory,
    /// performance_schema.events_statements_summary_by_digest: one statement of each digest.
    StatementDigests,
    /// Packets between clients and the server.
    Packets,
}

impl Source {
    /// As it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::GeneralLog => "general log",
            Self::SlowLog => "slow log",
            Self::StatementsHistory => "statements history of performance_schema",
            Self::StatementDigests => "statement digests of performance_schema",
            Self::Packets => "packet capture",
        }
    }
}
