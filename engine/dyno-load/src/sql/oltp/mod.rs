//! The catalogue of workloads: one file each, found by one line here.

pub mod blocks;
mod connect;

mod oltp_delete;
mod oltp_insert;
mod oltp_point_select;
mod oltp_read_only;
mod oltp_read_write;
mod oltp_update_index;
mod oltp_update_non_index;
mod oltp_write_only;
mod options;
mod row_text;
mod select_random_points;
mod select_random_ranges;
mod transaction;
mod workload;

pub use options::OltpOptions;
pub use row_text::RowText;
pub use transaction::{Context, Request, Transaction};
pub use workload::Workload;

/// Every workload, in the order of `dynoload oltp list`.
pub const CATALOGUE: [Workload; 11] = [
    oltp_point_select::WORKLOAD,
    oltp_read_only::WORKLOAD,
    oltp_read_write::WORKLOAD,
    oltp_write_only::WORKLOAD,
    oltp_update_index::WORKLOAD,
    oltp_update_non_index::WORKLOAD,
    oltp_insert::WORKLOAD,
    oltp_delete::WORKLOAD,
    select_random_points::WORKLOAD,
    select_random_ranges::WORKLOAD,
    connect::WORKLOAD,
];

/// The workload of that name.
///
/// # Errors
/// A sentence with the nearest name and how to see all of them.
pub fn named(name: &str) -> Result<Workload, String> {
    if let Some(found) = CATALOGUE.iter().find(|workload| workload.name == name) {
        return Ok(*found);
    }
    let nearest = CATALOGUE
        .iter()
        .min_by_key(|workload| distance(name, workload.name))
        .map_or("", |workload| workload.name);
    Err(format!(
        "there is no workload '{name}'; the nearest name is {nearest} (`dynoload oltp list` shows all)"
    ))
}

/// Edit distance by Levenshtein, for finding the nearest name.
pub fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, character) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..right.len() {
            let replaced = diagonal + usize::from(character != right[column]);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_workload_is_answered_with_the_nearest_name() {
        assert!(named("oltp_readonly").unwrap_err().contains("oltp_read_only"));
        assert!(named("point_select").unwrap_err().contains("oltp_point_select"));
        assert_eq!(named("oltp_read_write").unwrap().name, "oltp_read_write");
    }

    #[test]
    fn every_workload_has_calls_that_point_at_its_own_statements() {
        for workload in CATALOGUE {
            let definition = (workload.define)(&OltpOptions::default());
            assert_eq!(definition.name, workload.name);
            assert!(!definition.calls.is_empty());
            assert!(definition
                .calls
                .iter()
                .all(|call| call.statement < definition.statements.len()));
            assert!(
                definition.calls[0].new_table,
                "the first call of {} has no table",
                workload.name
            );
        }
    }

    #[test]
    fn a_default_read_write_transaction_is_that_of_sysbench() {
        let definition = (named("oltp_read_write").unwrap().define)(&OltpOptions::default());
        let kinds: Vec<&str> = definition
            .calls
            .iter()
            .map(|call| definition.statements[call.statement].kind.name())
            .collect();
        let mut expected = vec!["begin"];
        expected.extend(vec!["point_select"; 10]);
        expected.extend(["simple_range", "sum_range", "order_range", "distinct_range"]);
        expected.extend(["index_update", "non_index_update", "delete", "insert", "commit"]);
        assert_eq!(kinds, expected);
    }
}
