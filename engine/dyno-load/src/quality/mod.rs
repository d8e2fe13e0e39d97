//! The quality of a run: whether its figures can be believed. Beside it: the rules, and what they look at and find.

mod inputs;
mod rules;

pub use inputs::{Finding, KvInputs, Measurement, OwnSql, QualityInputs, RunQuality};

type Rule = (&'static str, fn(&QualityInputs<'_>) -> rules::Judgement);

const RULES: [Rule; 24] = [
    ("failed", rules::failed),
    ("empty", rules::empty),
    ("unavailable", rules::unavailable),
    ("lag", rules::lag),
    ("cpu", rules::cpu),
    ("cpu_wait", rules::cpu_wait),
    ("dropped", rules::dropped),
    ("unfinished", rules::unfinished),
    ("ignored_errors", rules::ignored_errors),
    ("trace", rules::trace),
    ("warehouses", rules::warehouses),
    ("stalled", rules::stalled),
    ("paused", rules::paused),
    ("script_held", rules::script_held),
    ("network", rules::network),
    ("reconciliation", rules::reconciliation),
    ("clipped", rules::clipped),
    ("wrong_values", rules::wrong_values),
    ("not_stored", rules::not_stored),
    ("hit_ratio", rules::hit_ratio),
    ("missing_rows", rules::missing_rows),
    ("empty_reads", rules::empty_reads),
    ("clock", rules::clock),
    ("absent_rows", rules::absent_rows),
];

/// The rules on the load itself: what it read and stored, and who waited for whom. They hold for the sum of several slices,
/// too; hosts and rates are judged there slice by slice.
const OF_SLICES: [&str; 4] = ["script_held", "wrong_values", "not_stored", "empty_reads"];

fn found(&(rule, judge): &Rule, inputs: &QualityInputs<'_>) -> Option<Finding> {
    judge(inputs).map(|(level, reason)| Finding { rule, level, reason })
}

/// What the rules on the load itself find in the sum of several slices.
pub fn judge_slices(inputs: &QualityInputs<'_>) -> Vec<Finding> {
    let rules = RULES.iter().filter(|(name, _)| OF_SLICES.contains(name));
    rules.filter_map(|rule| found(rule, inputs)).collect()
}

/// The worst of all rules, and every finding.
pub fn judge(inputs: &QualityInputs<'_>) -> (RunQuality, Vec<Finding>) {
    let findings: Vec<Finding> = RULES.iter().filter_map(|rule| found(rule, inputs)).collect();
    let worst = findings.iter().map(|finding| finding.level).max();
    (worst.unwrap_or(RunQuality::Valid), findings)
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
