//! dropped: planned transactions were given up as late, so the load was lighter than the plan's.

use super::{level, Finding, QualityInputs};

/// SUSPECT above 0.1 % of the plan, INVALID above 5 %.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let dropped = inputs.measured.counts.dropped_late;
    // A part of the load that failed without its account has a plan of at least what it dropped.
    let planned = inputs.end.planned.max(dropped);
    let share_pct = dropped as f64 / planned.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.1, 5.0)?;
    let reason = format!(
        "{dropped} of {planned} planned transactions ({share_pct:.2} %) were dropped as late; the server does not keep up \
         with the rate"
    );
    Some(Finding {
        rule: "dropped",
        level,
        reason,
    })
}
