//! What is replayed of a capture, how, and when: decided before the first connection.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dyno_capture::{Fingerprint, ProblemCount};

use crate::parse::{connections, positive_duration, speed, threads, within};
use crate::spec::ConnectionSpec;

/// What to replay, and how.
#[derive(Debug, Args)]
pub struct ReplayRun {
    /// Capture, made with `dynoload capture`
    pub capture: PathBuf,
    /// original, a factor as in 2 or 0.5, or max: each session as fast as it goes, not more sessions at a time than were
    /// captured
    #[arg(id = "speed", long = "speed", value_name = "SPEED", default_value = "original", value_parser = pace)]
    pub pace: Pace,
    /// The part of it.
    #[command(flatten)]
    pub selection: Selection,
    /// Most connections at a time; further sessions wait, which is counted as lag
    #[arg(long, value_parser = connections)]
    pub connections: Option<u32>,
    /// Worker threads; default: one for each 64 sessions at a time, at most one for each CPU
    #[arg(long, value_parser = threads)]
    pub threads: Option<u32>,
    /// After the last statement was due, end when no statement has ended for this time
    #[arg(long, default_value = "60s", value_parser = positive_duration)]
    pub grace: Duration,
    /// Error codes that do not make the result SUSPECT or INVALID, as in 1146,1062: those that the captured load had too
    #[arg(long, value_delimiter = ',')]
    pub ignore_errors: Vec<u16>,
    /// Write rows, error and checksum of each statement, for `dynoload compare-replays`
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Write the result as JSON lines to a file, or - for standard output (the table then goes to standard error)
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Print no progress
    #[arg(long)]
    pub quiet: bool,
    /// Permit a server that is neither MySQL nor MariaDB
    #[arg(long)]
    pub any_server: bool,
    /// The server.
    #[command(flatten)]
    pub connection: ConnectionSpec,
}

impl ReplayRun {
    /// Most connections at a time: as fast as possible not more than the capture had.
    pub fn most_open(&self, plan: &ReplayPlan) -> u32 {
        let most = self.connections.unwrap_or(match self.pace {
            Pace::Max => plan.peak_sessions,
            Pace::Times(_) => plan.sessions.len() as u32,
        });
        most.clamp(1, plan.sessions.len() as u32)
    }
}

/// What is taken from the capture.
#[derive(Debug, Clone, Default, Args)]
pub struct Selection {
    /// Send only SELECT, SHOW, SET of session variables, and transaction statements
    #[arg(long)]
    pub read_only: bool,
    /// Another name for a default schema, as in shop=shop_copy; repeatable. Names within statements stay
    #[arg(id = "schema", long = "schema", value_name = "FROM=TO", value_parser = schema)]
    pub schemas: Vec<(String, String)>,
    /// The first sessions only
    #[arg(long, value_parser = within::<1, { u32::MAX }>)]
    pub limit_sessions: Option<u32>,
    /// Only what began within this time of the capture's begin, as in 10m
    #[arg(long, value_parser = positive_duration)]
    pub limit_time: Option<Duration>,
    /// The default schema of sessions for which the capture has none.
    #[arg(skip)]
    pub default_schema: Option<String>,
}

impl Selection {
    /// What a schema of the capture is called on the server.
    pub fn name_of(&self, schema: String) -> String {
        let mut names = self.schemas.iter().rev();
        match names.find(|(from, _)| *from == schema) {
            Some((_, to)) => to.clone(),
            None => schema,
        }
    }
}

fn schema(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.to_string(), to.to_string())),
        _ => Err(format!("'{text}' is not FROM=TO, as in shop=shop_copy")),
    }
}

fn pace(text: &str) -> Result<Pace, String> {
    Ok(speed(text)?.map_or(Pace::Max, Pace::Times))
}

/// When captured times are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// This many times as fast as captured.
    Times(f64),
    /// As fast as each session goes.
    Max,
}

impl Pace {
    /// When what was captured at this time is due, since the beginning of the replay, ns.
    pub fn due_ns(self, at_us: u64) -> u64 {
        match self {
            Self::Times(factor) => (at_us as f64 * 1000.0 / factor) as u64,
            Self::Max => 0,
        }
    }

    /// The same on the clock of a replay that began at `begin_ns`; what is beyond that clock is due at its end.
    pub fn due_at_ns(self, begin_ns: u64, at_us: u64) -> u64 {
        begin_ns.saturating_add(self.due_ns(at_us))
    }
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
    /// Statements that are not UTF-8, of sessions that do not set their character set.
    pub unknown_charset: u64,
    /// What the capture states that it lacks.
    pub problems: Vec<ProblemCount>,
    /// Default schemas that must be there: those which the capture does not create itself.
    pub needed_schemas: BTreeSet<String>,
    /// The time of the last event, µs.
    pub end_us: u64,
    /// The most sessions that are open at a time.
    pub peak_sessions: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_captured_later_is_never_due_earlier() {
        let due_at_ns = |at_us| Pace::Times(0.5).due_at_ns(1_000, at_us);
        assert_eq!(due_at_ns(3), 7_000);
        assert_eq!(due_at_ns(u64::MAX), u64::MAX);
        assert_eq!(Pace::Max.due_at_ns(1_000, u64::MAX), 1_000);
    }
}
