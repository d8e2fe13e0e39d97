//! A run of one of sysbench's scripts, or another of its commands; and a run of files of SQL or of a capture.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dyno_core::distribution::{Distribution, Parameters};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::load::description;
use super::oltp::settings;
use super::{ConnectionSpec, EventOptions, LoadSpec, RandomSpec, SqlDescription};
use crate::error::Error;
use crate::parse::{positive_duration, speed, switch, within};
use crate::sources::Sources;
use crate::sql::captured::{CapturedContext, CapturedPace};
use crate::sql::definition::{Definition, Part};
use crate::sql::file::parse;
use crate::sql::script::{Commands, General, Limits, Program, ScriptContext};
use crate::sql::{SqlSettings, SqlWorkload};

/// What to run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct ScriptSpec {
    /// The script, or the name of one in sysbench's package
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// run, prepare, cleanup, help, or another command that the script defines
    #[arg(value_name = "COMMAND", default_value = "run")]
    pub command: String,
    /// An option of the script: the same as --NAME=VALUE, also where dynoload has an option of that name. ?NAME=VALUE sets
    /// it only if the script has such an option and it is not set otherwise
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    #[serde(skip)]
    pub script_option: Vec<(String, String)>,
    /// The script's own options: names with underscores, and texts.
    #[arg(skip)]
    pub options: BTreeMap<String, String>,
    /// The same, for where the script has such an option and it is not set.
    #[arg(skip)]
    pub defaults: BTreeMap<String, String>,
    /// How long the script may compute without a statement; then the run ends, with the line where the script is
    #[arg(id = "script_time_limit", long = "script-time-limit", value_name = "SCRIPT_TIME_LIMIT", default_value = "5s", value_parser = positive_duration)]
    pub time_limit: Duration,
    /// Memory for the Lua state of each worker thread, in MiB
    #[arg(id = "script_memory", long = "script-memory", value_name = "SCRIPT_MEMORY", default_value = "1024", value_parser = within::<1, 65_536>)]
    pub memory_mib: u32,
    /// Read the script and find errors of its syntax, without a server; none of it is executed
    #[arg(long)]
    #[serde(skip)]
    pub check: bool,
    /// How much load, and for how long.
    #[command(flatten)]
    pub load: LoadSpec,
    /// When it ends.
    #[command(flatten)]
    #[serde(skip)]
    pub events: EventOptions,
    /// Where the server is.
    #[command(flatten)]
    pub connection: ConnectionSpec,
    /// Which rows.
    #[command(flatten)]
    pub random: RandomSpec,
    /// The script's file, and the modules that it has loaded.
    #[arg(skip)]
    pub sources: Sources,
}

/// NAME=VALUE; without a value a switch that is on.
fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if name.is_empty() {
        return Err("an option of the script is NAME=VALUE, as in tables=4".into());
    }
    Ok((name.replace('-', "_"), value.to_string()))
}

impl ScriptSpec {
    /// Takes the script's own options, and the end of the load, from the command line.
    ///
    /// # Errors
    /// When one would show the password.
    pub fn take_options(&mut self) -> Result<(), Error> {
        if let Some((name, _)) = self.script_option.iter().find(|(name, _)| name == "mysql_password") {
            return Err(Error::User(format!(
                "--{} would show the password in `ps`; use --password-file or DYNO_PASSWORD",
                name.replace('_', "-")
            )));
        }
        let mut options: BTreeMap<String, String> = self.script_option.drain(..).collect();
        let wanted: Vec<String> = options.keys().filter(|name| name.starts_with('?')).cloned().collect();
        for name in wanted {
            if let Some(value) = options.remove(&name) {
                self.defaults.insert(name[1..].to_string(), value);
            }
        }
        // There is no other driver; sysbench's scripts are often called with it.
        if options.get("db_driver").is_some_and(|driver| driver == "mysql") {
            options.remove("db_driver");
        }
        self.options = options;
        self.load.end_after(&self.events);
        Ok(())
    }

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
                threads: self.load.connections(),
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

/// What to run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct FileSpec {
    /// File with the transactions, or a capture
    pub file: PathBuf,
    /// For a capture: leave out statements that write
    #[arg(long, default_value = "off", default_missing_value = "on", num_args = 0..=1, value_parser = switch, action = clap::ArgAction::Set)]
    pub read_only: bool,
    /// For a capture: max, transactions as fast as the connections go; or original, or a factor as in 2 or 0.5: each
    /// session on a connection of its own, its transactions at their captured times. Sessions for which no connection
    /// is free wait
    #[arg(long, default_value = "max", value_parser = speed)]
    pub speed: std::option::Option<f64>,
    /// Check the file and the options, without a server, and run nothing; print the statements that write, as JSON
    #[arg(long)]
    #[serde(skip)]
    pub check: bool,
    /// How much load, and for how long.
    #[command(flatten)]
    pub load: LoadSpec,
    /// When it ends.
    #[command(flatten)]
    #[serde(skip)]
    pub events: EventOptions,
    /// Where the server is.
    #[command(flatten)]
    pub connection: ConnectionSpec,
    /// The file, and those that it names.
    #[arg(skip)]
    pub sources: Sources,
}

impl FileSpec {
    /// The settings.
    ///
    /// # Errors
    /// With file, line and column, or the option, its value and what is allowed.
    pub fn resolve(&self) -> Result<SqlSettings, Error> {
        let unreadable = |error| Error::User(format!("the file '{}' cannot be read: {error}", self.file.display()));
        let text = self.sources.read(&self.file).map_err(unreadable)?;
        if dyno_capture::is_capture(text.as_bytes()) {
            let capture = dyno_capture::read(text.as_bytes())
                .map_err(|error| Error::User(format!("'{}' {error}", self.file.display())))?;
            if let Some(why) = capture.not_replayed() {
                return Err(Error::User(format!("'{}' {why}", self.file.display())));
            }
            self.check_speed()?;
            let pace = self.speed.map(|speed| CapturedPace {
                speed,
                connections: self.load.connections(),
            });
            let context = CapturedContext::new(&self.file, capture, self.read_only, pace).map_err(Error::User)?;
            return settings(SqlWorkload::Captured(context), &self.connection, &self.load);
        }
        for (name, is_set) in [("--read-only", self.read_only), ("--speed", self.speed.is_some())] {
            if is_set {
                let file = self.file.display();
                return Err(Error::User(format!(
                    "{name} applies to captures, and '{file}' is not one"
                )));
            }
        }
        let database = &self.connection.database;
        let context = parse(&self.file, &text, database, &self.sources, self.load.seed).map_err(Error::User)?;
        settings(SqlWorkload::File(context), &self.connection, &self.load)
    }

    /// Captured times are instead of other ones.
    fn check_speed(&self) -> Result<(), Error> {
        let load = &self.load;
        let others = [
            ("--rate", load.rate.is_some()),
            ("--think-time", load.think_time.is_some()),
            ("--events", load.events.is_some()),
            ("--overload", load.overload != "queue"),
            ("--catch-up", load.catch_up.is_some()),
        ];
        let other = others.iter().find(|(_, is_set)| self.speed.is_some() && *is_set);
        other.map_or(Ok(()), |(name, _)| {
            Err(Error::User(format!(
                "{name} and --speed: at a speed other than max the captured times are the times of the load; use one of the \
                 two"
            )))
        })
    }

    /// The settings in the user's words.
    pub fn description(&self) -> SqlDescription {
        // Distributions are those of the file.
        description(&self.connection, &self.load, Value::Null)
    }
}
