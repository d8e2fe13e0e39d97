//! Starts the workers, gives them their times, and waits for them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use dyno_core::clock::{now_ns, wall_clock_s};

use super::collector::{Collector, Observer, Totals};
use super::failure::Failure;
use super::settings::{Pace, Settings};
use super::thread::worker_thread;
use super::timeline::Timeline;
use super::worker::{Channels, End, Report, Worker};
use crate::recorder::ConnectingTimes;

/// From the last connection's readiness to the first statement, so that all workers start together.
pub const START_DELAY_NS: u64 = 20_000_000;
/// What workers get beyond the hard stop before they are given up as hanging.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// Starts a worker's thread.
pub type Start<'a> = &'a dyn Fn(usize, Channels) -> io::Result<JoinHandle<()>>;

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
    let cancelled = Arc::new(AtomicBool::new(false));
    let (reports, incoming) = sync_channel(pace.threads as usize * 4);
    let began_ns = now_ns();
    let mut starts = Vec::new();
    let mut spares = Vec::new();
    let mut threads = Vec::new();
    for index in 0..pace.threads as usize {
        let (start, start_receiver) = channel();
        let (spare, spare_receiver) = channel();
        let channels = Channels {
            place: index,
            reports: reports.clone(),
            start: start_receiver,
            spare: spare_receiver,
            cancelled: Arc::clone(&cancelled),
        };
        starts.push(start);
        spares.push(spare);
        threads.push(start_worker(index, channels)?);
    }
    drop(reports);
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
    if !wait_until_ready(&incoming, threads.len(), interrupted, &mut outcome) {
        call_off(&cancelled, starts, threads, &incoming);
        return Ok(outcome);
    }
    outcome.connect_s = (now_ns() - began_ns) as f64 / 1e9;
    let Some(start_ns) = before_load(&outcome.connecting) else {
        outcome.interrupted = true;
        call_off(&cancelled, starts, threads, &incoming);
        return Ok(outcome);
    };
    let timeline = Timeline::new(start_ns, pace);
    outcome.timeline = Some(timeline);
    outcome.measure_unix_s = wall_clock_s() + (timeline.measure_ns as f64 - now_ns() as f64) / 1e9;
    for start in starts {
        // A worker that is gone has reported why.
        let _ = start.send(timeline);
    }
    let mut collector = Collector::new(timeline, pace.is_timed(), pace.slowest, spares, observer);
    collect(
        &incoming,
        threads.len(),
        timeline,
        interrupted,
        &cancelled,
        &mut collector,
        &mut outcome,
    )?;
    outcome.totals = Some(collector.finish()?);
    join(threads, &incoming);
    Ok(outcome)
}

fn spawn(index: usize, settings: Arc<Settings>, channels: Channels) -> io::Result<JoinHandle<()>> {
    worker_thread(index, settings.priority, channels, move |channels| {
        Worker::new(index, settings, channels)?.run();
        Ok(())
    })
}

/// Ends workers that wait for a start which does not come.
fn call_off(
    cancelled: &AtomicBool,
    starts: Vec<Sender<Timeline>>,
    threads: Vec<JoinHandle<()>>,
    incoming: &Receiver<Report>,
) {
    cancelled.store(true, Ordering::Relaxed);
    drop(starts);
    join(threads, incoming);
}

fn wait_until_ready(
    incoming: &Receiver<Report>,
    workers: usize,
    interrupted: &AtomicBool,
    outcome: &mut Outcome,
) -> bool {
    let mut ready = 0;
    while ready < workers {
        if interrupted.load(Ordering::Relaxed) {
            outcome.interrupted = true;
            return false;
        }
        match incoming.recv_timeout(Duration::from_millis(100)) {
            Ok(Report::Ready(times)) => {
                outcome.connecting.merge(&times);
                ready += 1;
            }
            Ok(Report::Failed(failure)) => {
                outcome.failure = Some(failure);
                return false;
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                outcome.failure = Some(Failure::new("every worker ended before its connections were ready"));
                return false;
            }
        }
    }
    true
}

fn collect(
    incoming: &Receiver<Report>,
    workers: usize,
    timeline: Timeline,
    interrupted: &AtomicBool,
    cancelled: &AtomicBool,
    collector: &mut Collector<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    let mut finished = 0;
    let give_up_ns = timeline.hard_stop_ns + PATIENCE.as_nanos() as u64;
    while finished < workers {
        if interrupted.load(Ordering::Relaxed) && !outcome.interrupted {
            outcome.interrupted = true;
            cancelled.store(true, Ordering::Relaxed);
        }
        match incoming.recv_timeout(Duration::from_millis(100)) {
            Ok(Report::Interval { id, worker, recorder }) => {
                if let Err(error) = collector.take(id, worker, recorder) {
                    cancelled.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            Ok(Report::Finished(end)) => {
                finished += 1;
                outcome.end.in_flight_at_stop += end.in_flight_at_stop;
                outcome.end.unfinished += end.unfinished;
                outcome.end.not_started += end.not_started;
                outcome.end.planned += end.planned;
            }
            Ok(Report::Failed(failure)) => {
                finished += 1;
                outcome.failure.get_or_insert(failure);
                cancelled.store(true, Ordering::Relaxed);
            }
            Ok(Report::Ready(_)) => {}
            Err(RecvTimeoutError::Timeout) => {
                if now_ns() > give_up_ns {
                    outcome
                        .failure
                        .get_or_insert(Failure::new("a worker did not end by the hard stop"));
                    return Ok(());
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
    Ok(())
}

/// Waits for the threads, taking reports so that none waits for room in the channel.
fn join(threads: Vec<JoinHandle<()>>, incoming: &Receiver<Report>) {
    let deadline = now_ns() + PATIENCE.as_nanos() as u64;
    for thread in threads {
        while !thread.is_finished() && now_ns() < deadline {
            let _ = incoming.recv_timeout(Duration::from_millis(10));
        }
        if thread.is_finished() {
            // A worker that panicked has aborted the program already.
            let _ = thread.join();
        }
    }
}
