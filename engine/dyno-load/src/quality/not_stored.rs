//! not_stored: sets that the server answered with NOT_STORED cost less than sets that store.

use super::{level, Finding, QualityInputs};

/// SUSPECT with a single one, INVALID above 1 % of the sets.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let counts = inputs.kv?.all;
    let share_pct = counts.not_stored as f64 / counts.cmd_set.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.0, 1.0)?;
    let reason = format!(
        "{} of {} sets ({share_pct:.2} %) were not stored: no memory left, or the key or value does not fit the InnoDB \
         plugin's table",
        counts.not_stored, counts.cmd_set
    );
    Some(Finding {
        rule: "not_stored",
        level,
        reason,
    })
}
