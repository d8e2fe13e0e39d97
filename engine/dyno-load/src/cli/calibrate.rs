//! `dynoload calibrate`: its options.

use std::time::Duration;

use clap::Args;

use super::parse::{connections, measurable_duration, threads};
use crate::error::{Error, Exit};
use crate::runner::calibrate::{self, Calibration};

const EXAMPLES: &str = "Examples:
  dynoload calibrate
      Floor latency (1 connection), most operations a second and CPU a query over TCP loopback.
  dynoload calibrate --unix --workload oltp_read_only --connections 256
      The same over a Unix socket, with 14 statements and 2 x 100 rows a transaction.

No latency that this host measures can be below the floor; no throughput above the most.";

/// The options of `calibrate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArguments {
    /// Workload to run against the null server
    #[arg(long, default_value = "oltp_point_select")]
    workload: String,
    /// Connections of the throughput measurement
    #[arg(long, default_value = "64", value_parser = connections)]
    connections: u32,
    /// Worker threads
    #[arg(long, default_value = "1", value_parser = threads)]
    threads: u32,
    /// Length of each of the two measurements
    #[arg(long, default_value = "3s", value_parser = measurable_duration)]
    duration: Duration,
    /// Use a Unix socket instead of TCP loopback
    #[arg(long)]
    unix: bool,
    /// Print the result as one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub fn run(arguments: &CalibrateArguments) -> Result<Exit, Error> {
    calibrate::run(&Calibration {
        workload: arguments.workload.clone(),
        connections: arguments.connections,
        threads: arguments.threads,
        duration: arguments.duration,
        unix: arguments.unix,
        json: arguments.json,
    })
}
