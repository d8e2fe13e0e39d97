//! Runs a spec: checks, loads, judges the run's quality, writes the result.

pub mod calibrate;
mod job;
mod kv;
mod observed;
mod sql;

pub use job::serve_agent;
pub use kv::{prepare_kv, run_kv};
pub use sql::run_sql;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use dyno_loop::gauges::Watch;
use dyno_loop::recorder::Extra;
use dyno_loop::{LoadSettings, Outcome};
use serde_json::Value;

use crate::agents::{Coordinator, Shippable};
use crate::error::{Error, Exit};
use crate::host::TcpSegments;
use crate::output::{self, sinks::Paths};
use crate::quality::RunQuality;
use crate::server::Facts;
use crate::slices::{self, AgentsTarget, Input, Target};

/// The options of a run: what to run, and how.
#[derive(Debug, Args)]
pub struct Run<S: Args> {
    /// What to run.
    #[command(flatten)]
    pub spec: S,
    /// How.
    #[command(flatten)]
    pub options: RunOptions,
}

/// How a run is made, whatever its workload.
#[derive(Debug, Clone, Args)]
pub struct RunOptions {
    /// A command that starts `dynoload agent`, as in 'ssh -o BatchMode=yes load2 dynoload agent', or unix:PATH, a socket
    /// that leads to the input and output of one; repeat for each host.
    /// The load then runs on the agents only: each has --threads threads and its share of the connections and of the
    /// rate. This program starts them together, merges their histograms, and reads the server's counters. The password
    /// is sent through the command's standard input, as are a trace, a script with its modules, and a file of SQL. Other
    /// files and sockets named by options are those of the agent's host, except --password-file
    #[arg(long = "agent", value_name = "COMMAND", help_heading = "Several hosts")]
    pub agent: Vec<String>,
    /// Open the connections, then hold them without using the CPU, and run a slice of load for each line `go ID STREAM
    /// WASHOUT_MS MEASURE_MS [RATE]` on standard input: the load starts at once, the first WASHOUT_MS do not count, the next
    /// MEASURE_MS do, then transactions in progress end and the load holds again. The same STREAM has the same
    /// operations. With --rate, RATE is the rate of that slice, operations per second. `end`, or the end of the input, closes the connections. Standard output is JSON lines, one record
    /// per slice; there is no table
    #[arg(long, help_heading = "Slices", conflicts_with_all = ["duration", "warmup", "interval", "json", "hdr", "openmetrics"])]
    pub slices: bool,
    /// Process id of the server on this host; each slice's record contains its CPU time over the counted part
    #[arg(long, help_heading = "Slices", value_name = "PID", requires = "slices", value_parser = clap::value_parser!(u32).range(1..))]
    pub server_pid: Option<u32>,
    /// Where results go.
    #[command(flatten)]
    pub outputs: Outputs,
}

/// Where results go.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct Outputs {
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

impl Outputs {
    /// Refuses outputs that would overwrite one of these files, or one another.
    fn check_apart(&self, files: &[PathBuf], acknowledged: Option<&Path>) -> Result<(), Error> {
        let files: Vec<(&str, &Path)> = files
            .iter()
            .map(|path| ("a file of the load", path.as_path()))
            .collect();
        let paths = self.paths();
        let outputs = [
            ("--acknowledged", acknowledged),
            ("--json", paths.json),
            ("--hdr", paths.hdr),
            ("--openmetrics", paths.openmetrics),
        ];
        output::check_apart(&files, &outputs)
    }

    fn paths(&self) -> Paths<'_> {
        Paths {
            json: self.json.as_deref(),
            hdr: self.hdr.as_deref(),
            openmetrics: self.openmetrics.as_deref(),
        }
    }
}

/// Runs slices until the end of the input, on this host or on those of agents.
fn run_slices<T: Target>(
    mut target: T,
    team: Option<Coordinator<T::Extra>>,
    load: &LoadSettings,
    server_pid: Option<u32>,
    mut shown: Value,
    facts: &Facts,
    input: &Input,
) -> Result<Exit, Error>
where
    T::Extra: Shippable,
{
    let mut watch = Watch::of(server_pid);
    let Some(team) = team else {
        crate::host::allow_open_files(u64::from(target.shape().connections) + 64)?;
        return slices::run(&mut target, shown, facts, watch, input);
    };
    without_priority(&mut shown);
    watch.load = None; // the agents do the work
    let way_ns = team.way_ns();
    let mut target = AgentsTarget::new(target, team.proxies(load), way_ns);
    slices::run(&mut target, shown, facts, watch, input)
}

/// Each agent has a priority of its own.
fn without_priority(shown: &mut Value) {
    if let Some(shown) = shown.as_object_mut() {
        shown.remove("priority");
        shown.remove("niceness");
    }
}

/// TCP segments of this host since an earlier count; none without one.
fn tcp_segments_since(before: Option<TcpSegments>) -> Option<TcpSegments> {
    let (before, after) = (before?, crate::host::tcp_segments()?);
    Some(TcpSegments {
        sent: after.sent.saturating_sub(before.sent),
        retransmitted: after.retransmitted.saturating_sub(before.retransmitted),
    })
}

fn print_table(text: &str, json: Option<&Path>) -> Result<(), Error> {
    if json == Some(Path::new("-")) {
        dyno_core::streams::stderr().write_all(dyno_core::streams::visible(text).as_bytes())?;
        return Ok(());
    }
    dyno_core::streams::stdout().write_all(dyno_core::streams::visible(text).as_bytes())?;
    Ok(())
}

fn exit_of<E: Extra>(outcome: &Outcome<E>, quality: RunQuality) -> Exit {
    if outcome.interrupted {
        return Exit::Interrupted;
    }
    if let Some(failure) = &outcome.failure {
        dyno_core::tell!("dynoload: {failure}");
        return Exit::Failed;
    }
    match quality {
        RunQuality::Invalid => Exit::Invalid,
        _ => Exit::Done,
    }
}
