//! wrong_values: the server gave values that were never stored under their keys.

use super::{Evidence, Finding, Verdict};

/// INVALID with a single one: what is fast and wrong is not fast.
pub fn judge(evidence: &Evidence<'_>) -> Option<Finding> {
    let counts = &evidence.totals.all_kv;
    (counts.wrong_values > 0).then(|| Finding {
        rule: "wrong_values",
        level: Verdict::Invalid,
        reason: format!(
            "{} of {} values looked at were not what their keys and versions make; was the key space filled with other \
             sizes, or by another program?",
            counts.wrong_values, counts.verified
        ),
    })
}
