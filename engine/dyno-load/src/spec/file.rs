//! A run of a file of SQL transactions, or of those in a capture.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::load::description;
use super::oltp::settings;
use super::{ConnectionSpec, EventOptions, LoadSpec, SqlDescription};
use crate::error::Error;
use crate::parse::{speed, switch};
use crate::sources::Sources;
use crate::sql::captured::{CapturedContext, CapturedPace};
use crate::sql::file::parse;
use crate::sql::{SqlSettings, SqlWorkload};

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
