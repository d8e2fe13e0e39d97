//! `dynoload oltp`: prepare, verify, run, cleanup, list.

use std::io::Write as _;

use clap::{Args, Subcommand};
use dyno_mysql::OWN_STATE;

use crate::error::{Error, Exit};
use crate::parse::{threads, within};
use crate::runner::{self, Run};
use crate::spec::{ConnectionSpec, OltpSpec, RandomSpec, SqlSpec};
use crate::sql::data::{self, RowSource};
use crate::sql::oltp::{self, TableOptions, CATALOGUE};

const PREPARE_EXAMPLES: &str = "Examples:
  dynoload oltp prepare --tables 8 --table-size 1000000
      Eight tables that `dynoload oltp run` and sysbench 1.0.20 use alike.
  dynoload oltp prepare --tables 8 --table-size 1000000 --resume
      Completes them after an interruption; chunks that are there are not loaded again.

Rows depend on --seed, --row-text, table and id alone: any number of threads makes the same tables (`dynoload oltp verify`).";

const RUN_EXAMPLES: &str = "Examples:
  dynoload oltp run --workload oltp_read_only --connections 64 --duration 60s
      As fast as 64 connections go (closed loop), like sysbench --threads=64.
  dynoload oltp run --workload oltp_read_write --connections 64 --rate 500 --arrivals poisson --warmup 10s
      500 transactions a second come whether or not the server keeps up; response time counts from when each was due.
  dynoload oltp run --workload oltp_point_select --connections 10000 --rate 2000 --json result.json --hdr result.hlog
      Many mostly idle connections; the result as JSON lines and as an HDR log.
  dynoload oltp run --workload oltp_read_only --host db1 --connections 512 \
      --agent 'ssh -o BatchMode=yes load1 dynoload agent' --agent 'ssh -o BatchMode=yes load2 dynoload agent'
      Two hosts load db1, 256 connections each; this one coordinates them and writes one result.
  dynoload oltp run --workload oltp_read_only --connections 64 --slices --server-pid 1234
      Connects and holds; the line `go a 7 500 3000` on standard input runs 0.5 s of washout and 3 s that are counted.

The password comes from --password-file or DYNO_PASSWORD. The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 1 failed, 2 wrong input, 3 cannot be done here, 4 INVALID, 130 interrupted.";

/// The OLTP family of sysbench.
#[derive(Debug, Subcommand)]
pub enum Oltp {
    /// Create and fill the tables sbtest1 to sbtestN.
    Prepare(PrepareArguments),
    /// Compare the tables with the rows that the seed generates.
    Verify(VerifyArguments),
    /// Run a workload and measure it.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run<OltpSpec>>),
    /// Drop the tables.
    Cleanup(CleanupArguments),
    /// List the workloads.
    List,
}

/// The options of `oltp prepare`.
#[derive(Debug, Args)]
#[command(after_help = PREPARE_EXAMPLES)]
pub struct PrepareArguments {
    #[command(flatten)]
    tables: TableOptions,
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
    random: RandomSpec,
    #[command(flatten)]
    connection: ConnectionSpec,
}

/// The options of `oltp verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    #[command(flatten)]
    tables: TableOptions,
    /// Seed of the rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    random: RandomSpec,
    #[command(flatten)]
    connection: ConnectionSpec,
}

/// The options of `oltp cleanup`.
#[derive(Debug, Args)]
pub struct CleanupArguments {
    /// Number of tables
    #[arg(long, default_value = "1", value_parser = within::<1, 100_000>)]
    tables: u32,
    #[command(flatten)]
    connection: ConnectionSpec,
}

/// Runs one of them.
pub fn run(command: Oltp) -> Result<Exit, Error> {
    match command {
        Oltp::Prepare(arguments) => prepare(arguments),
        Oltp::Verify(arguments) => verify(&arguments),
        Oltp::Run(run) => runner::run_sql(SqlSpec::Oltp(run.spec), &run.options),
        Oltp::Cleanup(arguments) => {
            let options = arguments.connection.options(true, Some(OWN_STATE))?;
            data::cleanup(&options, arguments.tables)?;
            Ok(Exit::Done)
        }
        Oltp::List => list(),
    }
}

/// Prints a line a workload: name, what a transaction is.
fn list() -> Result<Exit, Error> {
    let mut out = dyno_core::streams::stdout();
    for workload in CATALOGUE {
        writeln!(out, "{:<24} {}", workload.name, workload.summary)?;
    }
    Ok(Exit::Done)
}

/// Makes and fills the tables.
fn prepare(arguments: PrepareArguments) -> Result<Exit, Error> {
    let oltp = arguments.tables;
    oltp.check().map_err(Error::User)?;
    if let Some(name) = &arguments.workload {
        oltp::named(name).map_err(Error::User)?;
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    let request = data::Request {
        options: arguments.connection.options(false, Some(OWN_STATE))?,
        database: arguments.connection.database,
        rows: RowSource {
            seed: arguments.seed,
            distribution: arguments.random.distribution()?,
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
fn verify(arguments: &VerifyArguments) -> Result<Exit, Error> {
    let oltp = &arguments.tables;
    oltp.check().map_err(Error::User)?;
    let rows = RowSource {
        seed: arguments.seed,
        distribution: arguments.random.distribution()?,
        table_size: oltp.table_size,
        text: oltp.row_text,
    };
    let checks = data::verify(
        &arguments.connection.options(true, Some(OWN_STATE))?,
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
