//! The options of the OLTP family, with the names and defaults of sysbench 1.0.20's oltp_common.lua.

use serde::{Deserialize, Serialize};

use super::RowText;

/// How many rows, and what one transaction does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OltpOptions {
    /// Number of tables, sbtest1 to sbtestN.
    pub tables: u32,
    /// Rows per table.
    pub table_size: u32,
    /// Rows that a range query covers.
    pub range_size: u32,
    /// Point selects per transaction.
    pub point_selects: u32,
    /// Simple range selects per transaction.
    pub simple_ranges: u32,
    /// SUM() range selects per transaction.
    pub sum_ranges: u32,
    /// ORDER BY range selects per transaction.
    pub order_ranges: u32,
    /// DISTINCT range selects per transaction.
    pub distinct_ranges: u32,
    /// Updates of the indexed column per transaction.
    pub index_updates: u32,
    /// Updates of a column without an index per transaction.
    pub non_index_updates: u32,
    /// Pairs of delete and insert per transaction.
    pub delete_inserts: u32,
    /// Whether there are range selects at all.
    pub range_selects: bool,
    /// Whether ids come from AUTO_INCREMENT.
    pub auto_inc: bool,
    /// Whether every statement commits by itself.
    pub skip_trx: bool,
    /// Whether id has a secondary index in place of the primary key.
    pub secondary: bool,
    /// Whether k has its index.
    pub create_secondary: bool,
    /// Storage engine of the tables.
    pub storage_engine: String,
    /// What the rows' texts are made of.
    pub row_text: RowText,
    /// Values in the IN list of select_random_points.
    pub random_points: u32,
    /// Ranges in one statement of select_random_ranges.
    pub number_of_ranges: u32,
    /// Size of a range of select_random_ranges.
    pub delta: u32,
}

impl Default for OltpOptions {
    fn default() -> Self {
        Self {
            tables: 1,
            table_size: 10_000,
            range_size: 100,
            point_selects: 10,
            simple_ranges: 1,
            sum_ranges: 1,
            order_ranges: 1,
            distinct_ranges: 1,
            index_updates: 1,
            non_index_updates: 1,
            delete_inserts: 1,
            range_selects: true,
            auto_inc: true,
            skip_trx: false,
            secondary: false,
            create_secondary: true,
            storage_engine: "innodb".into(),
            row_text: RowText::Digits,
            random_points: 10,
            number_of_ranges: 10,
            delta: 5,
        }
    }
}

impl OltpOptions {
    /// Refuses what no run can mean.
    ///
    /// # Errors
    /// A sentence that names the option and its value.
    pub fn check(&self) -> Result<(), String> {
        if self.tables == 0 {
            return Err("--tables 0 leaves no rows; use at least 1".into());
        }
        if self.table_size == 0 {
            return Err("--table-size 0 leaves no rows; use at least 1".into());
        }
        if self.table_size > i32::MAX as u32 {
            return Err(format!(
                "--table-size {} does not fit the INTEGER id of the tables; use at most {}",
                self.table_size,
                i32::MAX
            ));
        }
        if self.range_size == 0 {
            return Err("--range-size 0 covers no row; use at least 1".into());
        }
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if self.storage_engine.is_empty() || !self.storage_engine.bytes().all(known) {
            return Err(format!(
                "--storage-engine '{}' is not the name of an engine; try innodb",
                self.storage_engine
            ));
        }
        for (name, value) in [
            ("--random-points", self.random_points),
            ("--number-of-ranges", self.number_of_ranges),
        ] {
            if value == 0 || value > 10_000 {
                return Err(format!("{name} {value} is outside 1 to 10,000"));
            }
        }
        Ok(())
    }
}
