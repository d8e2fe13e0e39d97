//! A run of one load: starts the workers, starts the load, and waits for its end.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread::JoinHandle;

use dyno_core::clock::{now_ns, shared_monotonic_s, wall_clock_s};

use super::collector::{Observer, Totals};
use super::crew::{Crew, Start};
use super::recorder::{ConnectingTimes, Extra};
use super::session::Session;
use super::timeline::Timeline;
use super::worker::Worker;
use crate::recorder::errors::Failure;
use crate::report::{Channels, End, Report};
use crate::settings::{run_in_real_time, LoadShape, Priority};

/// From the last connection's readiness to the first statement, so that all workers start together.
pub const START_DELAY_NS: u64 = 20_000_000;

/// How a run went.
#[derive(Debug)]
pub struct Outcome<E: Extra> {
    /// Sums over all workers; none when no load was started.
    pub totals: Option<Totals<E>>,
    /// The run's times; none when no load was started.
    pub timeline: Option<Timeline>,
    /// Wall-clock time of the start of the measurement, seconds since 1970.
    pub measure_unix_s: f64,
    /// The same of the clock that all programs of a host share.
    pub measure_monotonic_s: f64,
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

/// A moment at which every connection is open and none has an operation in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Before the first operation.
    BeforeLoad,
    /// After the last one.
    AfterLoad,
}

/// Runs the load. `interrupted` ends it early when set; the result then has what was measured so far.
///
/// `at_rest` is called before the load, and after it unless it failed or left operations unfinished. A server's counters
/// are read then: while connections end, MariaDB may leave out what one of them did (it adds a connection's counters to
/// the global ones when the connection ends, and SHOW GLOBAL STATUS does not wait for that).
///
/// # Errors
/// When a thread cannot be started, or the observer's output fails.
pub fn run<S: Session>(
    settings: &Arc<S::Settings>,
    interrupted: &AtomicBool,
    at_rest: &mut dyn FnMut(Rest),
    observer: &mut dyn Observer<S::Extra>,
) -> io::Result<Outcome<S::Extra>> {
    let whole = Share {
        first_worker: 0,
        threads: S::load(settings).shape.threads,
    };
    let at_rest = RefCell::new(at_rest);
    let mut before_load = |_: &ConnectingTimes| {
        (at_rest.borrow_mut())(Rest::BeforeLoad);
        Some(now_ns() + START_DELAY_NS)
    };
    let mut after_load = |_: &End| (at_rest.borrow_mut())(Rest::AfterLoad);
    run_share::<S>(
        settings,
        whole,
        interrupted,
        &mut before_load,
        &mut after_load,
        observer,
    )
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
pub fn run_share<S: Session>(
    settings: &Arc<S::Settings>,
    share: Share,
    interrupted: &AtomicBool,
    before_load: BeforeLoad<'_>,
    after_load: AfterLoad<'_>,
    observer: &mut dyn Observer<S::Extra>,
) -> io::Result<Outcome<S::Extra>> {
    let shape = LoadShape {
        threads: share.threads,
        ..S::load(settings).shape.clone()
    };
    let first = share.first_worker as usize;
    let start = |index, channels| spawn::<S>(first + index, Arc::clone(settings), channels);
    run_workers(&shape, &start, interrupted, before_load, after_load, observer)
}

/// Called when every connection is ready, with the times of making them; returns the load's start on this clock, or none
/// when the run is cancelled.
pub type BeforeLoad<'a> = &'a mut dyn FnMut(&ConnectingTimes) -> Option<u64>;

/// Called when the load has ended with every operation, and before the connections are closed.
pub type AfterLoad<'a> = &'a mut dyn FnMut(&End);

/// Runs the load with workers of any kind.
///
/// # Errors
/// As [`run`].
pub fn run_workers<E: Extra>(
    shape: &LoadShape,
    start_worker: Start<'_, E>,
    interrupted: &AtomicBool,
    before_load: BeforeLoad<'_>,
    after_load: AfterLoad<'_>,
    observer: &mut dyn Observer<E>,
) -> io::Result<Outcome<E>> {
    let mut outcome = Outcome {
        totals: None,
        timeline: None,
        measure_unix_s: 0.0,
        measure_monotonic_s: 0.0,
        end: End::default(),
        connect_s: 0.0,
        connecting: ConnectingTimes::default(),
        failure: None,
        interrupted: false,
    };
    let mut crew = match Crew::start(shape, start_worker, None, interrupted)? {
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
    let timeline = Timeline::new(start_ns, shape);
    outcome.timeline = Some(timeline);
    let ahead_s = (timeline.measure_ns as f64 - now_ns() as f64) / 1e9;
    outcome.measure_unix_s = wall_clock_s() + ahead_s;
    outcome.measure_monotonic_s = shared_monotonic_s() + ahead_s;
    let load = crew.load(timeline, shape, interrupted, observer)?;
    if load.failure.is_none() && load.end.unfinished == 0 {
        after_load(&load.end);
    }
    outcome.end = load.end;
    outcome.failure = load.failure;
    outcome.interrupted = load.interrupted;
    outcome.totals = Some(load.totals);
    crew.dismiss();
    Ok(outcome)
}

/// Starts a worker of this kind of session.
///
/// # Errors
/// When the kernel refuses another thread.
pub fn spawn<S: Session>(
    index: usize,
    settings: Arc<S::Settings>,
    channels: Channels<S::Extra>,
) -> io::Result<JoinHandle<()>> {
    worker_thread(index, S::load(&settings).priority, channels, move |channels| {
        Worker::<S>::new(index, settings, channels)?.work();
        Ok(())
    })
}

/// Starts a worker's thread; what `work` cannot begin is reported as a failure.
///
/// # Errors
/// When the kernel refuses another thread.
fn worker_thread<E: Send + 'static>(
    index: usize,
    priority: Priority,
    channels: Channels<E>,
    work: impl FnOnce(Channels<E>) -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(format!("worker-{index}"))
        .stack_size(256 * 1024)
        .spawn(move || {
            tune(priority);
            let reports = channels.reports.clone();
            if let Err(error) = work(channels) {
                // The collector waits for this report, or is gone.
                let _ = reports.send(Report::Failed {
                    failure: error.into(),
                    end: End::default(),
                });
            }
        })
}

/// Sets a worker's thread up. Where the kernel refuses, the load costs a little more, or its lag shows it.
fn tune(priority: Priority) {
    if priority == Priority::Realtime {
        // That it is allowed was seen before the load was begun.
        let _ = run_in_real_time();
    }
    // The kernel may end a sleep 50 µs late by default (prctl(2), PR_SET_TIMERSLACK).
    let _ = nix::sys::prctl::set_timerslack(1);
    // A table of descriptors of its own (unshare(2)): in one that threads share, each system call on a socket counts its
    // users with two atomic operations.
    let _ = own_descriptors();
}

fn own_descriptors() -> nix::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_a_worker_opens_is_in_no_other_thread_s_table() {
        let opened = std::thread::spawn(|| {
            if let Err(error) = own_descriptors() {
                // Some containers forbid it; the program goes on without.
                let _ = writeln!(std::io::stderr(), "NOT RUN: what_a_worker_opens: unshare(2): {error}");
                return None;
            }
            let file = std::fs::File::open("/proc/self/status").unwrap();
            let number = file.as_raw_fd();
            let place = format!("/proc/thread-self/fd/{number}");
            let own = std::fs::read_link(&place).unwrap();
            assert!(own.ends_with("status"));
            Some((file, own))
        });
        let Some((file, own)) = opened.join().unwrap() else {
            return;
        };
        let here = std::fs::read_link(format!("/proc/thread-self/fd/{}", file.as_raw_fd()));
        assert_ne!(here.ok(), Some(own));
        // Its number means nothing in this thread's table: closing it might close another test's file.
        std::mem::forget(file);
    }
}
