//! `dynoload kv stats`: the server's statistics, a name and a value a line, or as one JSON object.

use std::io::Write as _;

use clap::Args;

use super::kv_options::ServerArguments;
use crate::error::{Error, Exit};
use crate::kv::server;

/// The options of `kv stats`.
#[derive(Debug, Args)]
pub struct StatsArguments {
    #[command(flatten)]
    server: ServerArguments,
    /// A group such as items, slabs or settings; default: the general statistics
    #[arg(default_value = "")]
    group: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(arguments: &StatsArguments) -> Result<Exit, Error> {
    let place = arguments.server.spec();
    let mut client = server::connect(&place.endpoint(), place.protocol()?, place.connect_timeout)?;
    let stats = server::stats(&mut client, &arguments.group)?;
    let mut out = dyno_core::streams::stdout();
    if arguments.json {
        writeln!(out, "{}", serde_json::json!(stats))?;
        return Ok(Exit::Done);
    }
    for (name, value) in stats {
        writeln!(out, "{}", dyno_core::streams::visible(&format!("{name} {value}")))?;
    }
    Ok(Exit::Done)
}
