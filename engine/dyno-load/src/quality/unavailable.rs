//! unavailable: the server was away for a part of the measurement, so throughput and latencies are of the rest.

use super::{level, Finding, QualityInputs};

/// SUSPECT with a single interval without a transaction while connections were lost, INVALID above 1 % of the measurement.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let unavailable_s = inputs.measured.unavailable_s;
    let level = level(unavailable_s / inputs.duration_s * 100.0, 0.0, 1.0)?;
    let reason = format!(
        "the server was unavailable: connections were lost, and no transaction ended in {unavailable_s:.1} of {:.1} s; look \
         at the server's log",
        inputs.duration_s
    );
    Some(Finding {
        rule: "unavailable",
        level,
        reason,
    })
}
