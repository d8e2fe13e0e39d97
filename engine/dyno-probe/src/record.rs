//! The records of the stream, one JSON object per line ([`dyno_core::wire`]), each with `record`, `unix_ns` and
//! `monotonic_ns`.
//!
//! `header`, `sample`, `error`, `recovered`, `reset`, `gone`, `driver`, `mark` and `speed` (replies to the commands in
//! [`crate::waiter`]), `footer`. Readers reject a `format_version` that they do not know and ignore unknown keys. A
//! stream without a footer was truncated; its complete lines are valid. A metric that cannot be determined is absent,
//! never 0: the first sample has no rates, and a server that does not reply within half the interval has no status.
//! Redo of MySQL before 8.0.30 and of MariaDB before 10.5 needs the privilege PROCESS.

use serde::Serialize;

/// Version of the stream's format; raised when a key changes its meaning or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Time {
    /// Nanoseconds since 1970-01-01 UTC.
    pub unix_ns: u64,
    /// Nanoseconds that never go back.
    pub monotonic_ns: u64,
}

/// Whether a family can be read for one scope.
#[derive(Debug, Clone, Serialize)]
pub struct Availability {
    /// The family.
    pub name: &'static str,
    /// What it would be read for; absent when there is nothing to read it for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Whether it is read.
    pub available: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A watched server, in the header.
#[derive(Debug, Clone, Serialize)]
pub struct InstanceFacts {
    /// The caller's name for it.
    pub id: String,
    /// Its number.
    pub pid: u32,
    /// `VERSION()`, once it has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `@@version_comment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_comment: Option<String>,
    /// Where its redo is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redo_source: Option<&'static str>,
}

/// A watched load program, in the header.
#[derive(Debug, Clone, Serialize)]
pub struct DriverFacts {
    /// The caller's name for it.
    pub id: String,
    /// Its number.
    pub pid: u32,
}

/// The rest of the header line.
#[derive(Debug, Clone, Serialize)]
pub struct Header {
    /// Milliseconds between samples; 0: on demand.
    pub interval_ms: u64,
    /// The clock of `monotonic_ns`.
    pub clock: &'static str,
    /// When the stream began.
    #[serde(flatten)]
    pub time: Time,
    /// Servers.
    pub instances: Vec<InstanceFacts>,
    /// Load programs at the beginning.
    pub drivers: Vec<DriverFacts>,
    /// Disks, by their kernel names.
    pub disks: Vec<String>,
    /// Families, and why one is not read.
    pub families: Vec<Availability>,
}

/// `sample`: what was read.
#[derive(Debug, Serialize)]
pub struct SampleRecord<'a> {
    /// When the reading began.
    #[serde(flatten)]
    pub time: Time,
    /// How much later that was than planned.
    pub late_us: u64,
    /// Metrics by scope.
    pub metrics: &'a crate::sample::Sample,
}

/// `error` when a family begins to fail, `recovered` when it is read again, `gone` when a process has ended, `reset`
/// when counters went backwards.
#[derive(Debug, Serialize)]
pub struct Event<'a> {
    /// When.
    #[serde(flatten)]
    pub time: Time,
    /// What was read.
    pub family: &'a str,
    /// For what.
    pub scope: &'a str,
    /// What happened.
    pub message: &'a str,
}

/// `mark`: a text that the caller sent.
#[derive(Debug, Serialize)]
pub struct Mark<'a> {
    /// When it was read from standard input.
    #[serde(flatten)]
    pub time: Time,
    /// As it was sent.
    pub text: &'a str,
}

/// `speed`: what the speed meter has run since it was started.
#[derive(Debug, Serialize)]
pub struct SpeedRecord<'a> {
    /// When.
    #[serde(flatten)]
    pub time: Time,
    /// As it was sent.
    pub id: &'a str,
    /// Units of work, of all CPUs.
    pub units: u64,
    /// CPU time of all of them, in nanoseconds.
    pub cpu_ns: u64,
}

/// `driver`: a load program is watched from now on, or no longer.
#[derive(Debug, Serialize)]
pub struct DriverRecord<'a> {
    /// When.
    #[serde(flatten)]
    pub time: Time,
    /// The caller's name for it.
    pub id: &'a str,
    /// Its number; null when it is no longer watched.
    pub pid: Option<u32>,
    /// Families and why one is not read; empty when it is no longer watched.
    pub families: Vec<Availability>,
}

/// How often one family failed for one scope.
#[derive(Debug, Clone, Serialize)]
pub struct FailureCount {
    /// The family.
    pub family: String,
    /// For what.
    pub scope: String,
    /// Samples without it.
    pub samples: u64,
    /// The last failure's words.
    pub message: String,
}

/// `footer`: the last line of a stream that ended in order. A stream without it was cut off.
#[derive(Debug, Serialize)]
pub struct Footer<'a> {
    /// When.
    #[serde(flatten)]
    pub time: Time,
    /// Why the run ended.
    pub reason: &'a str,
    /// Samples written.
    pub samples: u64,
    /// Samples that began later than a tenth of the interval.
    pub late: u64,
    /// Samples left out because the one before took too long.
    pub missed: u64,
    /// The greatest lateness.
    pub late_max_us: u64,
    /// Status readings that came after their sample was written, and were dropped.
    pub status_late: u64,
    /// Counters that went backwards; each made one value absent.
    pub resets: u64,
    /// What failed.
    pub failures: Vec<FailureCount>,
    /// The probe's own CPU time in user space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_cpu_user_us: Option<u64>,
    /// The probe's own CPU time in the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_cpu_system_us: Option<u64>,
}
