//! lag: this program started planned transactions late, so the load was not the planned one.

use super::{level, Finding, QualityInputs, RunQuality};

/// Lag that no latency of a database makes out.
const HARMLESS_US: f64 = 200.0;

/// With fewer transactions the 99th percentile is the worst one: a single late wake-up makes no run invalid.
const ENOUGH: u64 = 100;

/// SUSPECT when the 99th percentile of lag is above a tenth of the response's, INVALID above half; never below 200 µs.
/// With fewer than 100 transactions it is at most SUSPECT.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let lag_us = inputs.measured.lag.percentile_ns(99.0) as f64 / 1e3;
    let response_us = inputs.measured.response.percentile_ns(99.0) as f64 / 1e3;
    let (suspect, invalid) = (
        (response_us * 0.1).max(HARMLESS_US),
        (response_us * 0.5).max(HARMLESS_US * 5.0),
    );
    let mut level = level(lag_us, suspect, invalid)?;
    if inputs.measured.lag.count() < ENOUGH {
        level = RunQuality::Suspect;
    }
    let reason = format!(
        "the generator was late: lag p99 is {lag_us:.0} µs with a response p99 of {response_us:.0} µs; give it a CPU of \
         its own, more --threads, or --pacing spin"
    );
    Some(Finding {
        rule: "lag",
        level,
        reason,
    })
}
