//! `dynoload kv prepare`: store the keys that a run will ask for.

use clap::Args;

use super::kv_measure::execute;
use super::kv_options::{DataArguments, PlaceArguments};
use super::kv_run::{fill, set_counters};
use super::oltp_run::OutputArguments;
use super::run_settings::LoadArguments;
use crate::error::{Error, Exit};
use crate::kv::keys::share;

/// The options of `kv prepare`.
#[derive(Debug, Args)]
#[command(mut_arg("db_ps_mode", |option| option.hide(true)))]
#[command(mut_arg("ignore_errors", |option| option.default_value("none")))]
pub struct PrepareArguments {
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    data: DataArguments,
    /// Share of the keys to store
    #[arg(long, default_value = "100%", help_heading = "Keys and values")]
    fill: String,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Runs it.
pub fn run(arguments: &PrepareArguments) -> Result<Exit, Error> {
    let filled = share(&arguments.fill).map_err(|problem| Error::User(format!("--fill: {problem}")))?;
    let parts: Vec<_> = fill(&arguments.place, &arguments.data, &arguments.load, filled)?
        .into_iter()
        .collect();
    if let Some(part) = parts.first() {
        set_counters(&arguments.place, &part.settings)?;
    }
    execute(&parts, &arguments.place, &arguments.output)
}
