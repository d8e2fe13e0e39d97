//! cpu_wait: workers could run but had no CPU: latencies hold time that was spent waiting on this side.

use super::{level, Finding, QualityInputs};

/// SUSPECT in an open loop when workers waited more than a quarter of the time. Not in a closed loop: there a server on
/// the same CPUs does that to any client, throughput is what counts, and the table shows the share.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    if !inputs.open_loop {
        return None;
    }
    let usage = inputs.measured.usage;
    let wait_pct = usage.cpu_wait_us as f64 / 1e4 / (inputs.duration_s * f64::from(inputs.threads));
    let level = level(wait_pct, 25.0, f64::INFINITY)?;
    let reason = format!(
        "the generator waited for a CPU {wait_pct:.0} % of the time, and the latencies hold that; keep the server and \
         other programs off its CPUs"
    );
    Some(Finding {
        rule: "cpu_wait",
        level,
        reason,
    })
}
