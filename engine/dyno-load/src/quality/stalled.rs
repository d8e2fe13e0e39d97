//! stalled: a connection waited for most of the run, or the server answered nobody for seconds.

use super::{Finding, QualityInputs, RunQuality};

/// Share of the measurement that one transaction may last.
const MOST_OF_THE_RUN: f64 = 0.5;
/// Time without any transaction that no server needs for short ones.
const SILENCE_S: f64 = 2.0;
/// So many times the median of the response times, a time is none of the load's own.
const TIMES_THE_MEDIAN: f64 = 20.0;

/// SUSPECT when a transaction lasted more than half of the measurement, or none ended for at least 2 s and 20 times the
/// median while one waited.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let measured = &inputs.measured;
    let longest_s = measured.response.max_ns() as f64 / 1e9;
    let median_s = measured.response.percentile_ns(50.0) as f64 / 1e9;
    let silence_s = measured.longest_silence_s;
    let served_s = measured.service.max_ns() as f64 / 1e9;
    // From the first byte sent on, the server is waited for; before it, a connection.
    let (waited, cause) = if served_s < longest_s / 2.0 {
        (
            format!("waited {longest_s:.1} s for a connection, and none took more than {served_s:.1} s on one"),
            "lost connections, and for a --rate that is too high for this number of connections",
        )
    } else {
        (format!("waited {longest_s:.1} s"), "locks")
    };
    let reason = if silence_s >= SILENCE_S && longest_s >= silence_s && silence_s > TIMES_THE_MEDIAN * median_s {
        format!(
            "no transaction ended for {silence_s:.1} s, and one {waited}: look at the server's log, and for {cause}; the \
             other figures are of the rest of the {:.1} s",
            inputs.duration_s
        )
    } else if longest_s > MOST_OF_THE_RUN * inputs.duration_s && longest_s > TIMES_THE_MEDIAN * median_s {
        format!(
            "in a measurement of {:.1} s a transaction {waited}: look for {cause}",
            inputs.duration_s
        )
    } else {
        return None;
    };
    Some(Finding {
        rule: "stalled",
        level: RunQuality::Suspect,
        reason,
    })
}
