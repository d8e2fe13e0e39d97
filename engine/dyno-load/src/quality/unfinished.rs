//! unfinished: planned transactions whose end was not seen: their latencies are what they had waited, at least.

use super::{level, Finding, QualityInputs};

/// SUSPECT above 0.01 % of the transactions, INVALID above 1 %.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let missing = inputs.end.unfinished + inputs.end.not_started;
    let all = inputs.end.planned.max(inputs.measured.counts.transactions + missing);
    let share_pct = missing as f64 / all.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.01, 1.0)?;
    let reason = format!(
        "{} transactions had not ended and {} had not started by the hard stop ({share_pct:.2} %): the latencies \
         count the former with what they had waited, and lack the latter; lower --rate, or raise --grace",
        inputs.end.unfinished, inputs.end.not_started
    );
    Some(Finding {
        rule: "unfinished",
        level,
        reason,
    })
}
