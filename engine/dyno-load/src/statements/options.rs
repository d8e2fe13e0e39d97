//! The options of `dynoload statements`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser};

use crate::parse::{positive_duration, within};
use crate::spec::ConnectionSpec;

/// The options of `statements`.
#[derive(Debug, Args)]
pub struct StatementsRun {
    /// Capture, made with `dynoload capture`
    pub capture: PathBuf,
    /// A server: its name, then the options of its connection, as in "new --socket=/run/new.sock --user=bench --pid=4711".
    /// The first one is what the others are compared with
    #[arg(long = "server", value_name = "SERVER", required = true, value_parser = LaneSpec::parse_from_text)]
    pub servers: Vec<LaneSpec>,
    /// How long, the first execution of each included; statements are repeated for half of it at least
    #[arg(long, default_value = "60s", value_parser = positive_duration)]
    pub duration: Duration,
    /// Longest time of one statement
    #[arg(long, default_value = "30s", value_parser = positive_duration)]
    pub longest: Duration,
    /// The most frequent statements only, as many as this
    #[arg(long, default_value_t = 1000, value_parser = within::<1, 100_000>)]
    pub most: u32,
    /// Different literals of each statement, the most frequent first
    #[arg(long, default_value_t = 8, value_parser = within::<1, 1000>)]
    pub texts: u32,
    /// Only statements that read
    #[arg(long)]
    pub read_only: bool,
    /// Seed of the orders
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the records go, as JSON lines; - for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub json: PathBuf,
}

/// A server, as `--server` names it.
#[derive(Debug, Clone, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct LaneSpec {
    /// Its name in the output
    pub name: String,
    /// Its process, for the CPU time of each statement
    #[arg(long)]
    pub pid: Option<u32>,
    /// How to connect to it.
    #[command(flatten)]
    pub connection: ConnectionSpec,
}

impl LaneSpec {
    /// Which server it is.
    pub fn place(&self) -> (Option<&Path>, &str, u16) {
        let at = &self.connection;
        (at.socket.as_deref(), &at.host, at.port)
    }

    /// A name, and options as in a shell: `new --socket=/run/new.sock --user=bench --pid=4711`.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn parse_from_text(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or_else(|| format!("'{text}' has quotes that do not end"))?;
        Self::try_parse_from(words.into_iter().map(OsString::from)).map_err(|error| error.to_string())
    }
}
