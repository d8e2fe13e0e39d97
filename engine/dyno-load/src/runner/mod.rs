//! Runs a spec: checks, loads, judges the run's quality, writes the result.

pub mod calibrate;
mod ending;
mod job;
mod kv;
mod observed;
mod sql;

pub use job::serve_agent;
pub use kv::{prepare_kv, run_kv, KvRun};
pub use sql::{run_sql, SqlRun};

use std::io::Write as _;
use std::path::{Path, PathBuf};

use dyno_loop::gauges::Watch;
use dyno_loop::recorder::Extra;
use dyno_loop::{LoadSettings, Outcome};
use serde_json::Value;

use crate::agents::{Coordinator, Shippable};
use crate::error::{Error, Exit};
use crate::host::TcpSegments;
use crate::output::sinks::Paths;
use crate::quality::RunQuality;
use crate::server::Facts;
use crate::slices::{self, AgentsTarget, Input, Target};

/// Where results go.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// JSON lines; `-` for stdout.
    pub json: Option<PathBuf>,
    /// HDR log.
    pub hdr: Option<PathBuf>,
    /// OpenMetrics text, renewed every interval.
    pub openmetrics: Option<PathBuf>,
    /// Print no progress.
    pub quiet: bool,
}

impl Outputs {
    fn paths(&self) -> Paths<'_> {
        Paths {
            json: self.json.as_deref(),
            hdr: self.hdr.as_deref(),
            openmetrics: self.openmetrics.as_deref(),
        }
    }
}

/// Slices in place of one measurement.
#[derive(Debug, Clone, Copy)]
pub struct SliceOptions {
    /// Process of the server on this host.
    pub server_pid: Option<u32>,
}

/// Runs slices until the end of the input, on this host or on those of agents.
fn run_slices<T: Target>(
    mut target: T,
    team: Option<Coordinator<T::Extra>>,
    load: &LoadSettings,
    options: &SliceOptions,
    mut shown: Value,
    facts: &Facts,
    input: &Input,
) -> Result<Exit, Error>
where
    T::Extra: Shippable,
{
    let mut watch = Watch::of(options.server_pid);
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
