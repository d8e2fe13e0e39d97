//! `dynoload tpcc run`: its options.

use std::path::PathBuf;

use clap::Args;

use super::agent::AgentArguments;
use super::connection::ConnectionArguments;
use super::load::LoadArguments;
use super::output::OutputArguments;
use super::parse::{switch, within};
use super::slices::SliceArguments;
use crate::error::{Error, Exit};
use crate::runner::{self, SqlRun};
use crate::spec::{SqlSpec, TerminalSpec, TpccSpec};
use crate::sql::tpcc::schema::MOST_WAREHOUSES;

const EXAMPLES: &str = "Examples:
  dynoload tpcc run --database tpcc --connections 32 --warmup 60s --duration 300s
      As fast as 32 connections go, each a terminal without key and think times: tpcc-mysql's way.
  dynoload tpcc run --database tpcc --terminals 10000 --key-and-think-times on --connections 64 --duration 1200s
      10,000 terminals at the standard's pace, served over 64 connections; response time includes the wait for one.
  dynoload tpcc run --database tpcc --connections 16 --acknowledged orders.txt --json result.json
      Orders that the server has acknowledged go to a file, for `dynoload tpcc check --acknowledged orders.txt`.

TpmC-like counts committed New-Orders of the measurement alone; late ones are among them and counted apart, too.
The password comes from --password-file or DYNO_PASSWORD. The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 1 failed, 2 wrong input, 3 cannot be done here, 4 INVALID, 130 interrupted.";

/// Ten for each warehouse.
const MOST_TERMINALS: u32 = MOST_WAREHOUSES * 10;

/// The options of `tpcc run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    #[command(flatten)]
    terminals: TerminalArguments,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
    #[command(flatten)]
    agents: AgentArguments,
    #[command(flatten)]
    slices: SliceArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Terminals and transactions.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TPC-C")]
pub struct TerminalArguments {
    /// Number of warehouses to use; default: all existing ones
    #[arg(long, value_parser = within::<1, MOST_WAREHOUSES>)]
    warehouses: Option<u32>,
    /// Terminals; default: as many as connections. More than connections only with --key-and-think-times on, or --rate
    #[arg(long, value_parser = within::<1, MOST_TERMINALS>)]
    terminals: Option<u32>,
    /// on: the standard's key and think times, at most 12.86 New-Orders per minute and warehouse with ten terminals
    /// each
    #[arg(long, default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    key_and_think_times: bool,
    /// Factor for key and think times
    #[arg(long, default_value_t = 1.0)]
    time_factor: f64,
    /// fixed: a terminal has one warehouse, as in the standard. random: one for each transaction, as in tpcc-mysql
    #[arg(long, default_value = "fixed")]
    home: String,
    /// Stock-Level's count: per-item, one statement per item as in tpcc-mysql; join, one statement as in the standard
    #[arg(long, default_value = "per-item")]
    stock_level: String,
    /// on: send a statement before the answers to earlier statements if it does not depend on them. The statements and
    /// their order are the same, with fewer round trips; the server receives them faster than from programs that wait
    /// for each answer
    #[arg(long, default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    pipelining: bool,
    /// on: each transaction is one CALL of a stored procedure, which is created first; the account needs CREATE ROUTINE
    #[arg(long, default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    stored_procedures: bool,
    /// Append the key of every order that the server has acknowledged to this file
    #[arg(long, conflicts_with = "agent")]
    acknowledged: Option<PathBuf>,
}

impl TerminalArguments {
    fn spec(&self) -> TerminalSpec {
        TerminalSpec {
            warehouses: self.warehouses,
            terminals: self.terminals,
            key_and_think_times: self.key_and_think_times,
            time_factor: self.time_factor,
            home: self.home.clone(),
            stock_level: self.stock_level.clone(),
            pipelining: self.pipelining,
            stored_procedures: self.stored_procedures,
            acknowledged: self.acknowledged.clone(),
        }
    }
}

/// Runs it.
pub fn run(arguments: &RunArguments) -> Result<Exit, Error> {
    let spec = TpccSpec {
        terminals: arguments.terminals.spec(),
        load: arguments.load.spec(),
        connection: arguments.connection.spec(),
    };
    runner::run_sql(&SqlRun {
        spec: SqlSpec::Tpcc(spec),
        any_server: arguments.output.any_server,
        agents: arguments.agents.agent.clone(),
        slices: arguments.slices.spec(),
        outputs: arguments.output.spec(),
    })
}
