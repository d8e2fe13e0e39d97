//! empty: no transaction ended, so there is nothing to report.

use super::{Finding, QualityInputs, RunQuality};

/// INVALID without a single transaction.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    (inputs.measured.counts.transactions == 0).then(|| Finding {
        rule: "empty",
        level: RunQuality::Invalid,
        reason: format!(
            "no transaction ended in the {:.1} s of the measurement",
            inputs.duration_s
        ),
    })
}
