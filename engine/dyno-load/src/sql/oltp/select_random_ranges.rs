//! select_random_ranges: one count over several ranges of the index on k; each connection has its own share of the table's
//! length, as each of sysbench's threads has.

use super::{OltpOptions, Workload};
use crate::sql::definition::{Definition, ParameterType, StatementKind, Values};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "select_random_ranges",
    summary: "one count over 10 ranges of the index on k; sbtest1 only",
    single_table: true,
    define,
};

fn define(options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    let count = options.number_of_ranges as usize;
    let text = format!(
        "SELECT count(k)\n          FROM sbtest1\n          WHERE {}",
        vec!["k BETWEEN ? AND ?"; count].join(" OR ")
    );
    let statement = definition.statement(
        StatementKind::RandomRanges,
        &text,
        vec![ParameterType::Integer; count * 2],
    );
    definition.calls(statement, Values::Ranges, 1);
    definition
}
