//! `dynoload tpcc run`: the five transactions from any number of terminals.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use dyno_core::distribution::{Distribution, Parameters};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::agent::{self, AgentArguments};
use super::connection::ConnectionArguments;
use super::oltp_run::{measure, OutputArguments};
use super::parse::{count, switch};
use super::run_settings::{self, one_of, LoadArguments};
use super::slices::SliceArguments;
use crate::error::{Error, Exit};
use crate::output::json as format;
use crate::run::{Settings, Think};
use crate::server::{self, Needs};
use crate::slices::{Input, SqlTarget};
use crate::tpcc::{self, check, Home, Plan, StockLevel};
use crate::workload::{Context, OltpOptions};

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

/// The options of `tpcc run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArguments {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    agents: AgentArguments,
    #[command(flatten)]
    slices: SliceArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// What is asked of whom, for how long: the same for the host that starts the run and for its agents.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct Asked {
    #[command(flatten)]
    terminals: TerminalArguments,
    #[command(flatten)]
    pub(super) load: LoadArguments,
    #[command(flatten)]
    pub(super) connection: ConnectionArguments,
}

impl Asked {
    /// The settings; the warehouses are known by now.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn resolve(&self) -> Result<Settings, Error> {
        settings(self, self.terminals.warehouses.unwrap_or(1))
    }
}

/// Who asks for what.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "TPC-C")]
pub struct TerminalArguments {
    /// Warehouses that take part; default: all that are there
    #[arg(long, value_parser = count)]
    warehouses: Option<u32>,
    /// Terminals; default: as many as connections. More than connections only with --key-and-think-times on, or --rate
    #[arg(long, value_parser = count)]
    terminals: Option<u32>,
    /// on: the standard's pace, at most 12.86 New-Orders a minute and warehouse with ten terminals each
    #[arg(long, default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    key_and_think_times: bool,
    /// What key and think times are multiplied by
    #[arg(long, default_value_t = 1.0)]
    time_factor: f64,
    /// fixed: a terminal has one warehouse, as in the standard. random: another one each time, as in tpcc-mysql
    #[arg(long, default_value = "fixed")]
    home: String,
    /// Stock-Level's count: per-item, a statement an item as in tpcc-mysql; join, one statement as in the standard
    #[arg(long, default_value = "per-item")]
    stock_level: String,
    /// on: a statement is sent before the answers of those before it, where it does not need them. The same statements in
    /// the same order with fewer round trips; the server is asked faster than by programs that wait for each answer
    #[arg(long, default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    pipelining: bool,
    /// on: each transaction is one CALL of a stored procedure, which is made first; the account needs CREATE ROUTINE
    #[arg(long, default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    stored_procedures: bool,
    /// Append the key of every order that the server has acknowledged to this file
    #[arg(long, conflicts_with = "agent")]
    acknowledged: Option<PathBuf>,
}

/// Runs it.
pub fn run(arguments: &RunArguments) -> Result<Exit, Error> {
    let mut asked = arguments.asked.clone();
    let options = asked.connection.options(true)?;
    // The control connection commits each statement: an open read view would hold back the purge during the whole run.
    let mut control = server::connect(&options)?;
    if asked.terminals.warehouses.is_none() {
        // Agents count none themselves: all have the same.
        asked.terminals.warehouses = Some(check::count_warehouses(&mut control)?.max(1));
    }
    let mut settings = asked.resolve()?;
    crate::host::take_priority(settings.priority);
    if asked.terminals.stored_procedures {
        tpcc::procedures::create(&mut control)?;
    }
    let facts = server::check(
        &mut control,
        &Needs {
            context: &settings.context,
            prepared: settings.prepared,
            single_table: false,
            any_server: arguments.output.any_server,
        },
    )?;
    let constants = json!({ "nurand_constants": settings.context.tpcc.as_ref().map(|plan| plan.nurand_constants) });
    let mut description = run_settings::description(&asked.connection, &asked.load, constants);
    if asked.terminals.key_and_think_times {
        description.think = format!("key and think times × {}", asked.terminals.time_factor);
    }
    if arguments.slices.slices {
        let shown = format::settings(&settings, &description);
        let input = Input::open()?;
        return arguments
            .slices
            .run(&mut SqlTarget::new(settings, control), shown, &facts, &input);
    }
    let any_server = arguments.output.any_server;
    let interrupted = crate::host::interruption()?;
    let team = agent::engage(
        &arguments.agents,
        &mut settings,
        agent::Asked::Tpcc(asked.clone()),
        any_server,
        &interrupted,
    )?;
    let shown = format::settings(&settings, &description);
    measure(
        &Arc::new(settings),
        shown,
        &facts,
        control,
        team,
        &interrupted,
        &arguments.output,
    )
}

fn settings(arguments: &Asked, warehouses: u32) -> Result<Settings, Error> {
    let (load, own) = (&arguments.load, &arguments.terminals);
    let plan = plan(load, own, warehouses)?;
    let distribution = Distribution::named("uniform", &Parameters::default()).map_err(Error::User)?;
    let context = Context {
        definition: tpcc::definition(own.stored_procedures),
        options: OltpOptions {
            tables: 1,
            ..OltpOptions::default()
        },
        distribution,
        seed: load.seed,
        connections: load.connections,
        tpcc: Some(plan),
    };
    let mut settings = run_settings::settings(context, &arguments.connection, load)?;
    if own.key_and_think_times && settings.think != Think::No {
        return Err(Error::User(
            "--think-time is a pause in the loop of a connection; with --key-and-think-times on, --time-factor \
             lengthens or shortens the standard's"
                .into(),
        ));
    }
    settings.acknowledged.clone_from(&own.acknowledged);
    if let Some(path) = &own.acknowledged {
        // Fails here rather than after the connections are made; an old run's orders are not of this one.
        std::fs::File::create(path).map_err(|error| {
            Error::User(format!(
                "--acknowledged '{}' cannot be written: {error}",
                path.display()
            ))
        })?;
    }
    // COMMIT and ROLLBACK are the only limits of transactions, as in tpcc-mysql: no BEGIN.
    Arc::make_mut(&mut settings.options)
        .init_statements
        .push("SET autocommit = 0".into());
    Ok(settings)
}

fn plan(load: &LoadArguments, own: &TerminalArguments, warehouses: u32) -> Result<Plan, Error> {
    let terminals = own.terminals.unwrap_or(load.connections);
    let apart = own.key_and_think_times || load.rate.is_some();
    if terminals != load.connections && !apart {
        return Err(Error::User(format!(
            "--terminals {terminals} on --connections {}: without --key-and-think-times on, or --rate, each connection is \
             one terminal; leave --terminals out",
            load.connections
        )));
    }
    if own.key_and_think_times && load.rate.is_some() {
        return Err(Error::User(
            "--rate gives the pace of an open loop, --key-and-think-times on that of terminals; give one of them"
                .into(),
        ));
    }
    if !(own.time_factor > 0.0 && own.time_factor.is_finite()) {
        return Err(Error::User(format!("--time-factor {} is not above 0", own.time_factor)));
    }
    let home = match one_of("--home", &own.home, &["fixed", "random"])? {
        "random" => Home::Random,
        _ => Home::Fixed,
    };
    let stock_level = match one_of("--stock-level", &own.stock_level, &["per-item", "join"])? {
        "join" => StockLevel::Join,
        _ => StockLevel::PerItem,
    };
    Ok(Plan {
        warehouses,
        terminals,
        key_and_think_times: own.key_and_think_times,
        time_factor: own.time_factor,
        home,
        stock_level,
        pipelining: own.pipelining,
        stored_procedures: own.stored_procedures,
        nurand_constants: Plan::constants(load.seed),
        seed: load.seed,
    })
}
