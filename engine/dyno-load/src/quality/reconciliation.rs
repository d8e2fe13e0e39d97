//! reconciliation: the server counted other statements than we did.

use super::{level, Finding, QualityInputs};

/// SUSPECT above 0.1 % of difference in any counter, INVALID above 10 %.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let worst = inputs
        .counters
        .iter()
        .max_by(|a, b| a.difference_pct.abs().total_cmp(&b.difference_pct.abs()))?;
    let level = level(worst.difference_pct.abs(), 0.1, 10.0)?;
    let reason = format!(
        "the server's {} rose by {}, this program counted {} ({:+.2} %): somebody else uses the server, or statements \
         were lost",
        worst.counter, worst.server, worst.client, worst.difference_pct
    );
    Some(Finding {
        rule: "reconciliation",
        level,
        reason,
    })
}
