//! cpu: a worker had little CPU left, so the generator itself limited the throughput.

use super::{level, Finding, QualityInputs};

/// SUSPECT when a worker used more than 80 % of a CPU in some second, INVALID above 97 %.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let busiest_pct = inputs.measured.busiest_worker_cpu_pct;
    let level = level(busiest_pct, 80.0, 97.0)?;
    let reason = format!(
        "the load generator was busy: a worker used {busiest_pct:.0} % of a CPU in one interval; use more --threads"
    );
    Some(Finding {
        rule: "cpu",
        level,
        reason,
    })
}
