//! `--slices` of the runs: the load holds its connections, and runs on commands from standard input.

use clap::Args;

use crate::runner::SliceOptions;

/// Slices in place of one measurement.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Slices")]
pub struct SliceArguments {
    /// Open the connections, then hold them without using the CPU, and run a slice of load for each line `go ID STREAM
    /// WASHOUT_MS MEASURE_MS [RATE]` on standard input: the load starts at once, the first WASHOUT_MS do not count, the next
    /// MEASURE_MS do, then transactions in progress end and the load holds again. The same STREAM has the same
    /// operations. With --rate, RATE is the rate of that slice, operations per second. `end`, or the end of the input, closes the connections. Standard output is JSON lines, one record
    /// per slice; there is no table
    #[arg(long, conflicts_with_all = ["duration", "warmup", "interval", "json", "hdr", "openmetrics"])]
    pub slices: bool,
    /// Process id of the server on this host; each slice's record contains its CPU time over the counted part
    #[arg(long, value_name = "PID", requires = "slices", value_parser = clap::value_parser!(u32).range(1..))]
    pub server_pid: Option<u32>,
}

impl SliceArguments {
    /// Slices, where they are requested.
    pub fn spec(&self) -> Option<SliceOptions> {
        self.slices.then_some(SliceOptions {
            server_pid: self.server_pid,
        })
    }
}
