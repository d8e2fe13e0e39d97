//! paused: this program did not run for a while, so the measurement is of less time than it states.

use super::{level, Finding, QualityInputs};

/// A pause that a busy host alone hardly makes.
const LEAST_S: f64 = 1.0;

/// SUSPECT when a worker did not run for more than 1 s, INVALID when for more than 5 % of the measurement, too. A script
/// that holds its thread has a rule of its own.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let pause_s = inputs.end.longest_pause_ns as f64 / 1e9;
    if inputs
        .own_sql
        .as_ref()
        .is_some_and(|own| own.held_s >= pause_s && pause_s > 0.0)
    {
        return None;
    }
    let level = level(pause_s, LEAST_S, LEAST_S.max(inputs.duration_s * 0.05))?;
    Some(Finding {
        rule: "paused",
        level,
        reason: format!(
            "this program did not run for {pause_s:.1} s: it was stopped, or its host was suspended or had no CPU for it; \
             the rates are too low by that"
        ),
    })
}
