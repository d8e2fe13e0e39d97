//! A script's prepared statement that goes as text: the values bound to it in the place of its question marks.

use std::io::Write as _;

use dyno_capture::lexer::{tokens, Kind};
use dyno_mysql::Value;

/// A statement and where its values go. Question marks in texts, names and comments are no such places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    sql: Vec<u8>,
    places: Vec<usize>,
}

impl Template {
    pub fn new(sql: &[u8]) -> Self {
        let is_place = |kind| kind == Kind::Placeholder;
        Self {
            sql: sql.to_vec(),
            places: tokens(sql)
                .filter(|token| is_place(token.kind))
                .map(|token| token.start)
                .collect(),
        }
    }

    /// The statement with its question marks.
    pub fn sql(&self) -> &[u8] {
        &self.sql
    }

    /// Whether there is no statement: what a closed one leaves.
    pub fn is_empty(&self) -> bool {
        self.sql.is_empty()
    }

    /// Appends the statement with the values. Where one is missing, NULL stands.
    pub fn write(&self, out: &mut Vec<u8>, values: &[Value<'_>]) {
        let mut from = 0;
        for (number, place) in self.places.iter().enumerate() {
            out.extend_from_slice(&self.sql[from..*place]);
            write_literal(out, values.get(number).unwrap_or(&Value::Null));
            from = place + 1;
        }
        out.extend_from_slice(&self.sql[from..]);
    }
}

/// A value as a literal of SQL, in the default SQL mode.
fn write_literal(out: &mut Vec<u8>, value: &Value<'_>) {
    // Writing to a vector cannot fail.
    let _ = match value {
        Value::Int(value) => write!(out, "{value}"),
        Value::Int32(value) => write!(out, "{value}"),
        // Always with a point or an exponent: a literal without them is an integer.
        Value::Double(value) if value.is_finite() => write!(out, "{value:?}"),
        Value::Bytes(text) => {
            out.push(b'\'');
            for byte in *text {
                match byte {
                    b'\'' => out.extend_from_slice(b"''"),
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    _ => out.push(*byte),
                }
            }
            out.push(b'\'');
            Ok(())
        }
        _ => out.write_all(b"NULL"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(sql: &[u8], values: &[Value<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        Template::new(sql).write(&mut out, values);
        out
    }

    #[test]
    fn values_stand_in_the_place_of_question_marks_as_literals() {
        let values = [
            Value::Int(-7),
            Value::Double(2.0),
            Value::Bytes(b"it's \\ \xff"),
            Value::Null,
        ];
        assert_eq!(
            written(b"INSERT INTO t VALUES (?, ?, ?, ?)", &values),
            b"INSERT INTO t VALUES (-7, 2.0, 'it''s \\\\ \xff', NULL)"
        );
    }

    #[test]
    fn marks_and_braces_in_texts_names_and_comments_stay() {
        let sql = b"SELECT '{table} ?', `a?`, ? /* ? */ FROM t WHERE j = '{\"a\": 1}' -- ?";
        assert_eq!(
            written(sql, &[Value::Int(1)]),
            b"SELECT '{table} ?', `a?`, 1 /* ? */ FROM t WHERE j = '{\"a\": 1}' -- ?"
        );
    }

    #[test]
    fn a_value_that_is_missing_is_null() {
        assert_eq!(written(b"SELECT ?, ?", &[Value::Int(1)]), b"SELECT 1, NULL");
    }
}
