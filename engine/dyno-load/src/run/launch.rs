//! A run of one load: starts the workers, gives them their times, and waits for them.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread::JoinHandle;

use dyno_core::clock::{now_ns, wall_clock_s};

use super::collector::{Observer, Totals};
use super::crew::{Channels, Crew, End, Start};
use super::failure::Failure;
use super::settings::{Pace, Settings};
use super::thread::worker_thread;
use super::timeline::Timeline;
use super::work::work;
use super::worker::Worker;
use crate::recorder::ConnectingTimes;

/// From the last connection's readiness to the first statement, so that all workers start together.
pub const START_DELAY_NS: u64 = 20_000_000;
/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// Sums over all workers; none when no load was started.
    pub totals: Option<Totals>,
    /// The run's times; none when no load was started.
    pub timeline: Option<Timeline>,
    /// Wall-clock time of the start of the measurement, seconds since 1970.
    pub measure_unix_s: f64,
    /// What was left at the end.
    pub end: End,
    /// Time to make all connections and prepare their statements.
    pub connect_s: f64,
    /// How long the parts of making those connections took.
    pub connecting: ConnectingTimes,
    /// Why the run ended early.
    pub failure: Option<Failure>,
    /// Whether it was interrupted from outside.
    pub interrupted: bool,
}

/// Runs the load. `interrupted` ends it early when set; the result then has what was measured so far.
///
/// `before_load` is called when every connection is ready and before the first statement.
///
/// # Errors
/// When a thread cannot be started, or the observer's output fails.
pub fn run(
    settings: &Arc<Settings>,
    interrupted: &AtomicBool,
    before_load: &mut dyn FnMut(),
    observer: &mut dyn Observer,
) -> io::Result<Outcome> {
    let whole = Share {
        first_worker: 0,
        threads: settings.threads,
    };
    run_share(settings, whole, interrupted, &mut soon(before_load), observer)
}

/// Some of a run's workers: those of one agent, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Share {
    /// Number of the first.
    pub first_worker: u32,
    /// How many.
    pub threads: u32,
}

/// Runs a share of the load: the same connections and transactions as those workers have in the whole run.
///
/// # Errors
/// As [`run`].
pub fn run_share(
    settings: &Arc<Settings>,
    share: Share,
    interrupted: &AtomicBool,
    before_load: BeforeLoad<'_>,
    observer: &mut dyn Observer,
) -> io::Result<Outcome> {
    let pace = Pace {
        threads: share.threads,
        ..settings.pace()
    };
    let first = share.first_worker as usize;
    let start = |place, channels| spawn(first + place, Arc::clone(settings), channels);
    run_workers(&pace, &start, interrupted, before_load, observer)
}

/// Called when every connection is ready, with the times of making them: gives the load's start on this clock, or none
/// when the run is off.
pub type BeforeLoad<'a> = &'a mut dyn FnMut(&ConnectingTimes) -> Option<u64>;

/// Calls `before_load`, and starts soon after it.
pub fn soon(before_load: &mut dyn FnMut()) -> impl FnMut(&ConnectingTimes) -> Option<u64> + '_ {
    move |_| {
        before_load();
        Some(now_ns() + START_DELAY_NS)
    }
}

/// Runs the load with workers of any kind.
///
/// # Errors
/// As [`run`].
pub fn run_workers(
    pace: &Pace,
    start_worker: Start<'_>,
    interrupted: &AtomicBool,
    before_load: BeforeLoad<'_>,
    observer: &mut dyn Observer,
) -> io::Result<Outcome> {
    let mut outcome = Outcome {
        totals: None,
        timeline: None,
        measure_unix_s: 0.0,
        end: End::default(),
        connect_s: 0.0,
        connecting: ConnectingTimes::default(),
        failure: None,
        interrupted: false,
    };
    let mut crew = match Crew::start(pace, start_worker, None, interrupted)? {
        Ok(crew) => crew,
        Err(not_ready) => {
            outcome.interrupted = not_ready.failure.is_none();
            outcome.failure = not_ready.failure;
            outcome.connecting = not_ready.connecting;
            return Ok(outcome);
        }
    };
    outcome.connect_s = crew.connect_s;
    outcome.connecting.merge(&crew.connecting);
    let Some(start_ns) = before_load(&outcome.connecting) else {
        outcome.interrupted = true;
        crew.call_off();
        return Ok(outcome);
    };
    let timeline = Timeline::new(start_ns, pace);
    outcome.timeline = Some(timeline);
    outcome.measure_unix_s = wall_clock_s() + (timeline.measure_ns as f64 - now_ns() as f64) / 1e9;
    let load = crew.load(timeline, pace, interrupted, observer)?;
    outcome.end = load.end;
    outcome.failure = load.failure;
    outcome.interrupted = load.interrupted;
    outcome.totals = Some(load.totals);
    crew.dismiss();
    Ok(outcome)
}

/// Starts a worker of SQL.
///
/// # Errors
/// When the kernel gives no thread.
pub fn spawn(index: usize, settings: Arc<Settings>, channels: Channels) -> io::Result<JoinHandle<()>> {
    worker_thread(index, settings.priority, channels, move |channels| {
        work(Worker::new(index, settings, channels)?);
        Ok(())
    })
}
