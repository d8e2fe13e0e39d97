//! What became of each statement.

use std::collections::BTreeMap;

use dyno_capture::{fingerprint, Fingerprint, UniqueKeys};

use super::{Pace, ReplayPlan};
use crate::server::Facts;

/// One statement that was sent, or could not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Index in the plan.
    pub statement: u32,
    /// When it was sent, since the beginning of the replay, ns.
    pub started_ns: u64,
    /// Between the time that it was due and the time that it was sent, ns.
    pub lag_ns: u64,
    /// The part of the lag that this program caused: its session was free, ns.
    pub own_lag_ns: u64,
    /// Between sending it and the end of its answer, ns.
    pub service_ns: u64,
    /// Rows returned.
    pub rows: u64,
    /// Rows changed.
    pub affected_rows: u64,
    /// The server's error, or the client's (2013: the connection was lost); 0 for none.
    pub error: u16,
    /// Sum of the fingerprints of the rows, whatever their order; only where results are compared.
    pub checksum: u64,
    /// The same in their order.
    pub order: u64,
}

/// Any large odd number: no power of it is 0.
const ODD_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Adds a row to the sum of fingerprints, whatever their order, and to that in their order: of a polynomial, so that a row
/// that moves changes it.
pub fn add_row(checksum: &mut u64, order: &mut u64, payload: &[u8]) {
    let row = fingerprint(payload).0;
    *checksum = checksum.wrapping_add(row);
    *order = order.wrapping_mul(ODD_FACTOR).wrapping_add(row);
}

/// Why statements of the plan were not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct NotSent {
    /// Their session's connection could not be made.
    pub not_connected: u64,
    /// The replay ended before: it was interrupted, or the server no longer answered.
    pub at_end: u64,
}

/// The first error of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstError {
    /// Index of the statement in the plan; the greatest number for an error of connecting.
    pub statement: u32,
    /// The server's message.
    pub message: String,
}

/// All that is known when a replay has ended.
#[derive(Debug)]
pub struct Replayed {
    /// The plan.
    pub plan: ReplayPlan,
    /// What became of it; statements in the order of the capture.
    pub record: Record,
    /// The server.
    pub server: Facts,
    /// The unique keys of its tables, where results are written.
    pub unique_keys: UniqueKeys,
    /// From the time that the first event was due to the end, ns.
    pub duration_ns: u64,
    /// By Ctrl-C.
    pub interrupted: bool,
    /// Whether it was paced.
    pub pace: Pace,
    /// What the results belong to.
    pub identity: Fingerprint,
    /// Threads.
    pub threads: u32,
}

/// What one worker has seen.
#[derive(Debug, Default)]
pub struct Record {
    /// Statements, in the order of their ends.
    pub outcomes: Vec<Outcome>,
    /// By error code and digest.
    pub first_errors: BTreeMap<(u16, u32), FirstError>,
    /// Connections that could not be made, by error code, with the first message.
    pub refused: BTreeMap<u16, (u64, String)>,
    /// Statements that were not sent.
    pub not_sent: NotSent,
    /// Connections that were made.
    pub connections: u64,
    /// Connections that were lost, and made again where their session had more to do.
    pub lost_connections: u64,
    /// Selections of a schema that failed, with the first message.
    pub failed_selections: Option<(u64, String)>,
    /// CPU time of the worker, ns.
    pub cpu_ns: u64,
}

impl Record {
    /// Adds another worker's.
    pub fn merge(&mut self, other: Record) {
        self.outcomes.extend(other.outcomes);
        for (key, error) in other.first_errors {
            self.note_error(key, error);
        }
        for (code, (count, message)) in other.refused {
            self.refused.entry(code).or_insert((0, message)).0 += count;
        }
        self.not_sent.not_connected += other.not_sent.not_connected;
        self.not_sent.at_end += other.not_sent.at_end;
        self.connections += other.connections;
        self.lost_connections += other.lost_connections;
        if let Some((count, message)) = other.failed_selections {
            self.failed_selections.get_or_insert((0, message)).0 += count;
        }
        self.cpu_ns += other.cpu_ns;
    }

    /// Keeps the error of the earliest statement.
    pub fn note_error(&mut self, key: (u16, u32), error: FirstError) {
        let first = self.first_errors.entry(key).or_insert_with(|| error.clone());
        if error.statement < first.statement {
            *first = error;
        }
    }
}
