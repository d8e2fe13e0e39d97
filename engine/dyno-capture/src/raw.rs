//! What the readers of logs find.

use crate::event::Statement;
use crate::timestamp::Micros;

/// What a reader has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// When; none where the log had no time so far.
    pub at: Option<Micros>,
    /// Whether later entries of the same second have this time too.
    pub is_shared_second: bool,
    /// The server's number of the connection; of packets, one of our own.
    pub connection_id: u64,
    /// user@host, where each entry states it.
    pub user: Option<String>,
    /// Its line.
    pub line: u64,
    /// What.
    pub action: RawAction,
}

/// What a connection did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawAction {
    /// Began.
    Connect {
        /// user@host.
        user: Option<String>,
        /// Default schema.
        schema: Option<String>,
    },
    /// Sent a statement, or executed a prepared one.
    Statement {
        /// Text, duration and rows. A schema that is none is that of the session.
        statement: Statement,
        /// Whether it is an execution of a prepared statement.
        is_execution: bool,
    },
    /// Selected a default schema.
    Schema(String),
    /// Began anew.
    Reset {
        /// user@host, where it changed.
        user: Option<String>,
        /// Default schema.
        schema: Option<String>,
    },
    /// Ended.
    Quit,
    /// Was refused.
    Refused,
}
