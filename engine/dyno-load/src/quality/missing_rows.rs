//! missing_rows: statements for rows that the workload's own data have found none, which costs less than finding them.

use super::{level, Finding, QualityInputs};

/// SUSPECT above 0.01 % of the statements that read or change rows, INVALID above 1 %.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let counts = inputs.measured.counts;
    let all = counts.reads + counts.writes + counts.unchanged;
    let share_pct = counts.missing_rows as f64 / all.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.01, 1.0)?;
    let reason = format!(
        "{} of {all} statements ({share_pct:.2} %) found no row where `dynoload oltp prepare` stores one: the tables lack \
         rows; run `dynoload oltp cleanup` and `dynoload oltp prepare` with the same --tables and --table-size",
        counts.missing_rows
    );
    Some(Finding {
        rule: "missing_rows",
        level,
        reason,
    })
}
