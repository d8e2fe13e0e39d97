//! What a worker counts of its operations.

use super::intervals::Intervals;
use super::operation::Operation;
use super::recorder::{Extra, Latency, Recorder, Slow};
use super::report::End;
use super::timeline::Phase;

/// What has become of the operations of a phase; the drain belongs to the measurement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PhaseCounts {
    pub ended: u64,
    pub dropped_late: u64,
    pub unfinished: u64,
}

/// A worker's counts: of the current interval, and of the load.
pub struct Tally<E> {
    /// The current interval.
    pub intervals: Intervals<E>,
    /// Operations in flight.
    pub in_flight: u64,
    /// How the load ends.
    pub end: End,
    /// Operations of the phase, up to the last interval that was handed over.
    pub(super) phase: PhaseCounts,
    /// Whether operations are due at times of their own.
    pub(super) is_timed: bool,
    /// Whether operations start at other times than intended; else response and service time are the same.
    pub(super) has_intended_times: bool,
}

impl<E: Extra> Tally<E> {
    /// The recorder of the current interval.
    #[inline]
    pub fn recorder(&mut self) -> &mut Recorder<E> {
        &mut self.intervals.recorder
    }

    /// Whether an operation that starts now belongs to the measurement.
    #[inline]
    pub(super) fn is_measuring(&self) -> bool {
        match self.intervals.phase {
            Phase::Warmup => false,
            Phase::Measure => true,
            // What the schedule still has from before the stop goes on: its response time counts.
            Phase::Drain => self.is_timed,
        }
    }

    /// Counts an operation that has ended at `now`; its latencies where it counts.
    ///
    /// `is_recorded` says that its service time is among those that [`Extra::add_service_times`] adds when the interval
    /// ends: where response and service time are the same, it is then recorded once instead of three times.
    #[inline]
    pub fn completed(&mut self, operation: &Operation, now: u64, is_recorded: bool) -> Option<Latency> {
        self.in_flight -= 1;
        // An operation of the warm-up's schedule that ends in the measurement belongs to neither.
        if !(operation.measured || self.intervals.phase == Phase::Warmup || !self.is_timed) {
            return None;
        }
        let service_ns = now.saturating_sub(operation.started_ns);
        let response_ns = now.saturating_sub(operation.intended_ns);
        let recorder = &mut self.intervals.recorder;
        recorder.counts.transactions += 1;
        if self.has_intended_times {
            recorder.service.record(service_ns);
            recorder.response.record(response_ns);
        } else if !is_recorded {
            recorder.service.record(service_ns);
        }
        recorder.slowest.offer(Slow {
            response_ns,
            service_ns,
            ended_ns: now,
            number: operation.number,
        });
        let latency = Latency {
            service_ns,
            response_ns,
        };
        if self.intervals.phase == Phase::Drain && !self.is_timed {
            recorder.left.push(latency);
        }
        Some(latency)
    }

    /// Records how long an operation has waited that is given up now, for the end of the load has come.
    pub(super) fn waited(&mut self, operation: &Operation, now: u64) {
        self.recorder().left.push(Latency {
            service_ns: now.saturating_sub(operation.started_ns),
            response_ns: now.saturating_sub(operation.intended_ns),
        });
    }

    /// Counts operations that will not end: so many that belong to the measurement, and so many of the warm-up.
    pub fn given_up(&mut self, measured: u64, of_warmup: u64) {
        self.end.unfinished += measured;
        self.phase.unfinished += match self.intervals.phase {
            Phase::Warmup => of_warmup,
            // What the warm-up has left does not belong to the plan of the measurement.
            Phase::Measure | Phase::Drain => measured,
        };
    }

    /// Adds the interval that ends to the counts of its phase.
    pub(super) fn count_interval(&mut self) {
        let counts = &self.intervals.recorder.counts;
        self.phase.ended += counts.transactions;
        self.phase.dropped_late += counts.dropped_late;
    }

    /// Completes the latencies of an interval that ends.
    pub(super) fn complete_latencies(&mut self) {
        if !self.has_intended_times {
            let recorder = &mut self.intervals.recorder;
            recorder.extra.add_service_times(&mut recorder.service);
            recorder.response.merge(&recorder.service);
        }
    }
}
