//! What the readers of logs find, and what a capture holds of it.

use serde::{Deserialize, Serialize};

use crate::problems::ProblemCount;
use crate::timestamp::Micros;

/// What is known of a capture as a whole: its first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Where the statements were read from.
    pub source: Source,
    /// The server's version, in its own words, where the log states it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
    /// The files that were read, without their folders.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub files: Vec<String>,
    /// When the first event happened, by the clock that the log was written with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub begin: Option<String>,
    /// The unit of the log's times, µs: 1,000,000 where it has whole seconds.
    pub resolution_us: u64,
    /// Whether events of the same second were spread evenly over it.
    pub spread: bool,
    /// Whether literals are pseudonyms.
    pub anonymised: bool,
    /// From the first event to the end of the last one, µs.
    pub duration_us: u64,
    /// Sessions.
    pub sessions: u64,
    /// The most sessions that were open at a time.
    pub peak_sessions: u64,
    /// Events.
    pub events: u64,
    /// Statements among them.
    pub statements: u64,
    /// Statements among them that do not only read, by their texts; none in captures of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub writing: Option<u64>,
    /// What could not be captured, by kind, with the places of the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub problems: Vec<ProblemCount>,
}

/// A statement as its session sent it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statement {
    /// The default schema in which it was executed; none where it is unknown or there was none.
    pub schema: Option<String>,
    /// Its text. Bytes, because a literal need not be UTF-8.
    pub text: Vec<u8>,
    /// How long it took, where the source has it, µs.
    pub duration_us: Option<u64>,
    /// Rows that it returned, where the source has them.
    pub rows: Option<u64>,
    /// How often it was executed, where it stands for all executions of its digest.
    pub count: Option<u64>,
}

impl Statement {
    /// What sets the session's character set.
    pub fn set_names(charset: &str) -> Self {
        Self {
            text: format!("SET NAMES {charset}").into_bytes(),
            ..Self::default()
        }
    }
}

/// What a session did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It began. Absent where it had begun before the log.
    Connect {
        /// The server's number of the connection.
        connection_id: u64,
        /// user@host.
        user: Option<String>,
        /// Its default schema.
        schema: Option<String>,
    },
    /// It sent a statement.
    Statement(Statement),
    /// It changed its default schema: USE, or the protocol's command.
    Schema(String),
    /// It began anew with another user or the same one (COM_CHANGE_USER, COM_RESET_CONNECTION): temporary tables,
    /// variables and transactions are gone.
    Reset {
        /// user@host, where it changed.
        user: Option<String>,
        /// Its default schema, where it was set.
        schema: Option<String>,
    },
    /// It ended.
    Quit,
}

/// One line of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it began, since the capture's begin, µs.
    pub at_us: u64,
    /// The session's number in the capture, from 1 on in the order of their first events.
    pub session: u32,
    /// What happened.
    pub action: Action,
}

/// Header and events in the order of time; those of one session are in the order in which it sent them.
#[derive(Debug, Clone, PartialEq)]
pub struct Capture {
    /// The first line.
    pub header: Header,
    /// The others.
    pub events: Vec<Event>,
}

impl Capture {
    /// Why it cannot be replayed; none if it can.
    pub fn not_replayed(&self) -> Option<&'static str> {
        (self.header.source == Source::StatementDigests)
            .then_some("has one statement of each digest: compare them with `dynoload statements`, or capture a log")
    }
}

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
