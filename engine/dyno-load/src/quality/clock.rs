//! clock: an agent's clock is not known well enough, so its seconds may not be those of the others.

use super::{level, Finding, QualityInputs};

/// What a bound may be in any run.
const ALWAYS_US: f64 = 1_000.0;
/// What it may be of the measurement: a start that is so much early or late changes no rate beyond the noise.
const SHARE: f64 = 1e-3;

/// SUSPECT when the bound on the offset of an agent's clock is above 1 ms and above 0.1 % of the measurement.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let agents = inputs.agents.iter();
    let worst = agents.max_by(|a, b| a.clock_error_us.total_cmp(&b.clock_error_us))?;
    let bound_us = ALWAYS_US.max(SHARE * inputs.duration_s * 1e6);
    let level = level(worst.clock_error_us, bound_us, f64::INFINITY)?;
    let reason = format!(
        "the clock of agent '{}' is known only to {:.1} ms: it started that much before or after the others at most, and \
         the times of its slowest transactions are as uncertain; take a shorter or quieter way to it",
        worst.command,
        worst.clock_error_us / 1e3
    );
    Some(Finding {
        rule: "clock",
        level,
        reason,
    })
}
