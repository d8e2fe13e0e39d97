//! Which statements of a file or a capture write: for a server whose data are not the load's own.

use std::collections::BTreeMap;

use dyno_capture::reach::{named_schemas, written_tables};
use dyno_capture::{class, digest};
use serde::Serialize;

use super::SqlWorkload;

/// What a load consists of.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Statements; of a capture as often as they were captured.
    pub statements: u64,
    /// Those that do not only read, in the order of their texts.
    pub writing: Vec<Writing>,
}

/// Statements that differ in literals alone, and do not only read.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Writing {
    /// Their text, without literals.
    pub statement: String,
    /// How many there are.
    pub count: u64,
    /// The tables that they write or lock, and the routine that they call; empty where their text does not show them.
    pub tables: Vec<String>,
    /// The schemas that they name, other than the load's.
    pub elsewhere: Vec<String>,
}

impl Contents {
    /// Of a load whose connections have this default schema; none where only its execution shows it.
    pub fn of(workload: &SqlWorkload, database: &str) -> Option<Self> {
        match workload {
            SqlWorkload::File(context) => {
                let statements = &context.definition.statements[..context.statements.len()];
                let texts = statements.iter().map(|one| one.template.as_bytes());
                Some(Self::of_texts(texts, database))
            }
            SqlWorkload::Captured(context) => Some(Self::of_texts(context.texts(), database)),
            SqlWorkload::Oltp(_) | SqlWorkload::Tpcc(_) | SqlWorkload::Script(_) => None,
        }
    }

    fn of_texts<'a>(texts: impl Iterator<Item = &'a [u8]>, database: &str) -> Self {
        let mut statements = 0;
        let mut found: BTreeMap<String, Writing> = BTreeMap::new();
        for text in texts {
            statements += 1;
            if class::is_read_only(text) {
                continue;
            }
            let statement = digest(text);
            let one = found.entry(statement).or_insert_with_key(|statement| Writing {
                statement: statement.clone(),
                count: 0,
                tables: written_tables(text),
                elsewhere: elsewhere(text, database),
            });
            one.count += 1;
        }
        Self {
            statements,
            writing: found.into_values().collect(),
        }
    }
}

fn elsewhere(text: &[u8], database: &str) -> Vec<String> {
    let mut names: Vec<String> = named_schemas(text).into_iter().map(|one| one.name).collect();
    names.retain(|name| name != database);
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_write_are_counted_by_digest_with_their_tables() {
        let texts = [
            "SELECT a FROM other.t WHERE a = 1",
            "UPDATE t SET a = 1 WHERE b = 2",
            "UPDATE t SET a = 3 WHERE b = 4",
            "INSERT INTO other.u VALUES (1)",
            "COMMIT",
        ];
        let found = Contents::of_texts(texts.iter().map(|text| text.as_bytes()), "shop");
        let writing = |statement: &str, count, table: &str, elsewhere: &[&str]| Writing {
            statement: statement.into(),
            count,
            tables: vec![table.into()],
            elsewhere: elsewhere.iter().map(ToString::to_string).collect(),
        };
        let expected = Contents {
            statements: 5,
            writing: vec![
                writing("INSERT INTO other.u VALUES (?+)", 1, "other.u", &["other"]),
                writing("UPDATE t SET a = ? WHERE b = ?", 2, "t", &[]),
            ],
        };
        assert_eq!(found, expected);
    }
}
