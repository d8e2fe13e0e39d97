//! clipped: latencies above the histogram's range of 2.4 hours.

use super::{Evidence, Finding, Verdict};

/// SUSPECT with a single one.
pub fn judge(evidence: &Evidence<'_>) -> Option<Finding> {
    let measured = &evidence.totals.measured;
    let clipped = measured.response.above_range() + measured.service.above_range() + measured.lag.above_range();
    (clipped > 0).then(|| Finding {
        rule: "clipped",
        level: Verdict::Suspect,
        reason: format!("{clipped} latencies are above the histogram's range and stand at its end"),
    })
}
