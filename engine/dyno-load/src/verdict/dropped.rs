//! dropped: planned transactions were given up as late, so the load was lighter than the plan's.

use super::{level, Evidence, Finding};

/// SUSPECT above 0.1 % of the plan, INVALID above 5 %.
pub fn judge(evidence: &Evidence<'_>) -> Option<Finding> {
    let dropped = evidence.totals.measured.counts.dropped_late;
    let share_pct = dropped as f64 / evidence.end.planned.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.1, 5.0)?;
    let reason = format!(
        "{dropped} of {} planned transactions ({share_pct:.2} %) were dropped as late; the server does not keep up with \
         the rate",
        evidence.end.planned
    );
    Some(Finding {
        rule: "dropped",
        level,
        reason,
    })
}
