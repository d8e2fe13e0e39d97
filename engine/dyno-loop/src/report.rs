//! What workers and the thread that collects their results exchange.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::Arc;

use super::gauges::{Reading, Watch};
use super::recorder::{ConnectingTimes, Recorder};
use super::timeline::{IntervalId, Timeline};
use crate::recorder::errors::Failure;

/// What a worker reports.
#[derive(Debug)]
pub enum Report<E> {
    /// All its connections are ready; how long the parts of making them took.
    Ready(Box<ConnectingTimes>),
    /// One interval.
    Interval {
        /// Which.
        id: IntervalId,
        /// Index of the worker.
        worker: usize,
        /// What happened.
        recorder: Box<Recorder<E>>,
        /// The plan at its end; none in a closed loop.
        plan: Option<PlanAccount>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Measured transactions that the server refused.
    #[serde(default)]
    pub refused: u64,
    /// Planned transactions of the measurement that never started.
    pub not_started: u64,
    /// Operations scheduled for this worker's measurement; 0 in a closed loop.
    pub planned: u64,
    /// The longest time for which the worker was not running although it had work or a timer: its process was stopped, or
    /// its host had no CPU for it.
    #[serde(default)]
    pub longest_pause_ns: u64,
}

impl End {
    /// Adds another worker's.
    pub fn add(&mut self, other: &Self) {
        self.in_flight_at_stop += other.in_flight_at_stop;
        self.unfinished += other.unfinished;
        self.refused += other.refused;
        self.not_started += other.not_started;
        self.planned += other.planned;
        self.longest_pause_ns = self.longest_pause_ns.max(other.longest_pause_ns);
    }
}

/// What became of a plan by some moment: of the operations that were due since the phase began. The measurement's plan
/// includes the drain.
///
/// planned = ended + dropped late + unfinished + in flight + not started, at any moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PlanAccount {
    /// Operations that were due.
    pub planned: u64,
    /// Operations among `planned` that are completed.
    pub ended: u64,
    /// Given up by the overload policy because they were late.
    pub dropped_late: u64,
    /// Lost with their connection, refused, or without an answer by the hard stop.
    pub unfinished: u64,
    /// Started and not ended.
    pub in_flight: u64,
    /// Not started.
    pub not_started: u64,
}

impl PlanAccount {
    /// Adds another worker's.
    pub fn add(&mut self, other: &Self) {
        self.planned += other.planned;
        self.ended += other.ended;
        self.dropped_late += other.dropped_late;
        self.unfinished += other.unfinished;
        self.in_flight += other.in_flight;
        self.not_started += other.not_started;
    }

    /// The account when the load ends: what is in flight then stays unfinished.
    #[must_use]
    pub fn closed(self) -> Self {
        Self {
            unfinished: self.unfinished + self.in_flight,
            in_flight: 0,
            ..self
        }
    }
}

/// A worker's ends of the channels.
#[derive(Debug)]
pub struct Channels<E> {
    /// The worker's index among those that report to the same collector.
    pub worker_index: usize,
    /// To the collector.
    pub reports: SyncSender<Report<E>>,
    /// The times of each load, once all workers are ready; closed when there is no further one.
    pub start: Receiver<Timeline>,
    /// Empty recorders coming back.
    pub spare: Receiver<Box<Recorder<E>>>,
    /// Set when the run must end at once.
    pub cancelled: Arc<AtomicBool>,
    /// What this worker reads at the limits of a slice's counted part; none for all but one worker.
    pub watch: Option<Watch>,
}
