//! absent_rows: writes changed no row, as deletes do when their rows are gone; they cost less than those that change one.

use super::{Finding, QualityInputs, RunQuality};

/// VALID with any number: it is the load that was requested, on the tables as they are.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let counts = inputs.measured.counts;
    (counts.unchanged > 0).then(|| Finding {
        rule: "absent_rows",
        level: RunQuality::Valid,
        reason: format!(
            "{} of {} writes changed no row: they met none, or the value was there already",
            counts.unchanged,
            counts.writes + counts.unchanged
        ),
    })
}
