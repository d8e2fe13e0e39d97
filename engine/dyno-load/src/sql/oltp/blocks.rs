//! The parts of which the OLTP family is made, in the words of sysbench 1.0.20's oltp_common.lua.

use super::OltpOptions;
use crate::sql::definition::ParameterType::{Integer, Text};
use crate::sql::definition::{Call, Definition, StatementKind, Values};

/// BEGIN, unless transactions are skipped.
pub fn begin(definition: &mut Definition, options: &OltpOptions) {
    if !options.skip_trx {
        let statement = definition.statement(StatementKind::Begin, "BEGIN", Vec::new());
        definition.calls(statement, Values::Nothing, 1);
    }
}

/// COMMIT, unless transactions are skipped.
pub fn commit(definition: &mut Definition, options: &OltpOptions) {
    if !options.skip_trx {
        let statement = definition.statement(StatementKind::Commit, "COMMIT", Vec::new());
        definition.calls(statement, Values::Nothing, 1);
    }
}

/// `count` selects of one row each.
pub fn point_selects(definition: &mut Definition, count: u32) {
    let text = "SELECT c FROM sbtest{table} WHERE id=?";
    let statement = definition.statement(StatementKind::PointSelect, text, vec![Integer]);
    definition.calls(statement, Values::Id, count);
}

/// The four kinds of range selects, unless they are off.
pub fn ranges(definition: &mut Definition, options: &OltpOptions) {
    if !options.range_selects {
        return;
    }
    let kinds = [
        (
            StatementKind::SimpleRange,
            "SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ?",
            options.simple_ranges,
        ),
        (
            StatementKind::SumRange,
            "SELECT SUM(k) FROM sbtest{table} WHERE id BETWEEN ? AND ?",
            options.sum_ranges,
        ),
        (
            StatementKind::OrderRange,
            "SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c",
            options.order_ranges,
        ),
        (
            StatementKind::DistinctRange,
            "SELECT DISTINCT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c",
            options.distinct_ranges,
        ),
    ];
    for (kind, text, count) in kinds {
        let statement = definition.statement(kind, text, vec![Integer, Integer]);
        definition.calls(statement, Values::Range, count);
    }
}

/// `count` updates of the indexed column.
pub fn index_updates(definition: &mut Definition, count: u32) {
    let text = "UPDATE sbtest{table} SET k=k+1 WHERE id=?";
    let statement = definition.statement(StatementKind::IndexUpdate, text, vec![Integer]);
    definition.calls(statement, Values::Id, count);
}

/// `count` updates of a column without an index.
pub fn non_index_updates(definition: &mut Definition, count: u32) {
    let text = "UPDATE sbtest{table} SET c=? WHERE id=?";
    let statement = definition.statement(StatementKind::NonIndexUpdate, text, vec![Text, Integer]);
    definition.calls(statement, Values::TextAndId, count);
}

/// The prepared delete of one row.
pub fn delete_statement(definition: &mut Definition) -> usize {
    definition.statement(
        StatementKind::Delete,
        "DELETE FROM sbtest{table} WHERE id=?",
        vec![Integer],
    )
}

/// `count` pairs: a row is deleted and inserted again with other values; all pairs of a transaction on one table.
pub fn delete_inserts(definition: &mut Definition, count: u32) {
    let delete = delete_statement(definition);
    let text = "INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)";
    let insert = definition.statement(StatementKind::Insert, text, vec![Integer, Integer, Text, Text]);
    for repeat in 0..count {
        definition.calls.push(Call {
            statement: delete,
            values: Values::DeletedId,
            new_table: repeat == 0,
        });
        definition.calls.push(Call {
            statement: insert,
            values: Values::DeletedRow,
            new_table: false,
        });
    }
}
