//! `dynoload tpcc`: prepare, run, check, cleanup.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use dyno_mysql::OWN_STATE;

use crate::error::{Error, Exit};
use crate::parse::{threads, within};
use crate::runner::{self, Run};
use crate::spec::{ConnectionSpec, SqlSpec, TpccSpec};
use crate::sql::data::drop_tables;
use crate::sql::tpcc::schema::{self, MOST_WAREHOUSES};
use crate::sql::tpcc::{check, drop_procedures, load};

const PREPARE_EXAMPLES: &str = "Examples:
  dynoload tpcc prepare --database tpcc --warehouses 10
      Nine tables with tpcc-mysql's names, about 100 MB per warehouse.
  dynoload tpcc prepare --database tpcc --warehouses 10 --resume
      Completes them after an interruption; chunks that are there are not loaded again.

Rows depend on --seed and their number alone: any number of threads makes the same tables.";

const RUN_EXAMPLES: &str = "Examples:
  dynoload tpcc run --database tpcc --connections 32 --warmup 60s --duration 300s
      As fast as 32 connections go, each a terminal without key and think times: tpcc-mysql's way.
  dynoload tpcc run --database tpcc --terminals 10000 --key-and-think-times on --connections 64 --duration 1200s
      10,000 terminals at the standard's pace, served over 64 connections; response time includes the wait for one.
  dynoload tpcc run --database tpcc --connections 16 --acknowledged orders.txt --json result.json
      Orders that the server has acknowledged go to a file, for `dynoload tpcc check --acknowledged orders.txt`.

TpmC-like counts committed New-Orders of the measurement alone; late ones are among them and counted apart, too.
The password comes from --password-file or DYNO_PASSWORD. The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 1 failed, 2 wrong input, 3 cannot be done here, 4 INVALID, 130 interrupted.";

const CHECK_EXAMPLES: &str = "Examples:
  dynoload tpcc check --database tpcc
      The consistency conditions 1 to 12 of clause 3.3.2, each with the count of its violations.
  dynoload tpcc check --database tpcc --acknowledged orders.txt
      Also: is every order there that the server acknowledged in `dynoload tpcc run --acknowledged orders.txt`?

Exit codes: 0 everything holds, 2 wrong input, 3 cannot be done here, 4 something does not hold.";

/// TPC-C 5.11: prepare the tables, run the five transactions, check the consistency conditions.
#[derive(Debug, Subcommand)]
pub enum Tpcc {
    /// Create and fill the nine tables.
    Prepare(PrepareArguments),
    /// Run the five transactions and measure them.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run<TpccSpec>>),
    /// Check the consistency conditions, and that acknowledged orders exist.
    Check(CheckArguments),
    /// Drop the tables.
    Cleanup(CleanupArguments),
}

/// The options of `tpcc prepare`.
#[derive(Debug, Args)]
#[command(after_help = PREPARE_EXAMPLES)]
pub struct PrepareArguments {
    /// Warehouses, each of about 100 MB
    #[arg(long, default_value = "1", value_parser = within::<1, MOST_WAREHOUSES>)]
    warehouses: u32,
    /// Threads, each with a connection; default: two for each CPU
    #[arg(long, value_parser = threads)]
    threads: Option<u32>,
    /// Complete existing tables
    #[arg(long)]
    resume: bool,
    /// Create the standard's foreign keys, and the indexes that they need
    #[arg(long)]
    foreign_keys: bool,
    /// Seed of the rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    connection: ConnectionSpec,
}

/// The options of `tpcc check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArguments {
    /// File of acknowledged orders that a run has written
    #[arg(long)]
    acknowledged: Option<PathBuf>,
    /// Threads, each with a connection; default: one for each CPU
    #[arg(long, value_parser = threads)]
    threads: Option<u32>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionSpec,
}

/// The options of `tpcc cleanup`.
#[derive(Debug, Args)]
pub struct CleanupArguments {
    #[command(flatten)]
    connection: ConnectionSpec,
}

/// Runs one of them.
pub fn run(command: Tpcc) -> Result<Exit, Error> {
    match command {
        Tpcc::Prepare(arguments) => prepare(&arguments),
        Tpcc::Run(run) => runner::run_sql(SqlSpec::Tpcc(run.spec), &run.options),
        Tpcc::Check(arguments) => run_check(&arguments),
        Tpcc::Cleanup(arguments) => cleanup(&arguments),
    }
}

pub(super) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32
}

fn prepare(arguments: &PrepareArguments) -> Result<Exit, Error> {
    let request = load::Request {
        options: arguments.connection.options(false, Some(OWN_STATE))?,
        database: arguments.connection.database.clone(),
        warehouses: arguments.warehouses,
        seed: arguments.seed,
        threads: arguments.threads.unwrap_or(cpus() * 2),
        foreign_keys: arguments.foreign_keys,
        resume: arguments.resume,
    };
    let prepared = load::prepare(&request, &|text| dyno_core::tell!("{text}"))?;
    let mut out = dyno_core::streams::stdout();
    writeln!(
        out,
        "{} warehouses: {} rows loaded in {:.2} s ({:.0} rows/s, indexes included), {} rows of complete chunks existed before",
        request.warehouses,
        prepared.rows_loaded,
        prepared.elapsed_s,
        prepared.rows_loaded as f64 / prepared.elapsed_s,
        prepared.rows_found
    )?;
    Ok(Exit::Done)
}

fn run_check(arguments: &CheckArguments) -> Result<Exit, Error> {
    let orders = arguments.acknowledged.as_deref().map(check::read).transpose()?;
    let options = arguments.connection.options(true, Some(OWN_STATE))?;
    let report = check::check(&options, arguments.threads.unwrap_or(cpus()), orders)?;
    let mut out = dyno_core::streams::stdout();
    if arguments.json {
        writeln!(
            out,
            "{}",
            serde_json::json!({ "holds": report.holds(), "report": report })
        )?;
    } else {
        print_report(&mut out, &report)?;
    }
    Ok(if report.holds() { Exit::Done } else { Exit::Invalid })
}

fn print_report(out: &mut dyn std::io::Write, report: &check::Report) -> std::io::Result<()> {
    writeln!(out, "{} warehouses", report.warehouses)?;
    for condition in &report.conditions {
        let (number, text, count) = (condition.number, condition.text, condition.violations);
        writeln!(out, "  3.3.2.{number:<3} {text:<72} {count:>6} violations")?;
    }
    if let Some(durability) = &report.durability {
        writeln!(
            out,
            "  {} orders were acknowledged: {} are missing, {} were acknowledged twice",
            durability.acknowledged, durability.missing, durability.repeated
        )?;
    }
    writeln!(
        out,
        "{}",
        if report.holds() {
            "everything holds"
        } else {
            "NOT CONSISTENT"
        }
    )
}

fn cleanup(arguments: &CleanupArguments) -> Result<Exit, Error> {
    let options = arguments.connection.options(true, Some(OWN_STATE))?;
    drop_tables(&options, schema::TABLES.iter().rev().map(schema::Table::prepared))?;
    if let Ok(mut client) = crate::sql::server::connect(&options) {
        drop_procedures(&mut client)?;
    }
    Ok(Exit::Done)
}
