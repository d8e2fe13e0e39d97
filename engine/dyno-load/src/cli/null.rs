//! `dynoload null`: a server that does no work.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use crate::error::{Error, Exit};
use crate::null_server::{self, Listener};

/// The options of `null`.
#[derive(Debug, Args)]
pub struct NullArguments {
    /// TCP address to listen on; port 0 selects a free port, which is printed
    #[arg(long, default_value = "127.0.0.1:0", conflicts_with = "socket")]
    listen: String,
    /// Path of a Unix socket to listen on instead
    #[arg(long)]
    socket: Option<PathBuf>,
}

/// Prints where it listens, and serves until interrupted.
pub fn run(arguments: &NullArguments) -> Result<Exit, Error> {
    let refused = |what: String, error: std::io::Error| Error::User(format!("cannot listen on {what}: {error}"));
    let listener = match &arguments.socket {
        Some(path) => Listener::unix(path.clone()).map_err(|error| refused(path.display().to_string(), error))?,
        None => Listener::tcp(&arguments.listen).map_err(|error| refused(arguments.listen.clone(), error))?,
    };
    crate::host::allow_open_files(16_384)?;
    let interrupted = crate::host::interruption()?;
    let mut out = dyno_core::streams::stdout();
    writeln!(out, "{}", listener.describe())?;
    out.flush()?;
    null_server::serve(&listener, &interrupted)?;
    Ok(Exit::Done)
}
