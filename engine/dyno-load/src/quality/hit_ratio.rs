//! hit_ratio: the share of hits is not the expected one, so other work was done.

use super::{level, Finding, QualityInputs};

/// What chance may add to or take from the share: so many standard errors.
const CHANCE: f64 = 3.0;

/// SUSPECT when the share of hits is more than 1 point beyond chance from the expected one, INVALID above 10 points.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let asked = inputs.kv?.asked_hit_share?;
    let counts = inputs.kv?.measured;
    if counts.cmd_get == 0 {
        return None;
    }
    let seen = counts.get_hits as f64 / counts.cmd_get as f64;
    let chance = CHANCE * (asked * (1.0 - asked) / counts.cmd_get as f64).sqrt();
    let level = level(((seen - asked).abs() - chance) * 100.0, 1.0, 10.0)?;
    let reason = format!(
        "{:.1} % of the keys were there, {:.1} % were asked for: fill the key space (--fill), and look at the server's \
         memory limit and evictions",
        seen * 100.0,
        asked * 100.0
    );
    Some(Finding {
        rule: "hit_ratio",
        level,
        reason,
    })
}
