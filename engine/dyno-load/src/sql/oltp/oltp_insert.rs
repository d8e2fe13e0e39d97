//! oltp_insert: inserts of single rows, sent as text even with prepared statements, because sysbench does so.

use super::{OltpOptions, Workload};
use crate::sql::definition::ParameterType::{Integer, Text};
use crate::sql::definition::{Definition, StatementKind, Values};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "oltp_insert",
    summary: "an insert of one row as text, without a transaction; tables grow",
    single_table: false,
    define,
};

fn define(_options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    let text = "INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)";
    let statement = definition.statement(StatementKind::Insert, text, vec![Integer, Integer, Text, Text]);
    definition.statements[statement].always_text = true;
    definition.calls(statement, Values::NewRow, 1);
    definition
}
