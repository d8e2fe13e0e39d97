//! A run of one of the OLTP workloads.

use std::sync::Arc;

use clap::Args;
use dyno_mysql::session_state::{CAPTURED_STATE, INHERITED_STATE, MEASURED_STATE, OWN_STATE_IN_TRANSACTIONS};
use serde::{Deserialize, Serialize};

use super::load::{description, ServerAddress};
use super::{ConnectionSpec, LoadSpec, RandomSpec, SqlDescription};
use crate::error::Error;
use crate::sql::oltp::{self, Context, OltpOptions, Workload};
use crate::sql::{SqlSettings, SqlWorkload};

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
