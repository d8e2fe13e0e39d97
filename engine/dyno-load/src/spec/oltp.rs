//! sysbench's OLTP workloads and TPC-C.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use dyno_loop::Think;
use dyno_mysql::{CAPTURED_STATE, INHERITED_STATE, MEASURED_STATE, OWN_STATE_IN_TRANSACTIONS};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::load::{description, one_of, ServerAddress};
use super::{ConnectionSpec, LoadSpec, RandomSpec, SqlDescription};
use crate::error::Error;
use crate::parse::{switch, within};
use crate::sql::oltp::{self, Context, OltpOptions, Workload};
use crate::sql::tpcc::schema::MOST_WAREHOUSES;
use crate::sql::tpcc::{Home, StockLevelQuery, TpccConfig};
use crate::sql::{tpcc, SqlSettings, SqlWorkload};

/// What to run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct OltpSpec {
    /// Workload; `dynoload oltp list` prints all
    #[arg(long)]
    pub workload: String,
    /// How much load, and for how long.
    #[command(flatten)]
    pub load: LoadSpec,
    /// Where the server is.
    #[command(flatten)]
    pub connection: ConnectionSpec,
    /// Tables and transactions.
    #[command(flatten)]
    pub options: OltpOptions,
    /// Which rows.
    #[command(flatten)]
    pub random: RandomSpec,
}

impl OltpSpec {
    /// The workload of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn workload(&self) -> Result<Workload, Error> {
        oltp::named(&self.workload).map_err(Error::User)
    }

    /// The settings.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn resolve(&self) -> Result<SqlSettings, Error> {
        self.options.table.check().map_err(Error::User)?;
        let workload = self.workload()?;
        let context = Context {
            definition: workload.define(&self.options),
            options: self.options.clone(),
            distribution: self.random.distribution()?,
            seed: self.load.seed,
            connections: self.load.connections(),
        };
        let is_empty = context.definition.calls.is_empty();
        let settings = settings(SqlWorkload::Oltp(context), &self.connection, &self.load)?;
        if is_empty {
            let name = workload.name;
            return Err(Error::User(format!(
                "{name} has no statement with these options; set at least one count above 0"
            )));
        }
        Ok(settings)
    }

    /// The settings in the user's words.
    pub fn description(&self) -> SqlDescription {
        description(&self.connection, &self.load, self.random.shown())
    }
}

/// What the sessions of a load are set to. The user's own statements run in the server's state; where connections are what is
/// measured, nothing is added to them.
fn state_of(workload: &SqlWorkload) -> Option<&'static str> {
    match workload {
        SqlWorkload::Oltp(_) if workload.definition().name == "connect" => None,
        SqlWorkload::Oltp(_) => Some(MEASURED_STATE),
        // COMMIT and ROLLBACK are the only limits of transactions, as in tpcc-mysql: no BEGIN.
        SqlWorkload::Tpcc(_) => Some(OWN_STATE_IN_TRANSACTIONS),
        SqlWorkload::Script(_) | SqlWorkload::File(_) => Some(INHERITED_STATE),
        SqlWorkload::Captured(_) => Some(CAPTURED_STATE),
    }
}

/// The settings of any workload in SQL.
///
/// # Errors
/// With the option, its value and what is allowed.
pub fn settings(workload: SqlWorkload, connection: &ConnectionSpec, load: &LoadSpec) -> Result<SqlSettings, Error> {
    let is_paced = matches!(&workload, SqlWorkload::Captured(context) if context.is_paced());
    let has_terminals = is_paced || workload.tpcc().is_some_and(|config| config.key_and_think_times);
    let address = connection.address()?;
    let mut options = connection.options(true, state_of(&workload))?;
    if let SqlWorkload::Captured(context) = &workload {
        options.init_statements.extend(context.set_names.clone());
    }
    options.deprecate_eof = !matches!(workload, SqlWorkload::Script(_) | SqlWorkload::File(_));
    let options = Arc::new(options);
    let server = ServerAddress {
        endpoint: options.endpoint.to_string(),
        address,
        connect_timeout: connection.connect_timeout,
    };
    let prepared = super::load::one_of("--db-ps-mode", &load.db_ps_mode, &["auto", "disable"])? == "auto";
    Ok(SqlSettings {
        load: load.resolve(server, has_terminals)?,
        options,
        workload,
        prepared,
        acknowledged: None,
    })
}

/// Ten for each warehouse.
const MOST_TERMINALS: u32 = MOST_WAREHOUSES * 10;

/// What to run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct TpccSpec {
    /// Terminals and transactions.
    #[command(flatten)]
    pub terminals: TerminalSpec,
    /// How much load, and for how long.
    #[command(flatten)]
    pub load: LoadSpec,
    /// Where the server is.
    #[command(flatten)]
    pub connection: ConnectionSpec,
}

/// Terminals and transactions.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "TPC-C")]
pub struct TerminalSpec {
    /// Number of warehouses to use; default: all existing ones
    #[arg(long, value_parser = within::<1, MOST_WAREHOUSES>)]
    pub warehouses: Option<u32>,
    /// Terminals; default: as many as connections. More than connections only with --key-and-think-times on, or --rate
    #[arg(long, value_parser = within::<1, MOST_TERMINALS>)]
    pub terminals: Option<u32>,
    /// on: the standard's key and think times, at most 12.86 New-Orders per minute and warehouse with ten terminals
    /// each
    #[arg(long, default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    pub key_and_think_times: bool,
    /// Factor for key and think times
    #[arg(long, default_value_t = 1.0)]
    pub time_factor: f64,
    /// fixed: a terminal has one warehouse, as in the standard. random: one for each transaction, as in tpcc-mysql
    #[arg(long, default_value = "fixed")]
    pub home: String,
    /// Stock-Level's count: per-item, one statement per item as in tpcc-mysql; join, one statement as in the standard
    #[arg(long, default_value = "per-item")]
    pub stock_level: String,
    /// on: send a statement before the answers to earlier statements if it does not depend on them. The statements and
    /// their order are the same, with fewer round trips; the server receives them faster than from programs that wait
    /// for each answer
    #[arg(long, default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    pub pipelining: bool,
    /// on: each transaction is one CALL of a stored procedure, which is created first; the account needs CREATE ROUTINE
    #[arg(long, default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    pub stored_procedures: bool,
    /// Append the key of every order that the server has acknowledged to this file
    #[arg(long, conflicts_with = "agent")]
    pub acknowledged: Option<PathBuf>,
}

impl TpccSpec {
    /// The settings; one warehouse where their number is not known yet.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn resolve(&self) -> Result<SqlSettings, Error> {
        let own = &self.terminals;
        let context = tpcc::Context::new(config(&self.load, own)?);
        let mut settings = settings(SqlWorkload::Tpcc(context), &self.connection, &self.load)?;
        if own.key_and_think_times && settings.load.think != Think::No {
            return Err(Error::User(
                "--think-time is a pause in the loop of a connection; with --key-and-think-times on, --time-factor \
                 lengthens or shortens the standard's"
                    .into(),
            ));
        }
        settings.acknowledged.clone_from(&own.acknowledged);
        Ok(settings)
    }

    /// The settings in the user's words.
    pub fn description(&self, config: Option<&TpccConfig>) -> SqlDescription {
        let constants = json!({ "nurand_constants": config.map(|config| config.nurand_constants) });
        let mut description = description(&self.connection, &self.load, constants);
        if self.terminals.key_and_think_times {
            description.think = format!("key and think times × {}", self.terminals.time_factor);
        }
        description
    }
}

fn config(load: &LoadSpec, own: &TerminalSpec) -> Result<TpccConfig, Error> {
    let terminals = own.terminals.unwrap_or(load.connections());
    let apart = own.key_and_think_times || load.rate.is_some();
    if terminals != load.connections() && !apart {
        return Err(Error::User(format!(
            "--terminals {terminals} on --connections {}: without --key-and-think-times on, or --rate, each connection is \
             one terminal; leave --terminals out",
            load.connections()
        )));
    }
    if own.key_and_think_times && load.rate.is_some() {
        return Err(Error::User(
            "--rate sets an open loop, --key-and-think-times on sets the pace of terminals; use only one of them"
                .into(),
        ));
    }
    if !(own.time_factor > 0.0 && own.time_factor <= 1000.0) {
        return Err(Error::User(format!(
            "--time-factor {} is not above 0 and at most 1000",
            own.time_factor
        )));
    }
    let home = match one_of("--home", &own.home, &["fixed", "random"])? {
        "random" => Home::Random,
        _ => Home::Fixed,
    };
    let stock_level = match one_of("--stock-level", &own.stock_level, &["per-item", "join"])? {
        "join" => StockLevelQuery::Join,
        _ => StockLevelQuery::PerItem,
    };
    Ok(TpccConfig {
        warehouses: own.warehouses.unwrap_or(1),
        terminals,
        key_and_think_times: own.key_and_think_times,
        time_factor: own.time_factor,
        home,
        stock_level,
        pipelining: own.pipelining,
        stored_procedures: own.stored_procedures,
        nurand_constants: TpccConfig::constants(load.seed),
        seed: load.seed,
    })
}
