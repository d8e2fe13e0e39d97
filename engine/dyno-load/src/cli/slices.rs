//! `--slices` of the runs: the load holds its connections, and runs when a command on the standard input says so.

use clap::Args;
use serde_json::Value;

use crate::error::{Error, Exit};
use crate::run::gauges::Watch;
use crate::server::Facts;
use crate::slices::{self, Input, Target};

/// Slices in place of one measurement.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Slices")]
pub struct SliceArguments {
    /// Make the connections, then hold them without using the CPU, and run a slice of load for each line `go ID STREAM
    /// WASHOUT_MS MEASURE_MS` on standard input: load starts at once, WASHOUT_MS of it are not counted, MEASURE_MS are, then
    /// what is under way ends and the load holds again. The same STREAM has the same operations. `end`, or the end of the
    /// input, closes the connections. Standard output is JSON lines, one record a slice; there is no table
    #[arg(long, conflicts_with_all = ["duration", "warmup", "interval", "json", "hdr", "openmetrics"])]
    pub slices: bool,
    /// Process of the server on this host, whose CPU time over the counted part goes into each slice's record
    #[arg(long, value_name = "PID", requires = "slices", value_parser = clap::value_parser!(u32).range(1..))]
    pub server_pid: Option<u32>,
}

impl SliceArguments {
    /// Runs slices until the end of the input.
    ///
    /// # Errors
    /// When a thread cannot be started, or the standard output fails.
    pub fn run(&self, target: &mut dyn Target, shown: Value, facts: &Facts, input: &Input) -> Result<Exit, Error> {
        crate::host::allow_open_files(u64::from(target.pace().connections) + 64)?;
        let watch = Watch {
            server_pid: self.server_pid,
        };
        slices::run(target, shown, facts, watch, input)
    }
}
