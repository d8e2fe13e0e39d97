//! What the rules look at, and what they find.

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::{Counts, ErrorCounts, Extra, ThreadUsage};
use dyno_loop::{End, Failure, Totals};
use serde::Serialize;

use crate::agents::AgentFacts;
use crate::host::TcpSegments;
use crate::kv::KvCounts;
use crate::server::CounterCheck;
use crate::sql::{SqlRecord, SqlSettings, SqlWorkload};

/// What the rules look at.
#[derive(Debug)]
pub struct QualityInputs<'a> {
    /// The measurement.
    pub measured: Measurement<'a>,
    /// What was left at the end.
    pub end: End,
    /// Length of the measurement.
    pub duration_s: f64,
    /// Worker threads.
    pub threads: u32,
    /// Why the run ended early; none when it did not.
    pub failure: Option<&'a Failure>,
    /// Whether there was a plan.
    pub open_loop: bool,
    /// The server's counters against ours; empty where the workload cannot be compared, or they could not be read.
    pub counters: &'a [CounterCheck],
    /// Whether the server's counters were read before and after the load.
    pub counters_read: bool,
    /// The agents that loaded; empty where this program did it itself.
    pub agents: &'a [AgentFacts],
    /// TCP segments sent and sent again on this host meanwhile; none over a Unix socket, and where agents loaded.
    pub tcp: Option<TcpSegments>,
    /// What only memcached has; none for SQL.
    pub kv: Option<KvInputs<'a>>,
    /// The statements of a user's file, script or capture; none for dynoload's own workloads.
    pub own_sql: Option<OwnSql>,
    /// Length of the trace that is the plan; none with another plan, and without.
    pub trace_s: Option<f64>,
    /// Warehouses of TPC-C that terminals order from, and all; none for another workload.
    pub warehouses: Option<(u64, u64)>,
}

/// Statements whose rows the user alone knows.
#[derive(Debug, Clone, Default)]
pub struct OwnSql {
    /// Names of those that read and never found a row.
    pub never_found: Vec<String>,
    /// How long scripts held their threads, between a statement's answer and the next statement; 0 without a script.
    pub held_s: f64,
    /// Whether a thread serves several connections.
    pub threads_are_shared: bool,
    /// Whether each of them is there to find something: those of a file are, those of a capture need not be.
    pub every_statement_counts: bool,
    /// Whether a transaction with an ignored error is rolled back and counted.
    pub counts_failed: bool,
    /// Whether errors may be those that a script has handled.
    pub handles_errors: bool,
}

impl OwnSql {
    /// From what was recorded; none for dynoload's own workloads.
    pub fn of(settings: &SqlSettings, record: &SqlRecord) -> Option<Self> {
        if matches!(settings.workload, SqlWorkload::Oltp(_) | SqlWorkload::Tpcc(_)) {
            return None;
        }
        let named = record.named.iter();
        let never = named.filter(|one| one.reads > 0 && one.empty_reads == one.reads);
        Some(Self {
            never_found: never.map(|one| one.name.clone()).collect(),
            held_s: record.held_ns as f64 / 1e9,
            threads_are_shared: settings.connections() > settings.load.shape.threads,
            every_statement_counts: matches!(settings.workload, SqlWorkload::File(_)),
            counts_failed: matches!(settings.workload, SqlWorkload::Captured(_)),
            handles_errors: matches!(settings.workload, SqlWorkload::Script(_)),
        })
    }
}

/// What the rules look at of a measurement, whatever its family.
#[derive(Debug, Clone, Copy)]
pub struct Measurement<'a> {
    /// Counts.
    pub counts: Counts,
    /// Errors by code.
    pub errors: &'a ErrorCounts,
    /// What the workers' threads used.
    pub usage: ThreadUsage,
    /// From the intended time to the end.
    pub response: &'a Histogram,
    /// From the first byte sent to the last received.
    pub service: &'a Histogram,
    /// Delay caused by this program.
    pub lag: &'a Histogram,
    /// Highest CPU use of one worker in one interval, percent of one CPU.
    pub busiest_worker_cpu_pct: f64,
    /// Length of the intervals in which the server was away.
    pub unavailable_s: f64,
    /// Length of the longest time without a transaction.
    pub longest_silence_s: f64,
}

impl<'a> Measurement<'a> {
    /// The measurement from the sums of a run.
    pub fn of<E: Extra>(totals: &'a Totals<E>) -> Self {
        Self {
            counts: totals.measured.counts,
            errors: &totals.measured.errors,
            usage: totals.measured.usage,
            response: &totals.measured.response,
            service: &totals.measured.service,
            lag: &totals.measured.lag,
            busiest_worker_cpu_pct: totals.busiest_worker_cpu_pct,
            unavailable_s: totals.unavailable_s,
            longest_silence_s: totals.longest_silence_s,
        }
    }
}

/// What the rules look at of memcached operations.
#[derive(Debug, Clone, Copy)]
pub struct KvInputs<'a> {
    /// Counts of the measurement.
    pub measured: &'a KvCounts,
    /// Counts of the whole load.
    pub all: &'a KvCounts,
    /// The share of keys that should be found; none where every share is allowed.
    pub expected_hit_share: Option<f64>,
}

/// How far the figures can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunQuality {
    /// No rule found anything.
    Valid,
    /// Something may have moved them.
    Suspect,
    /// They do not mean what they seem to.
    Invalid,
}

impl RunQuality {
    /// Its word in results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Suspect => "SUSPECT",
            Self::Invalid => "INVALID",
        }
    }
}

/// What one rule found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// How bad it is.
    pub level: RunQuality,
    /// The sentence with the figure and what to try.
    #[serde(rename = "text")]
    pub reason: String,
}

/// The level of a value by its two limits; none below the first.
pub fn level(value: f64, suspect: f64, invalid: f64) -> Option<RunQuality> {
    if value > invalid {
        Some(RunQuality::Invalid)
    } else if value > suspect {
        Some(RunQuality::Suspect)
    } else {
        None
    }
}
