//! network: TCP segments were lost and sent again, which costs 200 ms each at worst.

use super::{level, Finding, QualityInputs};

/// SUSPECT above 0.01 % of the segments, INVALID above 1 %. The kernel's count is of the whole namespace.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let tcp = inputs.tcp?;
    let share_pct = tcp.retransmitted as f64 / tcp.sent.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.01, 1.0)?;
    let reason = format!(
        "{} of {} TCP segments ({share_pct:.3} %) were retransmitted; check for a full link or drops (`ss -ti`, `ip -s link`)",
        tcp.retransmitted, tcp.sent
    );
    Some(Finding {
        rule: "network",
        level,
        reason,
    })
}
