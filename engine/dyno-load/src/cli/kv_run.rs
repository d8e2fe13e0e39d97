//! `dynoload kv run`: its options.

use clap::Args;

use super::agent::AgentArguments;
use super::kv_options::{DataArguments, MixArguments, PresetArguments, ServerArguments};
use super::load::LoadArguments;
use super::output::OutputArguments;
use super::parse::count;
use super::slices::SliceArguments;
use crate::error::{Error, Exit};
use crate::runner::{self, KvRun};
use crate::spec::KvSpec;

const EXAMPLES: &str = "Examples:
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

/// The options of `kv run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("db_ps_mode", |option| option.hide(true)))]
#[command(mut_arg("ignore_errors", |option| option
    .default_value("none")
    .help("Errors that end only their operation: status numbers of the binary protocol, or all. 2003,2013 reconnect")))]
pub struct RunArguments {
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    mix: MixArguments,
    /// Store this share of the keys before the load
    #[arg(long, help_heading = "Keys and values")]
    fill: Option<String>,
    /// End after this total number of operations instead of --duration
    #[arg(long, value_parser = count, conflicts_with_all = ["rate", "slices"], help_heading = "Load")]
    operations: Option<u32>,
    #[command(flatten)]
    preset: PresetArguments,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    agents: AgentArguments,
    #[command(flatten)]
    slices: SliceArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Runs it.
pub fn run(arguments: &RunArguments) -> Result<Exit, Error> {
    runner::run_kv(&KvRun {
        spec: KvSpec {
            server: arguments.server.spec(),
            data: arguments.data.spec(),
            mix: arguments.mix.spec(),
            fill: arguments.fill.clone(),
            operations: arguments.operations.map(u64::from),
            preset: arguments.preset.spec(),
            load: arguments.load.spec(),
        },
        agents: arguments.agents.agent.clone(),
        slices: arguments.slices.spec(),
        outputs: arguments.output.spec(),
    })
}
