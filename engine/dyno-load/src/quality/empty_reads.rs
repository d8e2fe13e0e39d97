//! empty_reads: statements of the user's that read and found nothing; they cost less than those that find rows.

use super::{Finding, QualityInputs, RunQuality};

/// Names in the sentence.
const MOST_NAMES: usize = 3;

/// SUSPECT when a statement of a user's file never found a row, or no statement of a script or capture did; VALID with any
/// other number. The reads of OLTP and TPC-C, whose rows are known, have rules of their own.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let counts = inputs.measured.counts;
    let own = inputs.own_sql.as_ref()?;
    if counts.empty_reads == 0 {
        return None;
    }
    let found_nothing = counts.empty_reads == counts.reads;
    let never: Vec<&str> = own.never_found.iter().map(String::as_str).collect();
    let level = if found_nothing || (own.every_statement_counts && !never.is_empty()) {
        RunQuality::Suspect
    } else {
        RunQuality::Valid
    };
    let names = match never.len() {
        0 => String::new(),
        count if count > MOST_NAMES => format!(
            "; {count} statements never found a row, among them {}",
            never[..MOST_NAMES].join(", ")
        ),
        _ => format!("; never a row: {}", never.join(", ")),
    };
    let hint = if level == RunQuality::Suspect {
        ": do the values match the data?"
    } else {
        ""
    };
    Some(Finding {
        rule: "empty_reads",
        level,
        reason: format!(
            "{} of {} reads found no row{names}{hint}",
            counts.empty_reads, counts.reads
        ),
    })
}
