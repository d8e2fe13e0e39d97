//! Rows from their numbers: the same seed makes the same table whatever the threads, and any part of it alone.
//!
//! k follows the run's distribution over the table's ids, c and pad are sysbench's templates of digits, or other
//! texts. Whether the tables are those of a seed is found by the server's checksum of each, against that of the rows
//! as they should be.

use std::collections::{BTreeMap, BTreeSet};

use dyno_core::distribution::Distribution;
use dyno_core::random::{Domain, RandomStream};
use dyno_mysql::blocking::Client;
use dyno_mysql::Options;

use crate::error::Error;
use crate::sql::oltp::{RowText, TableOptions};
use crate::sql::server::{connect_unbounded, failed};

/// Bits of the row's number below the table's.
const ROW_BITS: u32 = 40;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id, from 1.
    pub id: u32,
    /// The indexed column.
    pub k: u32,
    /// 10 groups of 11 digits, or another text.
    pub c: [u8; 119],
    /// 5 groups of 11 digits, or another text.
    pub pad: [u8; 59],
}

/// Makes the rows of all tables of one seed.
#[derive(Debug, Clone)]
pub struct RowSource {
    /// Seed.
    pub seed: u64,
    /// Where k comes from.
    pub distribution: Distribution,
    /// Rows per table: the range of k.
    pub table_size: u32,
    /// What the texts are made of.
    pub text: RowText,
}

impl RowSource {
    /// Fills `row` with row `id` of table `table`.
    pub fn fill(&self, row: &mut Row, table: u32, id: u32) {
        let number = (u64::from(table) << ROW_BITS) | u64::from(id);
        let mut stream = RandomStream::of(self.seed, Domain::Row, number);
        row.id = id;
        row.k = self.distribution.draw(&mut stream, 1, self.table_size);
        self.text.fill(&mut stream, &mut row.c);
        self.text.fill(&mut stream, &mut row.pad);
    }

    /// Row `id` of table `table`.
    pub fn row(&self, table: u32, id: u32) -> Row {
        let mut row = Row::empty();
        self.fill(&mut row, table, id);
        row
    }
}

impl Row {
    /// A row to be filled.
    pub fn empty() -> Self {
        Self {
            id: 0,
            k: 0,
            c: [0; 119],
            pad: [0; 59],
        }
    }

    /// CRC-32 of `id#k#c#pad`, what the server gives as CRC32(CONCAT_WS('#', id, k, c, pad)).
    pub fn checksum(&self) -> u32 {
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(format!("{}#{}#", self.id, self.k).as_bytes());
        checksum.update(&self.c);
        checksum.update(b"#");
        checksum.update(&self.pad);
        checksum.finalize()
    }
}

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

/// CREATE TABLE, as oltp_common.lua has it.
pub fn create_table(options: &TableOptions, table: u32) -> String {
    let id = if options.auto_inc {
        "INTEGER NOT NULL AUTO_INCREMENT"
    } else {
        "INTEGER NOT NULL"
    };
    let key = if options.secondary { "KEY xid" } else { "PRIMARY KEY" };
    format!(
        "CREATE TABLE sbtest{table}(\n  id {id},\n  k INTEGER DEFAULT '0' NOT NULL,\n  c CHAR(120) DEFAULT '' NOT NULL,\n  \
         pad CHAR(60) DEFAULT '' NOT NULL,\n  {key} (id)\n) /*! ENGINE = {} */ ",
        options.storage_engine
    )
}

/// CREATE INDEX on k.
pub fn create_index(table: u32) -> String {
    format!("CREATE INDEX k_{table} ON sbtest{table}(k)")
}

/// Whether the index on k is there.
pub fn has_index(client: &mut Client, table: u32) -> Result<bool, Error> {
    let question = format!("SHOW INDEX FROM sbtest{table} WHERE Key_name = 'k_{table}'");
    let answer = client.query(&question).map_err(|error| failed(&question, &error))?;
    Ok(!answer.rows.is_empty())
}

/// The keys and indexes of a table in words, as in "the primary key (id)".
pub fn keys(client: &mut Client, table: u32) -> Result<BTreeSet<String>, Error> {
    const NAME: usize = 2;
    const COLUMN: usize = 4;
    let question = format!("SHOW INDEX FROM sbtest{table}");
    let answer = client.query(&question).map_err(|error| failed(&question, &error))?;
    let mut columns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in answer.texts() {
        let text = |place: usize| row.get(place).cloned().flatten().unwrap_or_default();
        columns.entry(text(NAME)).or_default().push(text(COLUMN));
    }
    let in_words = |(name, columns): (String, Vec<String>)| key(name == "PRIMARY", &columns.join(", "));
    Ok(columns.into_iter().map(in_words).collect())
}

/// The keys that a prepared table has.
pub fn wanted_keys(options: &TableOptions) -> BTreeSet<String> {
    let index = options.create_secondary.then(|| key(false, "k"));
    index.into_iter().chain([key(!options.secondary, "id")]).collect()
}

fn key(is_primary: bool, columns: &str) -> String {
    let kind = if is_primary { "primary key" } else { "index" };
    format!("the {kind} ({columns})")
}

#[cfg(test)]
mod tests {
    use dyno_core::distribution::Parameters;

    use super::*;

    #[test]
    fn a_row_depends_on_its_table_and_id_alone() {
        let distribution = Distribution::named("special", &Parameters::default()).unwrap();
        let source = RowSource {
            seed: 1,
            distribution,
            table_size: 1000,
            text: RowText::Digits,
        };
        assert_eq!(source.row(1, 7), source.row(1, 7));
        assert_ne!(source.row(1, 7).c, source.row(2, 7).c);
        assert_ne!(source.row(1, 7).c, source.row(1, 8).c);
        assert!((1..=1000).contains(&source.row(3, 999).k));
    }
}
