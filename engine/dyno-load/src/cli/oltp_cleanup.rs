//! `dynoload oltp cleanup`: drop the tables.

use clap::Args;

use super::connection::ConnectionArguments;
use super::parse::count;
use crate::error::{Error, Exit};

/// The options of `oltp cleanup`.
#[derive(Debug, Args)]
pub struct CleanupArguments {
    /// Number of tables
    #[arg(long, default_value = "1", value_parser = count)]
    tables: u32,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Drops the tables.
pub fn run(arguments: &CleanupArguments) -> Result<Exit, Error> {
    crate::data::cleanup(&arguments.connection.options(true)?, arguments.tables)?;
    Ok(Exit::Done)
}
