//! `dynoload kv stats`: the server's statistics, a name and a value a line, or as one JSON object.

use std::io::Write as _;

use clap::Args;

use super::kv_options::PlaceArguments;
use crate::error::{Error, Exit};
use crate::kv::server;

/// The options of `kv stats`.
#[derive(Debug, Args)]
pub struct StatsArguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// A group, as in items, slabs or settings; the general statistics without one
    #[arg(default_value = "")]
    group: String,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(arguments: &StatsArguments) -> Result<Exit, Error> {
    let mut client = server::connect(&arguments.place.endpoint(), arguments.place.protocol()?)?;
    let stats = server::stats(&mut client, &arguments.group)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::json!(stats))?;
        return Ok(Exit::Done);
    }
    for (name, value) in stats {
        writeln!(out, "{name} {value}")?;
    }
    Ok(Exit::Done)
}
