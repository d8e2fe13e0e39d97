//! failed: the run ended with an error, so its figures are not of the load that was asked for.

use super::{Evidence, Finding, Verdict};

/// INVALID when the run failed.
pub fn judge(evidence: &Evidence<'_>) -> Option<Finding> {
    evidence.failure.map(|failure| Finding {
        rule: "failed",
        level: Verdict::Invalid,
        reason: format!("the run ended early: {failure}"),
    })
}
