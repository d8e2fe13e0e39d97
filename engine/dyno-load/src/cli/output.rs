//! The options that say where results go.

use std::path::PathBuf;

use clap::Args;

use crate::runner::Outputs;

/// Where results go.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArguments {
    /// Write the result as JSON lines to a file, or - for standard output (the table then goes to standard error)
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Write the histograms of every interval as an HDR log, format V2
    #[arg(long)]
    pub hdr: Option<PathBuf>,
    /// Write counters and latencies as OpenMetrics text, once per interval; with a name that ends in .prom, in the
    /// directory that the Prometheus node exporter reads (--collector.textfile.directory), they are collected together
    /// with the server's metrics
    #[arg(long)]
    pub openmetrics: Option<PathBuf>,
    /// Print no progress
    #[arg(long)]
    pub quiet: bool,
    /// Permit a server that is neither MySQL nor MariaDB
    #[arg(long)]
    pub any_server: bool,
}

impl OutputArguments {
    /// The same without the command line.
    pub fn spec(&self) -> Outputs {
        Outputs {
            json: self.json.clone(),
            hdr: self.hdr.clone(),
            openmetrics: self.openmetrics.clone(),
            quiet: self.quiet,
        }
    }
}
