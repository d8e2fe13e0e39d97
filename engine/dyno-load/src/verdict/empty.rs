//! empty: no transaction ended, so there is nothing to say.

use super::{Evidence, Finding, Verdict};

/// INVALID without a single transaction.
pub fn judge(evidence: &Evidence<'_>) -> Option<Finding> {
    (evidence.totals.measured.counts.transactions == 0).then(|| Finding {
        rule: "empty",
        level: Verdict::Invalid,
        reason: format!(
            "no transaction ended in the {:.1} s of the measurement",
            evidence.duration_s
        ),
    })
}
