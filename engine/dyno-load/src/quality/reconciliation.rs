//! reconciliation: the server counted other statements than we did, or could not be asked.

use super::{level, Finding, QualityInputs, RunQuality};

/// SUSPECT above 0.1 % of difference in any counter, INVALID above 10 %; SUSPECT without counters, unless the run has failed,
/// which another rule says.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    if !inputs.counters_read && inputs.failure.is_none() {
        return Some(Finding {
            rule: "reconciliation",
            level: RunQuality::Suspect,
            reason: "the server's counters could not be read, so its statements are not compared with this program's"
                .into(),
        });
    }
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
