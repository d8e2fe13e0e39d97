//! hit_ratio: the share of keys found is not the expected one, so other work was done.

use super::{level, Finding, QualityInputs, RunQuality};

/// What chance may add to or take from the share: so many standard errors.
const CHANCE: f64 = 3.0;
/// Difference in percentage points above which a run is SUSPECT, and INVALID.
const LIMITS: (f64, f64) = (1.0, 10.0);

/// SUSPECT when the share of keys found (of gets, and of counters) is more than 1 point beyond chance from the expected
/// one, INVALID above 10 points. Where any share is allowed, it is stated in a VALID run.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let kv = inputs.kv?;
    let counts = kv.measured;
    let of_gets = (counts.cmd_get, counts.get_misses, kv.expected_hit_share);
    // The counters are stored with the keys, and none is deleted.
    let of_counters = (
        counts.incr_hits + counts.incr_misses,
        counts.incr_misses,
        kv.expected_hit_share.map(|_| 1.0),
    );
    let findings = [("keys read", of_gets), ("counters", of_counters)].map(|(what, of)| finding(what, of));
    findings.into_iter().flatten().max_by_key(|finding| finding.level)
}

fn finding(what: &str, (all, missed, expected): (u64, u64, Option<f64>)) -> Option<Finding> {
    if all == 0 {
        return None;
    }
    let share = missed as f64 / all as f64;
    let found = format!("{missed} of {all} {what} ({:.1} %) were not found", share * 100.0);
    let (level, reason) = match expected {
        None if share * 100.0 > LIMITS.0 => (RunQuality::Valid, found),
        None => return None,
        Some(expected) => {
            let chance = CHANCE * (expected * (1.0 - expected) / all as f64).sqrt();
            let difference = (1.0 - share - expected).abs() - chance;
            let level = level(difference * 100.0, LIMITS.0, LIMITS.1)?;
            let reason = format!(
                "{found}, {:.1} % were expected: store them first (kv prepare, --fill 100%) with the same --keys, --key-size \
                 and --key-prefix, and look at --ttl, the server's memory limit and its evictions; --hit-ratio any allows \
                 every share",
                (1.0 - expected) * 100.0
            );
            (level, reason)
        }
    };
    Some(Finding {
        rule: "hit_ratio",
        level,
        reason,
    })
}
