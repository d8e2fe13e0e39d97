//! A run of one of sysbench's scripts, or another of its commands.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dyno_core::distribution::{Distribution, Parameters};
use serde::{Deserialize, Serialize};

use super::load::description;
use super::oltp::settings;
use super::{ConnectionSpec, LoadSpec, RandomSpec, SqlDescription};
use crate::error::Error;
use crate::sources::Sources;
use crate::sql::definition::Definition;
use crate::sql::part::Part;
use crate::sql::script::{Commands, General, Limits, Program, ScriptContext};
use crate::sql::{SqlSettings, SqlWorkload};

/// What to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScriptSpec {
    /// The script.
    pub file: PathBuf,
    /// run, prepare, cleanup, or another command of the script.
    pub command: String,
    /// The script's own options: names with underscores, and texts.
    pub options: BTreeMap<String, String>,
    /// The same, for where the script has such an option and it is not set.
    pub defaults: BTreeMap<String, String>,
    /// How long it may compute without a statement.
    pub time_limit: Duration,
    /// Memory of one worker's Lua state, in MiB.
    pub memory_mib: u32,
    /// How much load, and for how long.
    pub load: LoadSpec,
    /// Where the server is.
    pub connection: ConnectionSpec,
    /// Which rows.
    pub random: RandomSpec,
    /// The script's file, and the modules that it has loaded.
    pub sources: Sources,
}

impl ScriptSpec {
    /// The script with its options; it is read, but not loaded.
    ///
    /// # Errors
    /// When the file cannot be read, or an option of dynoload's is wrong.
    pub fn context(&self) -> Result<ScriptContext, Error> {
        let program = Arc::new(Program::read(&self.file, &self.sources)?);
        // Checked here, with the option's name.
        let _: Distribution = self.random.distribution()?;
        let connection = &self.connection;
        Ok(ScriptContext {
            definition: Definition::new(program.name()),
            program,
            command: self.command.clone(),
            options: self.options.clone(),
            defaults: self.defaults.clone(),
            sources: self.sources.clone(),
            part: Part::default(),
            general: General {
                threads: self.load.connections,
                events: self.load.events.unwrap_or(0),
                time_s: self.load.duration.as_secs_f64(),
                rate: self
                    .load
                    .rate
                    .as_deref()
                    .and_then(|rate| rate.parse().ok())
                    .unwrap_or(0.0),
                report_interval_s: self.load.interval.as_secs_f64(),
                rand_type: self.random.rand_type.clone(),
                host: connection.host.clone(),
                port: connection.port,
                socket: connection
                    .socket
                    .as_ref()
                    .map_or_else(String::new, |path| path.display().to_string()),
                user: connection.user.clone(),
                database: connection.database.clone(),
                ps_mode: self.load.db_ps_mode.clone(),
                ignore_errors: self.load.ignore_errors.clone(),
            },
            limits: Limits {
                time: self.time_limit,
                memory_bytes: (self.memory_mib as usize) << 20,
            },
            parameters: Parameters {
                special_iterations: self.random.rand_spec_iter,
                special_percent: self.random.rand_spec_pct,
                special_values_percent: self.random.rand_spec_res,
                pareto_h: self.random.rand_pareto_h,
                zipfian_exponent: self.random.rand_zipfian_exp,
            },
            seed: self.load.seed,
        })
    }

    /// The settings; the script was loaded once, to find what is wrong with it.
    ///
    /// # Errors
    /// With the file and the line, or the option, its value and what is allowed.
    pub fn resolve(&self) -> Result<SqlSettings, Error> {
        let context = self.context()?;
        let offered = Commands::of(&context)?;
        if self.command == "run" && !offered.has_load {
            return Err(Error::User(format!(
                "the script '{}' has no function event(), so it is no load",
                context.program.path.display()
            )));
        }
        settings(SqlWorkload::Script(Box::new(context)), &self.connection, &self.load)
    }

    /// The settings in the user's words.
    pub fn description(&self) -> SqlDescription {
        description(&self.connection, &self.load, self.random.shown())
    }
}
