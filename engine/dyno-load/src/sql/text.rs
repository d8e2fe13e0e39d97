//! Statements as text: values in the place of the question marks, as sysbench's emulation of prepared statements prints them.

use std::io::Write as _;

use dyno_mysql::Value;

/// Appends `template` with the table's number and the values to `out`.
///
/// Integers stand bare, texts in single quotes. The texts of the workloads hold no quote and no backslash: nothing needs escaping.
pub fn render(out: &mut Vec<u8>, template: &str, table: u32, values: &[Value<'_>]) {
    let mut values = values.iter();
    let mut rest = template;
    while let Some(position) = rest.find(['?', '{']) {
        out.extend_from_slice(&rest.as_bytes()[..position]);
        if let Some(after) = rest[position..].strip_prefix("{table}") {
            // Writing to a vector cannot fail.
            let _ = write!(out, "{table}");
            rest = after;
            continue;
        }
        match values.next() {
            Some(Value::Int(value)) => {
                let _ = write!(out, "{value}");
            }
            Some(Value::Int32(value)) => {
                let _ = write!(out, "{value}");
            }
            Some(Value::Bytes(text)) => {
                out.push(b'\'');
                out.extend_from_slice(text);
                out.push(b'\'');
            }
            _ => out.extend_from_slice(b"NULL"),
        }
        rest = &rest[position + 1..];
    }
    out.extend_from_slice(rest.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_the_question_marks_were() {
        let mut out = Vec::new();
        let values = [Value::Bytes(b"12-34"), Value::Int(-7)];
        render(&mut out, "UPDATE sbtest{table} SET c=? WHERE id=?", 12, &values);
        assert_eq!(out, b"UPDATE sbtest12 SET c='12-34' WHERE id=-7");
    }
}
