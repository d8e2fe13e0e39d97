//! `dynoload oltp run`: its options.

use clap::Args;

use super::agent::AgentArguments;
use super::connection::ConnectionArguments;
use super::load::{LoadArguments, RandomArguments};
use super::oltp_options::{TableArguments, TransactionArguments};
use super::output::OutputArguments;
use super::slices::SliceArguments;
use crate::error::{Error, Exit};
use crate::runner::{self, SqlRun};
use crate::spec::{OltpSpec, SqlSpec};

const EXAMPLES: &str = "Examples:
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

/// The options of `oltp run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    /// Workload; `dynoload oltp list` prints all
    #[arg(long)]
    workload: String,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
    #[command(flatten)]
    tables: TableArguments,
    #[command(flatten)]
    transaction: TransactionArguments,
    #[command(flatten)]
    random: RandomArguments,
    #[command(flatten)]
    agents: AgentArguments,
    #[command(flatten)]
    slices: SliceArguments,
    #[command(flatten)]
    output: OutputArguments,
}

impl RunArguments {
    fn spec(&self) -> OltpSpec {
        OltpSpec {
            workload: self.workload.clone(),
            load: self.load.spec(),
            connection: self.connection.spec(),
            options: self.transaction.options(&self.tables),
            random: self.random.spec(),
        }
    }
}

/// Runs it.
pub fn run(arguments: &RunArguments) -> Result<Exit, Error> {
    runner::run_sql(&SqlRun {
        spec: SqlSpec::Oltp(arguments.spec()),
        any_server: arguments.output.any_server,
        agents: arguments.agents.agent.clone(),
        slices: arguments.slices.spec(),
        outputs: arguments.output.spec(),
    })
}
