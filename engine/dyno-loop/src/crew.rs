//! The workers of a run: started once, with their connections, and given one load after another until they are dismissed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use dyno_core::clock::now_ns;

use super::collector::{Collector, Observer, Totals};
use super::gauges::Watch;
use super::recorder::{ConnectingTimes, Extra, Recorder};
use super::report::{Channels, End, Mark, Report};
use super::settings::LoadShape;
use super::timeline::Timeline;
use crate::recorder::errors::Failure;

/// How long after the hard stop a worker counts as hanging.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts a worker's thread.
pub type Start<'a, E> = &'a dyn Fn(usize, Channels<E>) -> io::Result<JoinHandle<()>>;

/// Workers whose connections are ready.
#[derive(Debug)]
pub struct Crew<E> {
    /// Time to make all connections and prepare their statements.
    pub connect_s: f64,
    /// How long the parts of making those connections took.
    pub connecting: ConnectingTimes,
    starts: Vec<Sender<Timeline>>,
    spares: Vec<Sender<Box<Recorder<E>>>>,
    threads: Vec<JoinHandle<()>>,
    incoming: Receiver<Report<E>>,
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
pub struct Load<E: Extra> {
    /// Sums over all workers.
    pub totals: Totals<E>,
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

impl<E: Extra> Crew<E> {
    /// Starts the workers and waits until all connections are ready.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(
        shape: &LoadShape,
        start_worker: Start<'_, E>,
        mut watch: Option<Watch>,
        interrupted: &AtomicBool,
    ) -> io::Result<Result<Self, NotReady>> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let (reports, incoming) = sync_channel(shape.threads as usize * 4);
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
        for worker_index in 0..shape.threads as usize {
            let (start, start_receiver) = channel();
            let (spare, spare_receiver) = channel();
            let channels = Channels {
                worker_index,
                reports: reports.clone(),
                start: start_receiver,
                spare: spare_receiver,
                cancelled: Arc::clone(&crew.cancelled),
                watch: watch.take(),
            };
            crew.starts.push(start);
            crew.spares.push(spare);
            crew.threads.push(start_worker(worker_index, channels)?);
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
        shape: &LoadShape,
        interrupted: &AtomicBool,
        observer: &mut dyn Observer<E>,
    ) -> io::Result<Load<E>> {
        for start in &self.starts {
            // A worker that is gone has reported why.
            let _ = start.send(timeline);
        }
        let mut collector = Collector::new(timeline, shape.is_timed(), shape.slowest, &self.spares, observer);
        let mut course = Course::default();
        let give_up_ns = timeline.hard_stop_ns + PATIENCE.as_nanos() as u64;
        while course.finished < self.threads.len() {
            if interrupted.load(Ordering::Relaxed) && !course.interrupted {
                course.interrupted = true;
                self.cancelled.store(true, Ordering::Relaxed);
            }
            match self.incoming.recv_timeout(Duration::from_millis(100)) {
                Ok(Report::Interval {
                    id,
                    worker,
                    recorder,
                    plan,
                }) => {
                    if let Err(error) = collector.take(id, worker, recorder, plan) {
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
    fn take<E>(&mut self, report: Report<E>) {
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
