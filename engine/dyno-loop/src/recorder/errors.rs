//! Why a run, or one connection, cannot go on; errors by code, with the first message of each, and how long the parts of
//! making a connection take.

use std::collections::BTreeMap;

use dyno_core::histogram::Histogram;

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

/// A part of making a connection, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// From the call of connect(2) to the server's greeting: the network, the accept queue, and the server's thread.
    Greeting,
    /// The TLS handshake, full or resumed.
    Tls,
    /// From there to the server's OK: the account is proved.
    Authentication,
    /// The initial statements, and preparing those of the workload.
    Statements,
}

impl Part {
    /// All, in order.
    pub const ALL: [Self; 4] = [Self::Greeting, Self::Tls, Self::Authentication, Self::Statements];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Greeting => "greeting",
            Self::Tls => "tls",
            Self::Authentication => "authentication",
            Self::Statements => "statements",
        }
    }
}

/// Times of all parts, ns; parts that did not take place (TLS, statements) have no values.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ConnectingTimes([Histogram; 4]);

impl ConnectingTimes {
    /// Counts one.
    pub fn record(&mut self, part: Part, ns: u64) {
        self.0[part as usize].record(ns);
    }

    /// The times of one part.
    pub fn of(&self, part: Part) -> &Histogram {
        &self.0[part as usize]
    }

    /// Whether no connection was made.
    pub fn is_empty(&self) -> bool {
        self.of(Part::Greeting).count() == 0
    }

    /// Adds another's times.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.merge(theirs);
        }
    }

    /// Makes it empty again without giving memory back.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(Histogram::clear);
    }
}

/// The end of a run before its time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{message}")]
pub struct Failure {
    /// The server's or the client library's error number; absent for what has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// What happened, where, and what to try.
    pub message: String,
}

impl Failure {
    /// A failure without a number.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
        }
    }

    /// A failure with the server's or the client library's number.
    pub fn with_code(code: u16, message: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            message: message.into(),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(format!("the kernel refused to wait for connections: {error}"))
    }
}

/// The loss of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The code under which it is counted: the server's, or one of [`crate::recorder::client_code`].
    pub code: u16,
    /// What happened.
    pub message: String,
    /// Whether connecting again could help; false where the server's data are wrong.
    pub can_reconnect: bool,
}

impl Loss {
    /// A loss after which connecting again may help.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            can_reconnect: true,
        }
    }
}

impl From<std::io::Error> for Loss {
    fn from(error: std::io::Error) -> Self {
        Self::new(
            crate::recorder::client_code::SERVER_LOST,
            format!("the connection failed: {error}"),
        )
    }
}

/// Why a session cannot go on.
#[derive(Debug)]
pub enum Stop {
    /// Its connection is lost.
    Lost(Loss),
    /// The whole run ends.
    Failed(Failure),
}

impl From<Loss> for Stop {
    fn from(loss: Loss) -> Self {
        Self::Lost(loss)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
