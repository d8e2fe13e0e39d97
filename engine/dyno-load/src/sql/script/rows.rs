//! The rows of a connection's last results, kept until the script fetches them or sends another statement.

use dyno_mysql::{Error, Row, Value};

/// One row's values as text; none is NULL.
pub type FetchedRow = Vec<Option<Vec<u8>>>;

/// Rows in one buffer: a script that looks at none costs a copy of their bytes.
#[derive(Debug, Default)]
pub struct StoredRows {
    /// For each value its length, or `NULL`; then its bytes.
    bytes: Vec<u8>,
    /// Results with columns: one of a query, several of a CALL. The first one that has not been left.
    sets: Vec<ResultSet>,
    current: usize,
    next: usize,
}

/// One result.
#[derive(Debug, Clone, Copy, Default)]
struct ResultSet {
    rows: u64,
    columns: u64,
    /// Where its rows end.
    end: usize,
}

const NULL: u32 = u32::MAX;
/// Room that is kept for the next result.
const KEEP: usize = 1 << 16;

impl StoredRows {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP);
        self.sets.clear();
        self.current = 0;
        self.next = 0;
    }

    /// The rows that were added are all of a result; one without columns is none.
    pub fn end_result(&mut self, rows: u64, columns: u64) {
        if columns > 0 {
            let end = self.bytes.len();
            self.sets.push(ResultSet { rows, columns, end });
        }
    }

    /// The rows of all results.
    pub fn total(&self) -> u64 {
        self.sets.iter().map(|set| set.rows).sum()
    }

    /// Rows and columns of the result that is fetched from, 0 where there is none.
    pub fn size(&self) -> (u64, u64) {
        let set = self.sets.get(self.current).copied().unwrap_or_default();
        (set.rows, set.columns)
    }

    /// Whether there is a result after this one.
    pub fn has_more(&self) -> bool {
        self.current + 1 < self.sets.len()
    }

    /// Leaves the result that is fetched from.
    pub fn next_result(&mut self) {
        self.next = self.sets.get(self.current).map_or(self.next, |set| set.end);
        self.current += 1;
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When it cannot be decoded.
    pub fn push(&mut self, row: &Row<'_>) -> Result<(), Error> {
        for value in row.values() {
            self.push_value(&value?);
        }
        Ok(())
    }

    /// Adds a row that is decoded already.
    pub fn push_values(&mut self, row: &[Value<'_>]) {
        row.iter().for_each(|value| self.push_value(value));
    }

    #[inline]
    fn push_value(&mut self, value: &Value<'_>) {
        match value {
            Value::Null => self.bytes.extend_from_slice(&NULL.to_le_bytes()),
            Value::Bytes(bytes) => self.value(bytes),
            other => self.value(shown(other).as_bytes()),
        }
    }

    /// Adds a value as text to the row that is being added.
    fn value(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a row of texts.
    pub fn push_texts(&mut self, row: &[Option<Vec<u8>>]) {
        for value in row {
            match value {
                None => self.bytes.extend_from_slice(&NULL.to_le_bytes()),
                Some(bytes) => self.value(bytes),
            }
        }
    }

    /// Takes the next row; none after the last.
    pub fn fetch(&mut self) -> Option<FetchedRow> {
        let set = self.sets.get(self.current).filter(|set| self.next < set.end)?;
        let columns = set.columns as usize;
        let mut row = Vec::with_capacity(columns);
        for _ in 0..columns {
            let length: [u8; 4] = self.bytes.get(self.next..self.next + 4)?.try_into().ok()?;
            self.next += 4;
            match u32::from_le_bytes(length) {
                NULL => row.push(None),
                length => {
                    let end = self.next + length as usize;
                    row.push(Some(self.bytes.get(self.next..end)?.to_vec()));
                    self.next = end;
                }
            }
        }
        Some(row)
    }
}

/// A value of a binary row as the server would print it.
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null | Value::Bytes(_) => String::new(),
        Value::Int(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::DateTime(at) => format!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
            at.year, at.month, at.day, at.hour, at.minute, at.second
        ),
        Value::Time(span) => format!(
            "{}{:02}:{:02}:{:02}",
            if span.negative { "-" } else { "" },
            span.days * 24 + u32::from(span.hour),
            span.minute,
            span.second
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_order_with_their_nulls() {
        let mut rows = StoredRows::default();
        rows.push_texts(&[Some(b"a".to_vec()), None]);
        rows.push_texts(&[Some(Vec::new()), Some(b"long".to_vec())]);
        rows.end_result(2, 2);
        rows.push_texts(&[Some(b"second".to_vec())]);
        rows.end_result(1, 1);
        rows.end_result(0, 0);
        assert_eq!(rows.fetch(), Some(vec![Some(b"a".to_vec()), None]));
        assert_eq!(rows.fetch(), Some(vec![Some(Vec::new()), Some(b"long".to_vec())]));
        assert_eq!(rows.fetch(), None);
        assert!(rows.has_more());
        rows.next_result();
        assert_eq!((rows.size(), rows.has_more(), rows.total()), ((1, 1), false, 3));
        assert_eq!(rows.fetch(), Some(vec![Some(b"second".to_vec())]));
        assert_eq!(rows.fetch(), None);
        rows.next_result();
        assert_eq!((rows.size(), rows.fetch()), ((0, 0), None));
        rows.clear();
        assert_eq!(rows.fetch(), None);
    }
}
