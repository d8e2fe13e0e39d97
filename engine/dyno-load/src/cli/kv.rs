//! `dynoload kv`: prepare, run, stats.

use std::io::Write as _;

use clap::{Args, Subcommand};

use crate::error::{Error, Exit};
use crate::kv::server;
use crate::runner::{self, Outputs, Run};
use crate::spec::{KvData, KvServer, KvSpec, LoadSpec};

const RUN_EXAMPLES: &str = "Examples:
  dynoload kv run --port 11211 --connections 32 --keys 100000 --fill 100% --ratio 90:10 --duration 60s
      Fill 100,000 keys, then get and set as fast as 32 connections go (closed loop).
  dynoload kv run --connections 64 --rate 50000 --arrivals poisson --warmup 5s --hit-ratio 95% --json result.json
      50,000 operations a second come whether or not the server keeps up; one key in twenty is not there.
  dynoload kv run --ycsb d --keys 50000 --fill 100% --connections 32 --duration 60s
      As YCSB's workload D: gets of the newest keys, and one set of a new key in twenty operations.
  dynoload kv run --preset memaslap --connections 32 --duration 2m --overwrite 0.2
      What memaslap -t 2m -c 32 -o 0.2 asks: a window of 10,000 keys for each connection, 90/10, 64 B, 1024 B.
  dynoload kv run --preset memslap --connections 32 --execute-number 10000
      What memslap --concurrency 32 --execute-number 10000 asks: set, then get, total time of each.

The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 1 failed, 2 wrong input, 3 cannot be done here, 4 INVALID, 130 interrupted.";

const IGNORED_ERRORS: &str =
    "Errors that end only their operation: status numbers of the binary protocol, or all. 2003,2013 reconnect";

/// memcached and MySQL's memcached API.
#[derive(Debug, Subcommand)]
pub enum Kv {
    /// Store the keys that a run will use.
    Prepare(Box<PrepareArguments>),
    /// Run a workload and measure it.
    #[command(after_help = RUN_EXAMPLES)]
    #[command(mut_arg("db_ps_mode", |option| option.hide(true)))]
    #[command(mut_arg("ignore_errors", |option| option.default_value("none").help(IGNORED_ERRORS)))]
    Run(Box<Run<KvSpec>>),
    /// Show the server's statistics.
    Stats(StatsArguments),
}

/// The options of `kv prepare`.
#[derive(Debug, Args)]
#[command(mut_arg("db_ps_mode", |option| option.hide(true)))]
#[command(mut_arg("ignore_errors", |option| option.default_value("none")))]
pub struct PrepareArguments {
    #[command(flatten)]
    server: KvServer,
    #[command(flatten)]
    data: KvData,
    /// Share of the keys to store
    #[arg(long, default_value = "100%", help_heading = "Keys and values")]
    fill: String,
    #[command(flatten)]
    load: LoadSpec,
    #[command(flatten)]
    outputs: Outputs,
}

/// The options of `kv stats`.
#[derive(Debug, Args)]
pub struct StatsArguments {
    #[command(flatten)]
    server: KvServer,
    /// A group such as items, slabs or settings; default: the general statistics
    #[arg(default_value = "")]
    group: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs one of them.
pub fn run(command: Kv) -> Result<Exit, Error> {
    match command {
        Kv::Prepare(own) => runner::prepare_kv(&own.server, &own.data, &own.load, &own.fill, &own.outputs),
        Kv::Run(run) => runner::run_kv(run.spec, &run.options),
        Kv::Stats(arguments) => stats(&arguments),
    }
}

/// Prints a name and a value a line, or one JSON object.
fn stats(arguments: &StatsArguments) -> Result<Exit, Error> {
    let place = &arguments.server;
    let mut client = server::connect(&place.endpoint(), place.protocol()?, place.connect_timeout)?;
    let stats = server::stats(&mut client, &arguments.group)?;
    let mut out = dyno_core::streams::stdout();
    if arguments.json {
        writeln!(out, "{}", serde_json::json!(stats))?;
        return Ok(Exit::Done);
    }
    for (name, value) in stats {
        writeln!(out, "{}", dyno_core::streams::visible(&format!("{name} {value}")))?;
    }
    Ok(Exit::Done)
}
