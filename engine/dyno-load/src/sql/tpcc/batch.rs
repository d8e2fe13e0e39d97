//! Rows on their way into one INSERT: cells that point into one buffer of text.

use dyno_mysql::{DateTime, Value};

/// The date of everything in the initial population: fixed, so that the same seed makes the same tables.
pub const LOAD_DATE: DateTime = DateTime {
    year: 2026,
    month: 1,
    day: 1,
    hour: 0,
    minute: 0,
    second: 0,
    microsecond: 0,
};

#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    Int(i32),
    Long(i64),
    Text(u32, u32),
    Date,
}

/// Rows of one table, cell by cell.
#[derive(Debug, Default)]
pub struct Batch {
    text: Vec<u8>,
    cells: Vec<Cell>,
}

impl Batch {
    /// Empties it.
    pub fn clear(&mut self) {
        self.text.clear();
        self.cells.clear();
    }

    /// Adds an integer.
    pub fn int(&mut self, value: u32) {
        self.cells.push(Cell::Int(value as i32));
    }

    /// Adds a large integer.
    pub fn long(&mut self, value: u64) {
        self.cells.push(Cell::Long(value as i64));
    }

    /// Adds NULL.
    pub fn null(&mut self) {
        self.cells.push(Cell::Null);
    }

    /// Adds the date of the load.
    pub fn date(&mut self) {
        self.cells.push(Cell::Date);
    }

    /// Adds the text that `write` appends.
    pub fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len() as u32;
        write(&mut self.text);
        self.cells.push(Cell::Text(start, self.text.len() as u32));
    }

    /// Adds a number of ten-thousandths or hundredths as a decimal text, as in 0.1234 or 12.34.
    pub fn decimal(&mut self, value: u32, digits: usize) {
        let scale = 10u32.pow(digits as u32);
        // Writing to a vector cannot fail.
        self.text(|out| {
            drop(std::io::Write::write_fmt(
                out,
                format_args!("{}.{:0digits$}", value / scale, value % scale),
            ))
        });
    }

    /// The last text added.
    pub fn last_text(&self) -> &[u8] {
        match self.cells.last() {
            Some(Cell::Text(start, end)) => &self.text[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// Cells so far.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// The cells as parameters.
    pub fn values(&self) -> Vec<Value<'_>> {
        let value = |cell: &Cell| match *cell {
            Cell::Null => Value::Null,
            Cell::Int(value) => Value::Int32(value),
            Cell::Long(value) => Value::Int(value),
            Cell::Text(start, end) => Value::Bytes(&self.text[start as usize..end as usize]),
            Cell::Date => Value::DateTime(LOAD_DATE),
        };
        self.cells.iter().map(value).collect()
    }
}
