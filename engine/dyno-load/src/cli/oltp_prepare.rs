//! `dynoload oltp prepare` and `oltp verify`: create the tables, and check them.

use std::io::Write as _;

use clap::Args;

use super::connection::ConnectionArguments;
use super::load::RandomArguments;
use super::oltp_options::TableArguments;
use super::parse::threads;
use crate::error::{Error, Exit};
use crate::sql::data::{self, RowSource};
use crate::sql::oltp;
use dyno_mysql::session_state::OWN_STATE;

const EXAMPLES: &str = "Examples:
  dynoload oltp prepare --tables 8 --table-size 1000000
      Eight tables that `dynoload oltp run` and sysbench 1.0.20 use alike.
  dynoload oltp prepare --tables 8 --table-size 1000000 --resume
      Completes them after an interruption; chunks that are there are not loaded again.

Rows depend on --seed, --row-text, table and id alone: any number of threads makes the same tables (`dynoload oltp verify`).";

/// The options of `oltp prepare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PrepareArguments {
    #[command(flatten)]
    tables: TableArguments,
    /// Threads, each with a connection; default: one for each CPU, at least 2
    #[arg(long, value_parser = threads)]
    threads: Option<u32>,
    /// Complete existing tables
    #[arg(long)]
    resume: bool,
    /// Workload that will use the tables: oltp_insert with --auto-inc off needs empty tables
    #[arg(long)]
    workload: Option<String>,
    /// Seed of the rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    random: RandomArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// The options of `oltp verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    #[command(flatten)]
    tables: TableArguments,
    /// Seed of the rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    random: RandomArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Makes and fills the tables.
pub fn run(arguments: &PrepareArguments) -> Result<Exit, Error> {
    let oltp = arguments.tables.resolve()?;
    if let Some(name) = &arguments.workload {
        oltp::named(name).map_err(Error::User)?;
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    let request = data::Request {
        options: arguments.connection.spec().options(false, Some(OWN_STATE))?,
        database: arguments.connection.database.clone(),
        rows: RowSource {
            seed: arguments.seed,
            distribution: arguments.random.spec().distribution()?,
            table_size: oltp.table_size,
            text: oltp.row_text,
        },
        empty: arguments.workload.as_deref() == Some("oltp_insert") && !oltp.auto_inc,
        oltp,
        threads: arguments.threads.unwrap_or(cpus.max(2)),
        resume: arguments.resume,
    };
    let prepared = data::prepare(&request, &|text| dyno_core::tell!("{text}"))?;
    let mut out = dyno_core::streams::stdout();
    writeln!(
        out,
        "{} tables: {} rows loaded in {:.2} s ({:.0} rows/s, indexes included), {} existed before",
        request.oltp.tables,
        prepared.rows_loaded,
        prepared.elapsed_s,
        prepared.rows_loaded as f64 / prepared.elapsed_s,
        prepared.rows_found
    )?;
    Ok(Exit::Done)
}

/// Checks the tables, a line each.
pub fn verify(arguments: &VerifyArguments) -> Result<Exit, Error> {
    let oltp = arguments.tables.resolve()?;
    let rows = RowSource {
        seed: arguments.seed,
        distribution: arguments.random.spec().distribution()?,
        table_size: oltp.table_size,
        text: oltp.row_text,
    };
    let checks = data::verify(
        &arguments.connection.spec().options(true, Some(OWN_STATE))?,
        oltp.tables,
        &rows,
    )?;
    let mut out = dyno_core::streams::stdout();
    for check in &checks {
        writeln!(
            out,
            "sbtest{}: {} rows, checksum {:016x}; expected {} rows, {:016x}: {}",
            check.table,
            check.server.0,
            check.server.1,
            check.expected.0,
            check.expected.1,
            if check.holds() { "equal" } else { "DIFFERENT" }
        )?;
    }
    Ok(if checks.iter().all(data::TableCheck::holds) {
        Exit::Done
    } else {
        Exit::Invalid
    })
}
