//! Columns and rows of a result set.

use std::sync::{Arc, Mutex};

use smallvec::SmallVec;

use crate::constants::column_type;
use crate::error::Error;
use crate::intake::LONGEST_RESULT;
use crate::packet::Reader;
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
