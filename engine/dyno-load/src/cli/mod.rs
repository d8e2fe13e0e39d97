//! The command line: one file for each group of commands. Parses, checks, calls, prints; turns errors into exit codes.

mod capture;
mod kv;
mod oltp;
mod session;
mod sql;
mod sysbench;
mod tpcc;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::error::{Error, Exit};
use crate::null_server::Listener;
use crate::parse::dashes;
use crate::replay::ReplayRun;
use crate::runner::calibrate::{self, Calibration};
use crate::runner::Run;
use crate::spec::ScriptSpec;
use crate::statements::StatementsRun;
use crate::{null_server, runner};

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
    Oltp(Box<oltp::Oltp>),
    /// memcached and MySQL's memcached API: store keys, run a workload on them, show statistics.
    #[command(subcommand, after_help = EXIT_CODES)]
    Kv(Box<kv::Kv>),
    /// TPC-C 5.11: prepare its tables, run its five transactions, check its consistency conditions.
    #[command(subcommand, after_help = EXIT_CODES)]
    Tpcc(Box<tpcc::Tpcc>),
    /// Files of SQL transactions: prepare their tables, run them, drop the tables.
    #[command(subcommand, after_help = EXIT_CODES)]
    Sql(Box<sql::Sql>),
    /// sysbench's Lua scripts: run one unchanged as a load, or one of its commands.
    #[command(after_help = sysbench::SCRIPT_EXAMPLES)]
    Script(Box<Run<ScriptSpec>>),
    /// The part of a distributed run that generates load; started by a run with --agent, not by hand.
    #[command(after_help = AGENT_ABOUT)]
    Agent,
    /// Make a capture of the statements in a server's general log, slow log or statements history.
    Capture(Box<capture::CaptureArguments>),
    /// Send the statements of a capture to a server again, in their sessions and at their times.
    #[command(after_help = capture::REPLAY_EXAMPLES, mut_arg("database", capture::default_schema))]
    Replay(Box<ReplayRun>),
    /// Compare the results of two replays of the same capture: latency, rows, errors, contents.
    CompareReplays(capture::CompareArguments),
    /// Compare each statement of a capture between servers: time, CPU time, result, counters and plan.
    #[command(after_help = capture::STATEMENTS_EXAMPLES)]
    Statements(Box<StatementsRun>),
    /// Open sessions as a load does, and print what they negotiated and the rows of statements as one JSON object.
    Session(Box<session::SessionArguments>),
    /// A server that does no work, for measuring the client alone.
    Null(NullArguments),
    /// Measure the CPU time and latency of dynoload itself on this host, against the null server.
    Calibrate(Calibration),
}

/// Runs the program.
pub fn main() -> Exit {
    dyno_core::streams::abort_on_panic();
    let given: Vec<_> = std::env::args_os().map(dashes).collect();
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
        Command::Agent => run_agent(),
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Replay(arguments) => capture::replay(*arguments),
        Command::CompareReplays(arguments) => capture::compare_replays(&arguments),
        Command::Statements(arguments) => crate::statements::run(&arguments),
        Command::Session(arguments) => session::run(&arguments),
        Command::Null(arguments) => run_null(&arguments),
        Command::Calibrate(calibration) => calibrate::run(&calibration),
        Command::Oltp(oltp) => oltp::run(*oltp),
        Command::Kv(kv) => kv::run(*kv),
        Command::Tpcc(tpcc) => tpcc::run(*tpcc),
        Command::Sql(command) => sql::run(*command),
        Command::Script(arguments) => sysbench::run_script(*arguments),
    };
    result.unwrap_or_else(|error: Error| {
        dyno_core::tell!("dynoload: {error}");
        error.exit()
    })
}

/// The options of `null`.
#[derive(Debug, Args)]
pub struct NullArguments {
    /// TCP address to listen on; port 0 selects a free port, which is printed
    #[arg(long, default_value = "127.0.0.1:0", conflicts_with = "socket")]
    listen: String,
    /// Path of a Unix socket to listen on instead
    #[arg(long)]
    socket: Option<PathBuf>,
}

/// Prints where it listens, and serves until interrupted.
fn run_null(arguments: &NullArguments) -> Result<Exit, Error> {
    let refused = |what: String, error: std::io::Error| Error::User(format!("cannot listen on {what}: {error}"));
    let listener = match &arguments.socket {
        Some(path) => Listener::unix(path.clone()).map_err(|error| refused(path.display().to_string(), error))?,
        None => Listener::tcp(&arguments.listen).map_err(|error| refused(arguments.listen.clone(), error))?,
    };
    crate::host::allow_open_files(16_384)?;
    let interrupted = crate::host::interruption()?;
    let mut out = dyno_core::streams::stdout();
    writeln!(out, "{}", listener.describe())?;
    out.flush()?;
    null_server::serve(&listener, &interrupted)?;
    Ok(Exit::Done)
}

const AGENT_ABOUT: &str = "Is started by `dynoload oltp run --agent COMMAND`, `tpcc run`, `sql run`, `script` or `kv run`, on any host \
from which the server can be reached. It does what the coordinator says on its standard input, tells on its standard output how \
it goes, listens on no port, and ends when its input ends.

Example: two hosts load the server db1; a third one coordinates and writes the result.
  dynoload oltp run --workload oltp_read_only --host db1 --connections 512 --threads 4 --duration 60s \\
      --agent 'ssh -o BatchMode=yes load1 dynoload agent' --agent 'ssh -o BatchMode=yes load2 dynoload agent'";

/// Serves one coordinator.
fn run_agent() -> Result<Exit, Error> {
    if std::io::stdin().is_terminal() {
        return Err(Error::User(
            "an agent is started by another dynoload, as in `dynoload oltp run --agent 'ssh load2 dynoload agent' …`"
                .into(),
        ));
    }
    runner::serve_agent()
}
