//! Commands, written straight into the output buffer.

use crate::constants::command;
use crate::error::Error;
use crate::packet::{begin, finish};
use crate::resultset::Statement;
use crate::value::Value;

/// Writes a command of one byte and what `body` appends; returns how many packets it took.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, command: u8, body: impl FnOnce(&mut Vec<u8>)) -> u8 {
    let at = begin(out);
    out.push(command);
    body(out);
    finish(out, at, 0)
}

/// Writes a command on a prepared statement that needs only its number.
pub(crate) fn put_statement(out: &mut Vec<u8>, command: u8, statement: &Statement) -> u8 {
    put(out, command, |out| out.extend_from_slice(&statement.id.to_le_bytes()))
}

/// Writes COM_STMT_EXECUTE without a cursor. The parameter types go along only when they differ from the last ones.
#[inline]
pub(crate) fn put_execute(out: &mut Vec<u8>, statement: &mut Statement, values: &[Value<'_>]) -> Result<u8, Error> {
    if values.len() != statement.parameters as usize {
        return Err(Error::setup(format!(
            "the statement has {} parameters, {} were supplied",
            statement.parameters,
            values.len()
        )));
    }
    let at = begin(out);
    // Command, statement number, flags (no cursor), iteration count (always 1).
    let mut head = [command::STMT_EXECUTE, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    head[1..5].copy_from_slice(&statement.id.to_le_bytes());
    out.extend_from_slice(&head);
    if !values.is_empty() {
        let bitmap = out.len();
        out.resize(bitmap + values.len().div_ceil(8), 0);
        for (index, value) in values.iter().enumerate() {
            if matches!(value, Value::Null) {
                out[bitmap + index / 8] |= 1 << (index % 8);
            }
        }
        put_types(out, statement, values);
        for value in values {
            value.put(out);
        }
    }
    Ok(finish(out, at, 0))
}

#[inline]
fn put_types(out: &mut Vec<u8>, statement: &mut Statement, values: &[Value<'_>]) {
    // NULL is told by the bitmap, whatever type was announced.
    let known = statement.types.len() == values.len()
        && values
            .iter()
            .zip(&statement.types)
            .all(|(value, &kind)| matches!(value, Value::Null) || value.parameter_type() == kind);
    out.push(!known as u8);
    if !known {
        statement.types.clear();
        for value in values {
            let kind = value.parameter_type();
            statement.types.push(kind);
            out.extend_from_slice(&kind.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(parameters: u16) -> Statement {
        Statement {
            id: 7,
            parameters,
            columns: 1,
            types: smallvec::SmallVec::new(),
            metadata: None,
        }
    }

    #[test]
    fn execute_is_the_bytes_of_the_manual() {
        let mut out = Vec::new();
        put_execute(&mut out, &mut statement(2), &[Value::Int32(5), Value::Null]).unwrap();
        let body = [0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1, 3, 0, 6, 0, 5, 0, 0, 0];
        assert_eq!(out[..4], [body.len() as u8, 0, 0, 0]);
        assert_eq!(out[4..], body);
    }

    #[test]
    fn types_are_sent_again_only_when_they_change() {
        let mut statement = statement(1);
        let mut length = |value| {
            let mut out = Vec::new();
            put_execute(&mut out, &mut statement, &[value]).unwrap();
            out.len()
        };
        let with_types = length(Value::Int(1));
        assert_eq!(length(Value::Int(2)), with_types - 2);
        assert_eq!(length(Value::Null), with_types - 2 - 8);
        assert_eq!(length(Value::UInt(2)), with_types);
    }

    #[test]
    fn a_wrong_number_of_parameters_is_an_error_and_writes_nothing() {
        let mut out = Vec::new();
        assert!(put_execute(&mut out, &mut statement(2), &[Value::Int(1)]).is_err());
        assert!(out.is_empty());
    }
}
