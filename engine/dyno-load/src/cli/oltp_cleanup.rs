//! `dynoload oltp cleanup`: drop the tables.

use clap::Args;

use super::connection::ConnectionArguments;
use super::parse::within;
use crate::error::{Error, Exit};
use dyno_mysql::session_state::OWN_STATE;

/// The options of `oltp cleanup`.
#[derive(Debug, Args)]
pub struct CleanupArguments {
    /// Number of tables
    #[arg(long, default_value = "1", value_parser = within::<1, 100_000>)]
    tables: u32,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Drops the tables.
pub fn run(arguments: &CleanupArguments) -> Result<Exit, Error> {
    crate::sql::data::cleanup(
        &arguments.connection.spec().options(true, Some(OWN_STATE))?,
        arguments.tables,
    )?;
    Ok(Exit::Done)
}
