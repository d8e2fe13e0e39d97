//! A worker's intervals: the recorder of the current one, when it ends, and where it goes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dyno_core::clock::now_ns;

use super::gauges::Gauges;
use super::recorder::{Extra, Recorder, ThreadUsage, UsageMeter};
use super::report::{Channels, Edge, Mark, PlanAccount, Report};
use super::timeline::{IntervalId, Phase, Timeline};

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
