//! What is replayed of a capture, and when: decided before the first connection.

use std::collections::{BTreeMap, BTreeSet};

use dyno_capture::{Fingerprint, ProblemCount};

/// What is taken from the capture.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only statements that read, set variables of their session, or begin and end transactions.
    pub read_only: bool,
    /// Schemas by their names in the capture, and what they are called on the server.
    pub schemas: BTreeMap<String, String>,
    /// The default schema of sessions for which the capture has none.
    pub default_schema: Option<String>,
    /// The first sessions only.
    pub limit_sessions: Option<u32>,
    /// What began before this time only, µs.
    pub limit_us: Option<u64>,
}

/// What a session does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Sends the statement of this index in [`ReplayPlan::statements`].
    Statement(u32),
    /// Selects a default schema; not counted as a statement.
    Use(String),
    /// Begins a new connection, with this default schema.
    Reset(Option<String>),
}

/// One step of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When it is due, by the capture, µs.
    pub at_us: u64,
    /// What.
    pub act: Act,
}

/// One captured session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its number in the capture.
    pub number: u32,
    /// When its connection is opened, µs; where the capture has no begin of it, that of its first step.
    pub open_us: u64,
    /// Whether the capture has the beginning of its connection.
    pub has_connect: bool,
    /// When it is closed, unless it is later with its last step; none: after the last step.
    pub close_us: Option<u64>,
    /// The default schema that it begins with.
    pub schema: Option<String>,
    /// What it does.
    pub steps: Vec<Step>,
}

/// One statement to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The number of its event in the capture, from 1 on.
    pub event: u64,
    /// Its session in the capture.
    pub session: u32,
    /// When it is due, by the capture, µs.
    pub at_us: u64,
    /// Index in [`ReplayPlan::digests`].
    pub digest: u32,
    /// Its text.
    pub text: Vec<u8>,
}

/// A digest with its short name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Its short name.
    pub fingerprint: Fingerprint,
    /// Its text.
    pub text: String,
}

/// Statements that are not sent, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct LeftOut {
    /// They administer the server, its accounts or other sessions.
    pub administration: u64,
    /// They do not only read, and `--read-only` is set.
    pub not_read_only: u64,
    /// They began after the limit of time.
    pub after_limit: u64,
    /// Their sessions are beyond the limit of sessions.
    pub beyond_sessions: u64,
}

/// A replay.
#[derive(Debug, Clone, Default)]
pub struct ReplayPlan {
    /// Sessions, in the order in which they are opened.
    pub sessions: Vec<Session>,
    /// Statements, in the order of the capture.
    pub statements: Vec<Statement>,
    /// Their digests.
    pub digests: Vec<Digest>,
    /// What is not sent.
    pub left_out: LeftOut,
    /// Statements that need a default schema, of sessions that began before the log and whose schema is unknown.
    pub unknown_schema: u64,
    /// What the capture states that it lacks.
    pub problems: Vec<ProblemCount>,
    /// Default schemas that must be there: those which the capture does not create itself.
    pub needed_schemas: BTreeSet<String>,
    /// The time of the last event, µs.
    pub end_us: u64,
    /// The most sessions that are open at a time.
    pub peak_sessions: u32,
}
