//! wrong_values: the server gave values that were never stored under their keys.

use super::{Finding, QualityInputs, RunQuality};

/// INVALID with a single one: what is fast and wrong is not fast.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let counts = inputs.kv?.all;
    (counts.wrong_values > 0).then(|| Finding {
        rule: "wrong_values",
        level: RunQuality::Invalid,
        reason: format!(
            "{} of {} values looked at were not what their keys and versions make; was the key space filled with other \
             sizes, or by another program?",
            counts.wrong_values, counts.verified
        ),
    })
}
