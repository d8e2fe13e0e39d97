//! The quality of a run: whether its figures can be believed. One rule a file, beside what rules are given and find.

mod absent_rows;
mod clipped;
mod clock;
mod cpu;
mod cpu_wait;
mod dropped;
mod empty;
mod empty_reads;
mod failed;
mod finding;
mod hit_ratio;
mod inputs;
mod lag;
mod missing_rows;
mod network;
mod not_stored;
mod paused;
mod reconciliation;
mod script_held;
mod stalled;
mod unavailable;
mod unfinished;
mod wrong_values;

pub use finding::{Finding, RunQuality};
pub use inputs::{KvInputs, Measurement, OwnSql, QualityInputs};

use finding::level;

type Rule = fn(&QualityInputs<'_>) -> Option<Finding>;

const RULES: [Rule; 21] = [
    failed::judge,
    empty::judge,
    unavailable::judge,
    lag::judge,
    cpu::judge,
    cpu_wait::judge,
    dropped::judge,
    unfinished::judge,
    stalled::judge,
    paused::judge,
    script_held::judge,
    network::judge,
    reconciliation::judge,
    clipped::judge,
    wrong_values::judge,
    not_stored::judge,
    hit_ratio::judge,
    missing_rows::judge,
    empty_reads::judge,
    clock::judge,
    absent_rows::judge,
];

/// What the rules on the load itself look at: what it read and stored, and who waited for whom. They hold for the sum of
/// several slices, too; hosts and rates are judged there slice by slice.
const RULES_OF_SLICES: [Rule; 4] = [
    script_held::judge,
    wrong_values::judge,
    not_stored::judge,
    empty_reads::judge,
];

/// What the rules on the load itself find in the sum of several slices.
pub fn judge_slices(inputs: &QualityInputs<'_>) -> Vec<Finding> {
    RULES_OF_SLICES.iter().filter_map(|rule| rule(inputs)).collect()
}

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

#[cfg(test)]
mod tests;
