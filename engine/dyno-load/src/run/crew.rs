//! The workers of a run: started once, with their connections, and given one load after another until they are dismissed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use dyno_core::clock::now_ns;

use super::collector::{Collector, Observer, Totals};
use super::failure::Failure;
use super::gauges::{Reading, Watch};
use super::settings::Pace;
use super::timeline::{IntervalId, Timeline};
use crate::recorder::{ConnectingTimes, Recorder};

/// What workers get beyond the hard stop before they are given up as hanging.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a worker reports.
#[derive(Debug)]
pub enum Report {
    /// All its connections are ready; how long the parts of making them took.
    Ready(Box<ConnectingTimes>),
    /// One interval.
    Interval {
        /// Which.
        id: IntervalId,
        /// Number of the worker.
        worker: usize,
        /// What happened.
        recorder: Box<Recorder>,
    },
    /// A moment that divides a slice.
    Mark(Mark),
    /// The load is done.
    Finished(End),
    /// The run cannot go on.
    Failed {
        /// Why.
        failure: Failure,
        /// How the worker's part ended.
        end: End,
    },
}

/// Which moment of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The load begins.
    Start,
    /// The counted part begins.
    Measure,
    /// The counted part ends.
    Stop,
    /// The last answer is read.
    Hold,
}

/// One worker at one moment of a slice.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// Which moment.
    pub edge: Edge,
    /// When it was, for this worker.
    pub at_ns: u64,
    /// The CPU clocks then, where this worker reads them.
    pub reading: Option<Reading>,
}

/// How a worker's part ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct End {
    /// Transactions under way at the end of the measurement.
    pub in_flight_at_stop: u64,
    /// Measured transactions whose end was not seen by the hard stop.
    pub unfinished: u64,
    /// Planned transactions of the measurement that never started.
    pub not_started: u64,
    /// Transactions the plan had for this worker's measurement; 0 in a closed loop.
    pub planned: u64,
}

impl End {
    fn add(&mut self, other: &Self) {
        self.in_flight_at_stop += other.in_flight_at_stop;
        self.unfinished += other.unfinished;
        self.not_started += other.not_started;
        self.planned += other.planned;
    }
}

/// A worker's ends of the channels.
#[derive(Debug)]
pub struct Channels {
    /// The worker's place among those that report to the same collector.
    pub place: usize,
    /// To the collector.
    pub reports: SyncSender<Report>,
    /// The times of each load, once all workers are ready; closed when there is no further one.
    pub start: Receiver<Timeline>,
    /// Empty recorders coming back.
    pub spare: Receiver<Box<Recorder>>,
    /// Set when the run is to end at once.
    pub cancelled: Arc<AtomicBool>,
    /// What this worker reads at the limits of a slice's counted part; none for all but one worker.
    pub watch: Option<Watch>,
}

/// Starts a worker's thread.
pub type Start<'a> = &'a dyn Fn(usize, Channels) -> io::Result<JoinHandle<()>>;

/// Workers whose connections are ready.
#[derive(Debug)]
pub struct Crew {
    /// Time to make all connections and prepare their statements.
    pub connect_s: f64,
    /// How long the parts of making those connections took.
    pub connecting: ConnectingTimes,
    starts: Vec<Sender<Timeline>>,
    spares: Vec<Sender<Box<Recorder>>>,
    threads: Vec<JoinHandle<()>>,
    incoming: Receiver<Report>,
    cancelled: Arc<AtomicBool>,
}

/// Why there is no crew.
#[derive(Debug)]
pub struct NotReady {
    /// Why the connections could not be made; none when the run was interrupted.
    pub failure: Option<Failure>,
    /// How long the parts of making some of the connections took.
    pub connecting: ConnectingTimes,
}

/// How one load went.
#[derive(Debug)]
pub struct Load {
    /// Sums over all workers.
    pub totals: Totals,
    /// Its times, as planned.
    pub timeline: Timeline,
    /// What was left at the end.
    pub end: End,
    /// The moments that divide it, of all workers; empty in a run without slices.
    pub marks: Vec<Mark>,
    /// Why it ended early.
    pub failure: Option<Failure>,
    /// Whether it was interrupted from outside.
    pub interrupted: bool,
}

impl Crew {
    /// Starts the workers and waits until all connections are ready.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(
        pace: &Pace,
        start_worker: Start<'_>,
        watch: Option<Watch>,
        interrupted: &AtomicBool,
    ) -> io::Result<Result<Self, NotReady>> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let (reports, incoming) = sync_channel(pace.threads as usize * 4);
        let began_ns = now_ns();
        let mut crew = Self {
            connect_s: 0.0,
            connecting: ConnectingTimes::default(),
            starts: Vec::new(),
            spares: Vec::new(),
            threads: Vec::new(),
            incoming,
            cancelled,
        };
        for place in 0..pace.threads as usize {
            let (start, start_receiver) = channel();
            let (spare, spare_receiver) = channel();
            let channels = Channels {
                place,
                reports: reports.clone(),
                start: start_receiver,
                spare: spare_receiver,
                cancelled: Arc::clone(&crew.cancelled),
                watch: watch.filter(|_| place == 0),
            };
            crew.starts.push(start);
            crew.spares.push(spare);
            crew.threads.push(start_worker(place, channels)?);
        }
        drop(reports);
        if let Err(failure) = crew.wait_until_ready(interrupted) {
            let connecting = std::mem::take(&mut crew.connecting);
            crew.call_off();
            return Ok(Err(NotReady { failure, connecting }));
        }
        crew.connect_s = (now_ns() - began_ns) as f64 / 1e9;
        Ok(Ok(crew))
    }

    /// The failure is none when the run was interrupted.
    fn wait_until_ready(&mut self, interrupted: &AtomicBool) -> Result<(), Option<Failure>> {
        let mut ready = 0;
        while ready < self.threads.len() {
            if interrupted.load(Ordering::Relaxed) {
                return Err(None);
            }
            match self.incoming.recv_timeout(Duration::from_millis(100)) {
                Ok(Report::Ready(times)) => {
                    self.connecting.merge(&times);
                    ready += 1;
                }
                Ok(Report::Failed { failure, .. }) => return Err(Some(failure)),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "every worker ended before its connections were ready";
                    return Err(Some(Failure::new(message)));
                }
            }
        }
        Ok(())
    }

    /// Runs one load; `interrupted` ends it early when set. After a failure or an interruption there is no other.
    ///
    /// # Errors
    /// When the observer's output fails.
    pub fn load(
        &mut self,
        timeline: Timeline,
        pace: &Pace,
        interrupted: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> io::Result<Load> {
        for start in &self.starts {
            // A worker that is gone has reported why.
            let _ = start.send(timeline);
        }
        let mut collector = Collector::new(timeline, pace.is_timed(), pace.slowest, &self.spares, observer);
        let mut course = Course::default();
        let give_up_ns = timeline.hard_stop_ns + PATIENCE.as_nanos() as u64;
        while course.finished < self.threads.len() {
            if interrupted.load(Ordering::Relaxed) && !course.interrupted {
                course.interrupted = true;
                self.cancelled.store(true, Ordering::Relaxed);
            }
            match self.incoming.recv_timeout(Duration::from_millis(100)) {
                Ok(Report::Interval { id, worker, recorder }) => {
                    if let Err(error) = collector.take(id, worker, recorder) {
                        self.cancelled.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
                Ok(report) => {
                    course.take(report);
                    if course.failure.is_some() {
                        self.cancelled.store(true, Ordering::Relaxed);
                    }
                }
                Err(RecvTimeoutError::Timeout) if now_ns() <= give_up_ns => {}
                Err(RecvTimeoutError::Timeout) => {
                    course
                        .failure
                        .get_or_insert(Failure::new("a worker did not end by the hard stop"));
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(Load {
            totals: collector.finish()?,
            timeline,
            end: course.end,
            marks: course.marks,
            failure: course.failure,
            interrupted: course.interrupted,
        })
    }

    /// Has the connections closed, and waits for the threads.
    pub fn dismiss(self) {
        drop(self.starts);
        // Reports are taken so that none waits for room in the channel.
        let deadline = now_ns() + PATIENCE.as_nanos() as u64;
        for thread in self.threads {
            while !thread.is_finished() && now_ns() < deadline {
                let _ = self.incoming.recv_timeout(Duration::from_millis(10));
            }
            if thread.is_finished() {
                // A worker that panicked has aborted the program already.
                let _ = thread.join();
            }
        }
    }

    /// Ends workers that wait for a start which does not come.
    pub fn call_off(self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.dismiss();
    }
}

/// A load under way, beside its intervals.
#[derive(Default)]
struct Course {
    finished: usize,
    end: End,
    marks: Vec<Mark>,
    failure: Option<Failure>,
    interrupted: bool,
}

impl Course {
    fn take(&mut self, report: Report) {
        match report {
            Report::Mark(mark) => self.marks.push(mark),
            Report::Finished(end) => {
                self.finished += 1;
                self.end.add(&end);
            }
            Report::Failed { failure, end } => {
                self.finished += 1;
                self.end.add(&end);
                self.failure.get_or_insert(failure);
            }
            Report::Ready(_) | Report::Interval { .. } => {}
        }
    }
}
