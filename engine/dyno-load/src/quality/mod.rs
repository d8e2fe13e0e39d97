//! The quality of a run: whether its figures can be believed. One rule a file.

mod absent_rows;
mod clipped;
mod clock;
mod cpu;
mod cpu_wait;
mod dropped;
mod empty;
mod failed;
mod hit_ratio;
mod lag;
mod network;
mod not_stored;
mod reconciliation;
mod unavailable;
mod unfinished;
mod wrong_values;

use serde::Serialize;

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::{Counts, Extra, ThreadUsage};
use dyno_loop::{End, Failure, Totals};

use crate::agents::AgentFacts;
use crate::host::TcpSegments;
use crate::kv::KvCounts;
use crate::server::CounterCheck;

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
}

/// What the rules look at of a measurement, whatever its family.
#[derive(Debug, Clone, Copy)]
pub struct Measurement<'a> {
    /// Counts.
    pub counts: Counts,
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
}

impl<'a> Measurement<'a> {
    /// The measurement from the sums of a run.
    pub fn of<E: Extra>(totals: &'a Totals<E>) -> Self {
        Self {
            counts: totals.measured.counts,
            usage: totals.measured.usage,
            response: &totals.measured.response,
            service: &totals.measured.service,
            lag: &totals.measured.lag,
            busiest_worker_cpu_pct: totals.busiest_worker_cpu_pct,
            unavailable_s: totals.unavailable_s,
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
    /// The share of keys that should be there; none where none was requested.
    pub asked_hit_share: Option<f64>,
}

type Rule = fn(&QualityInputs<'_>) -> Option<Finding>;

const RULES: [Rule; 16] = [
    failed::judge,
    empty::judge,
    unavailable::judge,
    lag::judge,
    cpu::judge,
    cpu_wait::judge,
    dropped::judge,
    unfinished::judge,
    network::judge,
    reconciliation::judge,
    clipped::judge,
    wrong_values::judge,
    not_stored::judge,
    hit_ratio::judge,
    clock::judge,
    absent_rows::judge,
];

/// The worst of all rules, and every finding.
pub fn judge(inputs: &QualityInputs<'_>) -> (RunQuality, Vec<Finding>) {
    let findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(inputs)).collect();
    let quality = findings
        .iter()
        .map(|finding| finding.level)
        .max()
        .unwrap_or(RunQuality::Valid);
    (quality, findings)
}

/// The quality of a run in which no load was started.
pub fn without_load() -> (RunQuality, Vec<Finding>) {
    let finding = Finding {
        rule: "empty",
        level: RunQuality::Invalid,
        reason: "no load was started".to_string(),
    };
    (RunQuality::Invalid, vec![finding])
}

/// The level of a value by its two limits; none below the first.
fn level(value: f64, suspect: f64, invalid: f64) -> Option<RunQuality> {
    if value > invalid {
        Some(RunQuality::Invalid)
    } else if value > suspect {
        Some(RunQuality::Suspect)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
