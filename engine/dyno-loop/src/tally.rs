//! What a worker counts of its operations.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dyno_core::clock::now_ns;

use crate::gauges::Gauges;
use crate::recorder::{Extra, Latency, Operation, Recorder, Slow, ThreadUsage, UsageMeter};
use crate::report::{Channels, Edge, End, Mark, PlanAccount, Report};
use crate::timeline::{IntervalId, Phase, Timeline};

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
        let cut = self.cut(now, service_ns);
        let recorder = &mut self.intervals.recorder;
        recorder.counts.transactions += 1;
        recorder.cut.transactions += cut;
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

    /// Counts, beside its end, a statement that the counted part of a slice cuts.
    #[inline]
    pub fn statement_ended(&mut self, now: u64, service_ns: u64) {
        let cut = self.cut(now, service_ns);
        self.intervals.recorder.cut.queries += cut;
    }

    /// How much more than its end tells is done in the counted part of a slice of what ends at `now`: the share of its
    /// time there, less 1 where it ends there. 0 of an open loop, whose rate is given.
    #[inline]
    fn cut(&self, now: u64, service_ns: u64) -> f64 {
        let (from, to) = self.intervals.counted_ns;
        let started = now.saturating_sub(service_ns);
        match self.intervals.phase {
            Phase::Measure if started < from && !self.is_timed => {
                now.saturating_sub(from) as f64 / service_ns.max(1) as f64 - 1.0
            }
            // Some of what a script does without statements is told after its end.
            Phase::Drain if started < to && !self.is_timed => {
                to.min(now).saturating_sub(started.max(from)) as f64 / service_ns.max(1) as f64
            }
            _ => 0.0,
        }
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
        self.left_out(measured, of_warmup);
    }

    /// Counts an operation that the server has refused: it has ended, and is not completed.
    pub fn refused(&mut self, measured: bool) {
        self.end.refused += u64::from(measured);
        self.left_out(u64::from(measured), u64::from(!measured));
    }

    fn left_out(&mut self, measured: u64, of_warmup: u64) {
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

/// The current interval, and the way to the collector.
pub struct Intervals<E> {
    /// What happened in it.
    pub recorder: Box<Recorder<E>>,
    /// Its phase.
    pub phase: Phase,
    /// When it ends; `u64::MAX` before the first load.
    pub boundary_ns: u64,
    /// The load's times.
    pub timeline: Timeline,
    /// When the counted part of the slice began and ended here; 0 before, and without slices.
    counted_ns: (u64, u64),
    channels: Channels<E>,
    current: IntervalId,
    meter: UsageMeter,
    usage: ThreadUsage,
    /// When `usage` was read.
    usage_ns: u64,
    gauges: Option<Gauges>,
    slowest: usize,
}

impl<E: Extra> Intervals<E> {
    /// Before the first load; to be made on the worker's own thread.
    pub fn new(slowest: usize, mut channels: Channels<E>) -> Self {
        Self {
            recorder: Box::new(Recorder::new(slowest)),
            phase: Phase::Warmup,
            boundary_ns: u64::MAX,
            timeline: Timeline::default(),
            counted_ns: (0, 0),
            current: IntervalId {
                phase: Phase::Warmup,
                index: 0,
            },
            meter: UsageMeter::of_this_thread(),
            usage: ThreadUsage::default(),
            usage_ns: 0,
            gauges: channels.watch.take().map(Gauges::new),
            channels,
            slowest,
        }
    }

    /// Whether load has begun.
    pub fn is_started(&self) -> bool {
        self.boundary_ns != u64::MAX
    }

    /// Whether all is to end at once.
    pub fn is_cancelled(&self) -> bool {
        self.channels.cancelled.load(Ordering::Relaxed)
    }

    /// Reports that all connections are ready.
    pub fn report_ready(&mut self) {
        let times = Box::new(std::mem::take(&mut self.recorder.connecting));
        self.report(Report::Ready(times));
        self.recorder.clear_after_connecting();
    }

    /// Waits, without using the CPU, for the next load; `None` when there is none.
    pub fn next_timeline(&self) -> Option<Timeline> {
        self.channels.start.recv().ok()
    }

    /// Begins a load at its start, which all workers share.
    pub fn begin(&mut self, timeline: Timeline) {
        // A closed loop would begin at once: its time counts from the start.
        std::thread::sleep(Duration::from_nanos(timeline.start_ns.saturating_sub(now_ns())));
        self.timeline = timeline;
        self.counted_ns = (0, 0);
        (self.usage, self.usage_ns) = (self.meter.read(), now_ns());
        self.current = timeline.interval_at(timeline.start_ns);
        self.phase = self.current.phase;
        self.boundary_ns = timeline.interval_bounds(self.current).1;
        let now = now_ns();
        self.mark(Edge::Start, now);
        if self.phase == Phase::Measure {
            self.mark(Edge::Measure, now);
        }
    }

    /// Marks what the interval of `now` begins, before anything else is done at the boundary.
    pub fn mark_boundary(&mut self, now: u64) {
        let next = self.timeline.interval_at(now).phase;
        if self.phase == Phase::Warmup && next != Phase::Warmup {
            self.mark(Edge::Measure, now);
        }
        if self.phase != Phase::Drain && next == Phase::Drain {
            self.mark(Edge::Stop, now);
        }
    }

    /// Reports a moment that divides a slice; nothing in a run without slices.
    pub fn mark(&mut self, edge: Edge, now: u64) {
        if !self.timeline.is_slice {
            return;
        }
        match edge {
            Edge::Measure => self.counted_ns.0 = now,
            Edge::Stop => self.counted_ns.1 = now,
            Edge::Start | Edge::Hold => {}
        }
        let is_limit = matches!(edge, Edge::Measure | Edge::Stop);
        let reading = self.gauges.as_mut().filter(|_| is_limit).map(Gauges::read);
        self.report(Report::Mark(Mark {
            edge,
            at_ns: now,
            reading,
        }));
    }

    /// Moves on to the interval of `now`.
    pub fn enter(&mut self, now_ns: u64) {
        self.current = self.timeline.interval_at(now_ns);
        self.phase = self.current.phase;
        self.boundary_ns = self.timeline.interval_bounds(self.current).1;
    }

    /// Hands the interval over with the plan at its end, and takes an empty recorder.
    pub fn hand_over(&mut self, plan: Option<PlanAccount>) {
        let (usage, usage_ns) = (self.meter.read(), now_ns());
        self.recorder.usage = usage.since(&self.usage, usage_ns.saturating_sub(self.usage_ns));
        (self.usage, self.usage_ns) = (usage, usage_ns);
        let slowest = self.slowest;
        let spare = self.channels.spare.try_recv();
        let spare = spare.unwrap_or_else(|_| Box::new(Recorder::new(slowest)));
        let recorder = std::mem::replace(&mut self.recorder, spare);
        self.report(Report::Interval {
            id: self.current,
            worker: self.channels.worker_index,
            recorder,
            plan,
        });
    }

    /// Reports to the collector, which may be gone already when another worker failed.
    pub fn report(&self, report: Report<E>) {
        let _ = self.channels.reports.send(report);
    }
}
