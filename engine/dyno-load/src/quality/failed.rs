//! failed: the run ended with an error, so its figures are not of the load that was requested.

use super::{Finding, QualityInputs, RunQuality};

/// INVALID when the run failed.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    inputs.failure.map(|failure| Finding {
        rule: "failed",
        level: RunQuality::Invalid,
        reason: format!("the run ended early: {failure}"),
    })
}
