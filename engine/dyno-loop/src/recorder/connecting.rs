//! How long the parts of making a connection take.

use dyno_core::histogram::Histogram;

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
