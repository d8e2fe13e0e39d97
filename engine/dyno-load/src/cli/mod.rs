//! The command line: one file a command. Parses, checks, calls, prints; turns errors into exit codes.

mod agent;
mod calibrate;
mod capture;
mod compare_replays;
mod connection;
mod events;
mod kv_options;
mod kv_prepare;
mod kv_run;
mod kv_stats;
mod load;
mod null;
mod oltp_cleanup;
mod oltp_list;
mod oltp_options;
mod oltp_prepare;
mod oltp_run;
mod output;
mod parse;
mod replay;
mod script;
mod session;
mod slices;
mod sql;
mod sysbench;
mod tpcc;
mod tpcc_run;

use clap::{Parser, Subcommand};

use crate::error::{Error, Exit};

const EXIT_CODES: &str = "Exit codes:
  0    done; a run's verdict is VALID or SUSPECT
  1    the run failed: server lost, or an error that is not ignored
  2    wrong input (command line, password, missing or small tables); no load was sent
  3    the server or this host cannot do it; no load was sent
  4    the run ended, but its verdict is INVALID
  130  interrupted; what was measured so far is in the result";

/// A load engine for MySQL and MariaDB that uses less CPU time than the server it measures.
///
/// It runs the OLTP workloads of sysbench 1.0.20 on the same tables, measures response time from the moment a
/// transaction was due, and judges whether its figures can be trusted.
#[derive(Debug, Parser)]
#[command(name = "dynoload", version, after_help = EXIT_CODES, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The OLTP family of sysbench: prepare tables, run a workload on them, drop them.
    #[command(subcommand, after_help = EXIT_CODES)]
    Oltp(Box<Oltp>),
    /// memcached and MySQL's memcached API: store keys, run a workload on them, show statistics.
    #[command(subcommand, after_help = EXIT_CODES)]
    Kv(Box<Kv>),
    /// TPC-C 5.11: prepare its tables, run its five transactions, check its consistency conditions.
    #[command(subcommand, after_help = EXIT_CODES)]
    Tpcc(Box<tpcc::Tpcc>),
    /// Files of SQL transactions: prepare their tables, run them, drop the tables.
    #[command(subcommand, after_help = EXIT_CODES)]
    Sql(Box<sql::Sql>),
    /// sysbench's Lua scripts: run one unchanged as a load, or one of its commands.
    Script(Box<script::ScriptArguments>),
    /// The part of a distributed run that generates load; started by a run with --agent, not by hand.
    #[command(after_help = agent::ABOUT)]
    Agent,
    /// Make a capture of the statements in a server's general log, slow log or statements history.
    Capture(Box<capture::CaptureArguments>),
    /// Send the statements of a capture to a server again, in their sessions and at their times.
    Replay(Box<replay::ReplayArguments>),
    /// Compare the results of two replays of the same capture: latency, rows, errors, contents.
    CompareReplays(compare_replays::CompareArguments),
    /// Open sessions as a load does, and print what they negotiated and the rows of statements as one JSON object.
    Session(Box<session::SessionArguments>),
    /// A server that does no work, for measuring the client alone.
    Null(null::NullArguments),
    /// Measure the CPU time and latency of dynoload itself on this host, against the null server.
    Calibrate(calibrate::CalibrateArguments),
}

#[derive(Debug, Subcommand)]
enum Oltp {
    /// Create and fill the tables sbtest1 to sbtestN.
    Prepare(oltp_prepare::PrepareArguments),
    /// Compare the tables with the rows that the seed generates.
    Verify(oltp_prepare::VerifyArguments),
    /// Run a workload and measure it.
    Run(Box<oltp_run::RunArguments>),
    /// Drop the tables.
    Cleanup(oltp_cleanup::CleanupArguments),
    /// List the workloads.
    List,
}

#[derive(Debug, Subcommand)]
enum Kv {
    /// Store the keys that a run will use.
    Prepare(Box<kv_prepare::PrepareArguments>),
    /// Run a workload and measure it.
    Run(Box<kv_run::RunArguments>),
    /// Show the server's statistics.
    Stats(kv_stats::StatsArguments),
}

/// Runs the program.
pub fn main() -> Exit {
    dyno_core::panics::abort_on_panic();
    let given: Vec<_> = std::env::args_os().map(parse::dashes).collect();
    let translated = match sysbench::translate(given.clone()) {
        Ok(translated) => translated,
        Err(error) => {
            dyno_core::tell!("dynoload: {error}");
            return Exit::Input;
        }
    };
    let arguments = match Arguments::try_parse_from(translated) {
        Ok(arguments) => arguments,
        Err(error) => {
            // --help and --version come this way too; output that nobody reads is no failure.
            let _ = error.print();
            for note in sysbench::notes(&given, &error.to_string()) {
                dyno_core::tell!("{note}");
            }
            return if error.use_stderr() { Exit::Input } else { Exit::Done };
        }
    };
    let result = match arguments.command {
        Command::Agent => agent::run(),
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::CompareReplays(arguments) => compare_replays::run(&arguments),
        Command::Session(arguments) => session::run(&arguments),
        Command::Null(arguments) => null::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Oltp(oltp) => run_oltp(&oltp),
        Command::Kv(kv) => run_kv(&kv),
        Command::Tpcc(tpcc) => tpcc::run(&tpcc),
        Command::Sql(command) => sql::run(&command),
        Command::Script(arguments) => script::run(&arguments),
    };
    result.unwrap_or_else(|error: Error| {
        dyno_core::tell!("dynoload: {error}");
        error.exit()
    })
}

fn run_kv(command: &Kv) -> Result<Exit, Error> {
    match command {
        Kv::Prepare(arguments) => kv_prepare::run(arguments),
        Kv::Run(arguments) => kv_run::run(arguments),
        Kv::Stats(arguments) => kv_stats::run(arguments),
    }
}

fn run_oltp(command: &Oltp) -> Result<Exit, Error> {
    match command {
        Oltp::Prepare(arguments) => oltp_prepare::run(arguments),
        Oltp::Verify(arguments) => oltp_prepare::verify(arguments),
        Oltp::Run(arguments) => oltp_run::run(arguments),
        Oltp::Cleanup(arguments) => oltp_cleanup::run(arguments),
        Oltp::List => oltp_list::run(),
    }
}
