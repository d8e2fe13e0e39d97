//! The options of the tables and transactions, named as in sysbench 1.0.20.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::parse::{count, number, switch};
use crate::error::Error;
use crate::workload::{OltpOptions, RowText};

/// The tables.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Tables")]
pub struct TableArguments {
    /// Number of tables
    #[arg(long, default_value = "1", value_parser = count)]
    pub tables: u32,
    /// Rows per table
    #[arg(long, default_value = "10000", value_parser = count)]
    pub table_size: u32,
    /// AUTO_INCREMENT ids; off: ids from this program
    #[arg(long, default_value = "on", default_missing_value = "on", num_args = 0..=1, value_parser = switch, action = clap::ArgAction::Set)]
    pub auto_inc: bool,
    /// A secondary index on id instead of the primary key
    #[arg(long, default_value = "off", default_missing_value = "on", num_args = 0..=1, value_parser = switch, action = clap::ArgAction::Set)]
    pub secondary: bool,
    /// An index on k, made after the rows are loaded
    #[arg(long, default_value = "on", default_missing_value = "on", num_args = 0..=1, value_parser = switch, action = clap::ArgAction::Set)]
    pub create_secondary: bool,
    /// Storage engine
    #[arg(long, default_value = "innodb", alias = "mysql-storage-engine")]
    pub storage_engine: String,
    /// Texts of the rows: sysbench's digits, words (compress as prose), or random letters (hardly compress)
    #[arg(long, default_value = "digits", value_enum, hide_possible_values = true)]
    pub row_text: RowText,
}

/// The transactions.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Transactions")]
pub struct TransactionArguments {
    /// Rows of a range select
    #[arg(long, default_value = "100", value_parser = count)]
    pub range_size: u32,
    /// Point selects per transaction
    #[arg(long, default_value = "10", value_parser = number)]
    pub point_selects: u32,
    /// Simple range selects per transaction
    #[arg(long, default_value = "1", value_parser = number)]
    pub simple_ranges: u32,
    /// SUM() range selects per transaction
    #[arg(long, default_value = "1", value_parser = number)]
    pub sum_ranges: u32,
    /// ORDER BY range selects per transaction
    #[arg(long, default_value = "1", value_parser = number)]
    pub order_ranges: u32,
    /// DISTINCT range selects per transaction
    #[arg(long, default_value = "1", value_parser = number)]
    pub distinct_ranges: u32,
    /// Updates of the indexed column per transaction
    #[arg(long, default_value = "1", value_parser = number)]
    pub index_updates: u32,
    /// Updates of a column without an index per transaction
    #[arg(long, default_value = "1", value_parser = number)]
    pub non_index_updates: u32,
    /// Pairs of delete and insert per transaction
    #[arg(long, default_value = "1", value_parser = number)]
    pub delete_inserts: u32,
    /// Range selects at all
    #[arg(long, default_value = "on", default_missing_value = "on", num_args = 0..=1, value_parser = switch, action = clap::ArgAction::Set)]
    pub range_selects: bool,
    /// No BEGIN and COMMIT: every statement commits by itself
    #[arg(long, default_value = "off", default_missing_value = "on", num_args = 0..=1, value_parser = switch, action = clap::ArgAction::Set)]
    pub skip_trx: bool,
    /// Points in the IN list of select_random_points
    #[arg(long, default_value = "10", value_parser = count)]
    pub random_points: u32,
    /// Ranges in a statement of select_random_ranges
    #[arg(long, default_value = "10", value_parser = count)]
    pub number_of_ranges: u32,
    /// Size of a range of select_random_ranges
    #[arg(long, default_value = "5", value_parser = number)]
    pub delta: u32,
}

impl TableArguments {
    /// The options of the tables; those of transactions at their defaults.
    ///
    /// # Errors
    /// When the values mean no tables.
    pub fn resolve(&self) -> Result<OltpOptions, Error> {
        let options = OltpOptions {
            tables: self.tables,
            table_size: self.table_size,
            auto_inc: self.auto_inc,
            secondary: self.secondary,
            create_secondary: self.create_secondary,
            storage_engine: self.storage_engine.clone(),
            row_text: self.row_text,
            ..OltpOptions::default()
        };
        options.check().map_err(Error::User)?;
        Ok(options)
    }
}

impl TransactionArguments {
    /// The options of tables and transactions.
    ///
    /// # Errors
    /// When the values mean no load.
    pub fn resolve(&self, tables: &TableArguments) -> Result<OltpOptions, Error> {
        let options = OltpOptions {
            range_size: self.range_size,
            point_selects: self.point_selects,
            simple_ranges: self.simple_ranges,
            sum_ranges: self.sum_ranges,
            order_ranges: self.order_ranges,
            distinct_ranges: self.distinct_ranges,
            index_updates: self.index_updates,
            non_index_updates: self.non_index_updates,
            delete_inserts: self.delete_inserts,
            range_selects: self.range_selects,
            skip_trx: self.skip_trx,
            random_points: self.random_points,
            number_of_ranges: self.number_of_ranges,
            delta: self.delta,
            ..tables.resolve()?
        };
        options.check().map_err(Error::User)?;
        Ok(options)
    }
}
