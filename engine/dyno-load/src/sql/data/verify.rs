//! Are the tables those of a seed? The server's checksum of each table against the one of the rows as they should be.

use dyno_mysql::Options;

use super::rows::{Row, RowSource};
use crate::error::Error;
use crate::sql::server::{connect_unbounded, failed};

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableCheck {
    /// Its number.
    pub table: u32,
    /// Rows and checksum on the server.
    pub server: (u64, u64),
    /// Rows and checksum as they should be.
    pub expected: (u64, u64),
}

impl TableCheck {
    /// Whether the table is as it should be.
    pub fn holds(&self) -> bool {
        self.server == self.expected
    }
}

/// Checks tables 1 to `tables`: the sum of CRC32(CONCAT_WS('#', id, k, c, pad)) over all rows.
///
/// # Errors
/// When a table is missing, or the server refuses.
pub fn verify(options: &Options, tables: u32, rows: &RowSource) -> Result<Vec<TableCheck>, Error> {
    let mut client = connect_unbounded(options)?;
    let mut checks = Vec::new();
    for table in 1..=tables {
        let question =
            format!("SELECT COUNT(*), COALESCE(SUM(CRC32(CONCAT_WS('#', id, k, c, pad))), 0) FROM sbtest{table}");
        let answer = client
            .query(&question)
            .map_err(|error| failed(&question, &error))?
            .texts();
        let number = |column: usize| {
            answer
                .first()
                .and_then(|row| row.get(column)?.as_ref()?.parse().ok())
                .unwrap_or(0)
        };
        let mut sum = 0;
        let mut row = Row::empty();
        for id in 1..=rows.table_size {
            rows.fill(&mut row, table, id);
            sum += u64::from(row.checksum());
        }
        checks.push(TableCheck {
            table,
            server: (number(0), number(1)),
            expected: (u64::from(rows.table_size), sum),
        });
    }
    Ok(checks)
}
