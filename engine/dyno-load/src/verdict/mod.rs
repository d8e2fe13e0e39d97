//! The verdict of a run on itself: can its figures be believed? One rule a file.

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
mod unfinished;
mod wrong_values;

use serde::Serialize;

use crate::agents::AgentFacts;
use crate::run::{End, Failure, Totals};
use crate::server::CounterCheck;

/// How far the figures can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Nothing speaks against them.
    Valid,
    /// Something may have moved them.
    Suspect,
    /// They do not mean what they say.
    Invalid,
}

impl Verdict {
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
    pub level: Verdict,
    /// The sentence with the figure and what to try.
    #[serde(rename = "text")]
    pub reason: String,
}

/// What the rules look at.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Sums of the run.
    pub totals: &'a Totals,
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
    /// The server's counters against ours; empty where they could not be read.
    pub counters: &'a [CounterCheck],
    /// The agents that loaded; empty where this program did it itself.
    pub agents: &'a [AgentFacts],
    /// TCP segments sent and sent again on this host meanwhile; none over a Unix socket, and where agents loaded.
    pub tcp: Option<TcpSegments>,
    /// The share of keys that should be there; none where none was asked for, and for SQL.
    pub asked_hit_share: Option<f64>,
}

/// The kernel's count of TCP segments over all connections of this network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpSegments {
    /// Sent.
    pub sent: u64,
    /// Sent again.
    pub retransmitted: u64,
}

type Rule = fn(&Evidence<'_>) -> Option<Finding>;

const RULES: [Rule; 14] = [
    failed::judge,
    empty::judge,
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
];

/// The worst of all rules, and every finding.
pub fn judge(evidence: &Evidence<'_>) -> (Verdict, Vec<Finding>) {
    let findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(evidence)).collect();
    let verdict = findings
        .iter()
        .map(|finding| finding.level)
        .max()
        .unwrap_or(Verdict::Valid);
    (verdict, findings)
}

/// The level of a value by its two limits; none below the first.
fn level(value: f64, suspect: f64, invalid: f64) -> Option<Verdict> {
    if value > invalid {
        Some(Verdict::Invalid)
    } else if value > suspect {
        Some(Verdict::Suspect)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
