//! Columns and rows of a result set, and the packets that end a command: OK, EOF, an error.

use std::sync::{Arc, Mutex};

use smallvec::SmallVec;

use crate::constants::{column_type, status};
use crate::error::{Error, ServerError};
use crate::intake::LONGEST_RESULT;
use crate::packet::{text, Reader};
use crate::value::Value;

/// One column of a result set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name or alias; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The table or its alias; empty for an expression.
    pub table: String,
    /// One of `constants::column_type`.
    pub kind: u8,
    /// The manual's column flags.
    pub flags: u16,
    /// The collation's number; 63 is binary.
    pub character_set: u16,
    /// The longest value in bytes, as declared.
    pub length: u32,
    /// Digits after the point.
    pub decimals: u8,
}

const UNSIGNED_FLAG: u16 = 32;

impl Column {
    /// Takes a column definition (protocol 4.1) apart.
    pub(crate) fn parse(payload: &[u8]) -> Result<Column, Error> {
        let mut reader = Reader::new(payload);
        reader.length_encoded_bytes("catalog")?;
        reader.length_encoded_bytes("schema")?;
        let table = String::from_utf8_lossy(reader.length_encoded_bytes("table")?).into_owned();
        reader.length_encoded_bytes("original table")?;
        let name = String::from_utf8_lossy(reader.length_encoded_bytes("column name")?).into_owned();
        reader.length_encoded_bytes("original column name")?;
        reader.length_encoded("length of fixed fields")?;
        Ok(Column {
            name,
            table,
            character_set: reader.u16("character set")?,
            length: reader.u32("column length")?,
            kind: reader.u8("column type")?,
            flags: reader.u16("column flags")?,
            decimals: reader.u8("decimals")?,
        })
    }

    /// Whether integers of this column have no sign.
    pub fn is_unsigned(&self) -> bool {
        self.flags & UNSIGNED_FLAG != 0 || self.kind == column_type::YEAR
    }
}

/// The definitions of a result set that have come so far.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    columns: Vec<Column>,
    bytes: usize,
}

impl Definitions {
    pub(crate) fn clear(&mut self) {
        self.columns.clear();
        self.bytes = 0;
    }

    /// Takes one more; an error where all together are longer than any result may be.
    pub(crate) fn push(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.bytes += payload.len();
        if self.bytes > LONGEST_RESULT {
            return Err(Error::protocol("the column definitions are longer than 64 MiB"));
        }
        self.columns.push(Column::parse(payload)?);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    pub(crate) fn take(&mut self) -> Vec<Column> {
        self.bytes = 0;
        std::mem::take(&mut self.columns)
    }
}

/// One row, still in the buffer that it came in.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) columns: &'a [Column],
    pub(crate) binary: bool,
}

impl<'a> Row<'a> {
    /// The columns, in the order of the values.
    pub fn columns(&self) -> &'a [Column] {
        self.columns
    }

    /// The row as it came, undecoded.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The values from left to right; stops at the first that cannot be decoded, after giving the error.
    pub fn values(&self) -> Values<'a> {
        let mut reader = Reader::new(self.payload);
        let mut nulls: Result<&[u8], Error> = Ok(&[]);
        if self.binary {
            // The bitmap starts with two bits that are not used.
            nulls = reader
                .u8("row marker")
                .and_then(|_| reader.bytes((self.columns.len() + 9) / 8, "bitmap of NULL values"));
        }
        Values {
            reader,
            columns: self.columns,
            nulls,
            binary: self.binary,
            index: 0,
        }
    }
}

/// The values of a row; see `Row::values`.
pub struct Values<'a> {
    reader: Reader<'a>,
    columns: &'a [Column],
    nulls: Result<&'a [u8], Error>,
    binary: bool,
    index: usize,
}

impl<'a> Values<'a> {
    fn read(&mut self, index: usize) -> Result<Value<'a>, Error> {
        if !self.binary {
            let value = self.reader.nullable_bytes("text value")?;
            return Ok(value.map_or(Value::Null, Value::Bytes));
        }
        let nulls = *self
            .nulls
            .as_ref()
            .map_err(|_| Error::protocol("a binary row without its bitmap of NULL values"))?;
        let bit = index + 2;
        if nulls[bit / 8] & (1 << (bit % 8)) != 0 {
            return Ok(Value::Null);
        }
        let column = &self.columns[index];
        Value::read(&mut self.reader, column.kind, column.is_unsigned())
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<Value<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.index;
        if index >= self.columns.len() {
            return None;
        }
        self.index += 1;
        let value = self.read(index);
        if value.is_err() {
            self.index = self.columns.len();
        }
        Some(value)
    }
}

/// Columns that a statement and its outstanding executions share.
pub(crate) type Metadata = Arc<Mutex<Arc<Vec<Column>>>>;

/// A statement that one server connection has prepared; of use on that connection only.
#[derive(Debug, Default)]
pub struct Statement {
    /// The server's number for it.
    pub(crate) id: u32,
    /// How many parameters it takes.
    pub(crate) parameters: u16,
    /// How many columns its rows have; 0 for a statement without rows.
    pub(crate) columns: u16,
    /// The parameter types last sent: the server remembers them, so equal ones are not sent again.
    pub(crate) types: SmallVec<[u16; 8]>,
    /// The columns, when it was prepared with `Detail::Rows`; the server may not send them again until they change.
    pub(crate) metadata: Option<Metadata>,
}

impl Statement {
    /// How many parameters it takes.
    pub fn parameter_count(&self) -> usize {
        self.parameters as usize
    }

    /// How many columns its rows have; 0 for a statement without rows.
    pub fn column_count(&self) -> usize {
        self.columns as usize
    }
}

/// What a finished result came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows in the result set; 0 for a statement without one.
    pub rows: u64,
    /// Bytes of the whole result, packet headers included, before compression and TLS.
    pub bytes: u64,
    /// Columns of the result set; 0 for a statement without one.
    pub columns: u64,
    /// Rows changed.
    pub affected_rows: u64,
    /// The AUTO_INCREMENT value made.
    pub last_insert_id: u64,
    /// `constants::status` bits.
    pub status: u16,
    /// Warnings raised.
    pub warnings: u16,
    /// Whether another result of the same command follows.
    pub more_results: bool,
}

/// Takes an OK packet apart (also one with the end marker, in the place of an EOF).
///
/// # Errors
/// When it is shorter than it has to be.
pub fn ok(payload: &[u8]) -> Result<Done, Error> {
    let mut reader = Reader::new(&payload[1..]);
    let affected_rows = reader.length_encoded("affected rows")?;
    let last_insert_id = reader.length_encoded("last insert id")?;
    let status = reader.u16("status")?;
    let warnings = reader.u16("warnings")?;
    let more_results = status & status::MORE_RESULTS != 0;
    Ok(Done {
        affected_rows,
        last_insert_id,
        status,
        warnings,
        more_results,
        ..Done::default()
    })
}

/// An EOF packet has 5 bytes, an OK in its place at least 7.
///
/// # Errors
/// When it is shorter than it has to be.
pub fn end_of_rows(payload: &[u8]) -> Result<Done, Error> {
    if payload.len() >= 7 {
        return ok(payload);
    }
    let mut reader = Reader::new(&payload[1..]);
    let warnings = reader.u16("warnings")?;
    let status = reader.u16("status")?;
    Ok(Done {
        warnings,
        status,
        more_results: status & status::MORE_RESULTS != 0,
        ..Done::default()
    })
}

/// Several times `MYSQL_ERRMSG_SIZE`, beyond which servers cut their messages.
const MOST_MESSAGE_BYTES: usize = 2048;

/// Takes an error packet apart; before the handshake it has no SQL state.
pub(crate) fn server_error(payload: &[u8]) -> Result<ServerError, Error> {
    let mut reader = Reader::new(&payload[1..]);
    let code = reader.u16("error code")?;
    let rest = reader.rest();
    let (sql_state, message) = match rest {
        [b'#', state @ ..] if state.len() >= 5 => ([state[0], state[1], state[2], state[3], state[4]], &state[5..]),
        message => (*b"HY000", message),
    };
    Ok(ServerError {
        code,
        sql_state,
        message: text(message, MOST_MESSAGE_BYTES),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ok_tells_rows_identity_status_and_warnings() {
        let done = ok(&[0, 3, 0xfc, 1, 2, 0x0b, 0, 4, 0, b'x']).unwrap();
        assert_eq!(
            (done.affected_rows, done.last_insert_id, done.status, done.warnings),
            (3, 0x201, 11, 4)
        );
        assert!(done.more_results);
        assert!(ok(&[0, 3, 0, 2, 0, 0]).is_err());
    }

    #[test]
    fn an_error_is_one_line_of_a_length_that_servers_write() {
        let error = |message: &[u8]| server_error(&[b"\xff\x7a\x04#42S02", message].concat()).unwrap();
        let found = error(b"near 'FROM t\r\n  WHERE'");
        assert_eq!((found.code, found.message.as_str()), (1146, "near 'FROM t WHERE'"));
        assert_eq!(error(&[b'E'; 1 << 20]).message.len(), MOST_MESSAGE_BYTES + "…".len());
    }

    #[test]
    fn the_end_of_rows_is_read_in_both_forms() {
        let eof = end_of_rows(&[0xfe, 1, 0, 8, 0]).unwrap();
        assert_eq!((eof.warnings, eof.more_results), (1, true));
        let ok = end_of_rows(&[0xfe, 0, 0, 2, 0, 1, 0]).unwrap();
        assert_eq!((ok.warnings, ok.more_results), (1, false));
        assert!(end_of_rows(&[0xfe, 1]).is_err());
    }

    #[test]
    fn an_error_has_its_sql_state_or_the_general_one() {
        let with = server_error(b"\xff\xbd\x04#40001Deadlock found").unwrap();
        assert_eq!(
            (with.code, with.sql_state(), with.message.as_str()),
            (1213, "40001", "Deadlock found")
        );
        let without = server_error(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!((without.code, without.sql_state()), (1040, "HY000"));
        assert_eq!(server_error(b"\xff\x10\x04#4").unwrap().message, "#4");
    }
}
