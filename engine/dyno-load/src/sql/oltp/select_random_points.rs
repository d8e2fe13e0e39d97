//! select_random_points: one statement with an IN list of points of the index on k; each connection has its own share of
//! the table's length, as each of sysbench's threads has.

use super::{OltpOptions, Workload};
use crate::sql::definition::{Definition, ParameterType, StatementKind, Values};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "select_random_points",
    summary: "one select with 10 points of the index on k; sbtest1 only",
    single_table: true,
    define,
};

fn define(options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    let count = options.random_points as usize;
    let text = format!(
        "SELECT id, k, c, pad\n          FROM sbtest1\n          WHERE k IN ({})",
        vec!["?"; count].join(", ")
    );
    let statement = definition.statement(StatementKind::RandomPoints, &text, vec![ParameterType::Integer; count]);
    definition.calls(statement, Values::Points, 1);
    definition
}
