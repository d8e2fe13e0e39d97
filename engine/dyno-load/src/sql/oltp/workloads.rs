//! The catalogue of workloads: each is made of the parts below, in the words of sysbench 1.0.20's oltp_common.lua.

use super::OltpOptions;
use crate::sql::definition::ParameterType::{Integer, Text};
use crate::sql::definition::{Call, Definition, StatementKind, Values};

type Part = fn(&mut Definition, &OltpOptions);

/// One workload of the catalogue.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name on the command line; sysbench's where sysbench has it.
    pub name: &'static str,
    /// One sentence for `dynoload oltp list`.
    pub summary: &'static str,
    /// Whether it works on sbtest1 alone.
    pub single_table: bool,
    /// What one transaction consists of.
    parts: &'static [Part],
}

/// Every workload, in the order of `dynoload oltp list`.
pub const CATALOGUE: [Workload; 11] = [
    // sysbench ignores --point-selects here, and so do we.
    workload(
        "oltp_point_select",
        "one row by primary key, without a transaction",
        &[point_select],
    ),
    workload(
        "oltp_read_only",
        "10 point selects and 4 range selects in a transaction",
        &[begin, point_selects, ranges, commit],
    ),
    workload(
        "oltp_read_write",
        "the reads of oltp_read_only and the writes of oltp_write_only in a transaction",
        &[
            begin,
            point_selects,
            ranges,
            index_updates,
            non_index_updates,
            delete_inserts,
            commit,
        ],
    ),
    workload(
        "oltp_write_only",
        "an index update, a non-index update, a delete and an insert in a transaction",
        &[begin, index_updates, non_index_updates, delete_inserts, commit],
    ),
    workload(
        "oltp_update_index",
        "an update of the indexed column k, without a transaction",
        &[index_updates],
    ),
    workload(
        "oltp_update_non_index",
        "an update of the column c, without a transaction",
        &[non_index_updates],
    ),
    workload(
        "oltp_insert",
        "an insert of one row as text, without a transaction; tables grow",
        &[insert],
    ),
    workload(
        "oltp_delete",
        "a delete by primary key, without a transaction; empties the tables",
        &[delete],
    ),
    on_one_table(workload(
        "select_random_points",
        "one select with 10 points of the index on k; sbtest1 only",
        &[random_points],
    )),
    on_one_table(workload(
        "select_random_ranges",
        "one count over 10 ranges of the index on k; sbtest1 only",
        &[random_ranges],
    )),
    // Ours; sysbench has none.
    workload(
        "connect",
        "connect, TLS, authenticate, disconnect: the cost of short connections; needs no tables",
        &[connect],
    ),
];

const fn workload(name: &'static str, summary: &'static str, parts: &'static [Part]) -> Workload {
    Workload {
        name,
        summary,
        single_table: false,
        parts,
    }
}

const fn on_one_table(workload: Workload) -> Workload {
    Workload {
        single_table: true,
        ..workload
    }
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Workload").field("name", &self.name).finish()
    }
}

impl Workload {
    /// Its statements and calls with some options.
    pub fn define(&self, options: &OltpOptions) -> Definition {
        let mut definition = Definition::new(self.name);
        for part in self.parts {
            part(&mut definition, options);
        }
        definition
    }
}

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

/// BEGIN, unless transactions are skipped.
fn begin(definition: &mut Definition, options: &OltpOptions) {
    if !options.skip_trx {
        let statement = definition.statement(StatementKind::Begin, "BEGIN", Vec::new());
        definition.calls(statement, Values::Nothing, 1);
    }
}

/// COMMIT, unless transactions are skipped.
fn commit(definition: &mut Definition, options: &OltpOptions) {
    if !options.skip_trx {
        let statement = definition.statement(StatementKind::Commit, "COMMIT", Vec::new());
        definition.calls(statement, Values::Nothing, 1);
    }
}

/// Selects of one row each.
fn selects(definition: &mut Definition, count: u32) {
    let text = "SELECT c FROM sbtest{table} WHERE id=?";
    let statement = definition.statement(StatementKind::PointSelect, text, vec![Integer]);
    definition.calls(statement, Values::Id, count);
}

/// One select of one row.
fn point_select(definition: &mut Definition, _options: &OltpOptions) {
    selects(definition, 1);
}

/// As many as the options say.
fn point_selects(definition: &mut Definition, options: &OltpOptions) {
    selects(definition, options.point_selects);
}

/// The four kinds of range selects, unless they are off.
fn ranges(definition: &mut Definition, options: &OltpOptions) {
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

/// Updates of the indexed column.
fn index_updates(definition: &mut Definition, options: &OltpOptions) {
    let text = "UPDATE sbtest{table} SET k=k+1 WHERE id=?";
    let statement = definition.statement(StatementKind::IndexUpdate, text, vec![Integer]);
    definition.calls(statement, Values::Id, options.index_updates);
}

/// Updates of a column without an index.
fn non_index_updates(definition: &mut Definition, options: &OltpOptions) {
    let text = "UPDATE sbtest{table} SET c=? WHERE id=?";
    let statement = definition.statement(StatementKind::NonIndexUpdate, text, vec![Text, Integer]);
    definition.calls(statement, Values::TextAndId, options.non_index_updates);
}

fn delete_statement(definition: &mut Definition) -> usize {
    let text = "DELETE FROM sbtest{table} WHERE id=?";
    definition.statement(StatementKind::Delete, text, vec![Integer])
}

fn insert_statement(definition: &mut Definition) -> usize {
    let text = "INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)";
    definition.statement(StatementKind::Insert, text, vec![Integer, Integer, Text, Text])
}

/// A delete by primary key; rows that are gone already count as unchanged.
fn delete(definition: &mut Definition, _options: &OltpOptions) {
    let statement = delete_statement(definition);
    definition.calls(statement, Values::Id, 1);
}

/// An insert of one row, sent as text even with prepared statements, because sysbench does so.
fn insert(definition: &mut Definition, _options: &OltpOptions) {
    let statement = insert_statement(definition);
    definition.statements[statement].always_text = true;
    definition.calls(statement, Values::NewRow, 1);
}

/// Pairs: a row is deleted and inserted again with other values; all pairs of a transaction on one table.
fn delete_inserts(definition: &mut Definition, options: &OltpOptions) {
    let delete = delete_statement(definition);
    let insert = insert_statement(definition);
    for repeat in 0..options.delete_inserts {
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

/// An IN list of points of the index on k; each connection has its own share of the table's length, as each of
/// sysbench's threads has.
fn random_points(definition: &mut Definition, options: &OltpOptions) {
    let count = options.random_points as usize;
    let text = format!(
        "SELECT id, k, c, pad\n          FROM sbtest1\n          WHERE k IN ({})",
        vec!["?"; count].join(", ")
    );
    let statement = definition.statement(StatementKind::RandomPoints, &text, vec![Integer; count]);
    definition.calls(statement, Values::Points, 1);
}

/// A count over several ranges of the index on k; with shares as those of the points.
fn random_ranges(definition: &mut Definition, options: &OltpOptions) {
    let count = options.number_of_ranges as usize;
    let text = format!(
        "SELECT count(k)\n          FROM sbtest1\n          WHERE {}",
        vec!["k BETWEEN ? AND ?"; count].join(" OR ")
    );
    let statement = definition.statement(StatementKind::RandomRanges, &text, vec![Integer; count * 2]);
    definition.calls(statement, Values::Ranges, 1);
}

/// A new connection with its handshake and authentication, and its end.
fn connect(definition: &mut Definition, _options: &OltpOptions) {
    let statement = definition.statement(StatementKind::Connect, "", Vec::new());
    definition.statements[statement].always_text = true;
    definition.calls(statement, Values::Nothing, 1);
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
            let definition = workload.define(&OltpOptions::default());
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
        let definition = named("oltp_read_write").unwrap().define(&OltpOptions::default());
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
