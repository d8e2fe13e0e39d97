//! clipped: latencies above the histogram's range of 2.4 hours.

use super::{Finding, QualityInputs, RunQuality};

/// SUSPECT with a single one.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let measured = &inputs.measured;
    let clipped = measured.response.above_range() + measured.service.above_range() + measured.lag.above_range();
    (clipped > 0).then(|| Finding {
        rule: "clipped",
        level: RunQuality::Suspect,
        reason: format!("{clipped} latencies exceed the histogram's range and are counted at its end"),
    })
}
