//! `dynoload kv prepare`: store the keys that a run will use.

use clap::Args;

use super::kv_options::{DataArguments, ServerArguments};
use super::load::LoadArguments;
use super::output::OutputArguments;
use crate::error::{Error, Exit};
use crate::runner;

/// The options of `kv prepare`.
#[derive(Debug, Args)]
#[command(mut_arg("db_ps_mode", |option| option.hide(true)))]
#[command(mut_arg("ignore_errors", |option| option.default_value("none")))]
pub struct PrepareArguments {
    #[command(flatten)]
    server: ServerArguments,
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
    let (server, data, load) = (arguments.server.spec(), arguments.data.spec(), arguments.load.spec());
    runner::prepare_kv(&server, &data, &load, &arguments.fill, &arguments.output.spec())
}
