//! A worker's intervals: the recorder of the current one, when it ends, and where it goes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dyno_core::clock::now_ns;

use crate::recorder::{Recorder, ThreadUsage, UsageMeter};
use crate::run::{Channels, IntervalId, Pace, Phase, Report, Timeline};

/// The current interval, and the way to the collector.
pub struct Intervals {
    /// What happened in it.
    pub recorder: Box<Recorder>,
    /// Its phase.
    pub phase: Phase,
    /// When it ends; `u64::MAX` before the load.
    pub boundary_ns: u64,
    /// The run's times.
    pub timeline: Timeline,
    worker: usize,
    channels: Channels,
    current: IntervalId,
    meter: UsageMeter,
    usage: ThreadUsage,
    slowest: usize,
}

impl Intervals {
    /// For worker `worker`, on its own thread.
    pub fn new(worker: usize, pace: &Pace, channels: Channels) -> Self {
        Self {
            recorder: Box::new(Recorder::new(pace.slowest)),
            phase: Phase::Warmup,
            boundary_ns: u64::MAX,
            timeline: Timeline::new(0, pace),
            worker,
            channels,
            current: IntervalId {
                phase: Phase::Warmup,
                index: 0,
            },
            meter: UsageMeter::of_this_thread(),
            usage: ThreadUsage::default(),
            slowest: pace.slowest,
        }
    }

    /// Whether the load has begun.
    pub fn is_started(&self) -> bool {
        self.boundary_ns != u64::MAX
    }

    /// Whether the run is to end at once.
    pub fn is_cancelled(&self) -> bool {
        self.channels.cancelled.load(Ordering::Relaxed)
    }

    /// Says that all connections are ready, and waits for the start; false when the run is off.
    pub fn wait_for_start(&mut self) -> bool {
        self.report(Report::Ready(Box::default()));
        let Ok(timeline) = self.channels.start.recv() else {
            return false;
        };
        // A closed loop would begin at once: its time counts from the start that all workers share.
        std::thread::sleep(Duration::from_nanos(timeline.start_ns.saturating_sub(now_ns())));
        self.timeline = timeline;
        self.recorder.clear();
        self.usage = self.meter.read();
        self.enter(timeline.start_ns);
        true
    }

    /// Moves on to the interval of `now`.
    pub fn enter(&mut self, now_ns: u64) {
        self.current = self.timeline.interval_at(now_ns);
        self.phase = self.current.phase;
        self.boundary_ns = self.timeline.interval_bounds(self.current).1;
    }

    /// Hands the interval over, and takes an empty recorder.
    pub fn hand_over(&mut self) {
        let usage = self.meter.read();
        self.recorder.usage = usage.since(&self.usage);
        self.usage = usage;
        let slowest = self.slowest;
        let spare = self.channels.spare.try_recv();
        let spare = spare.unwrap_or_else(|_| Box::new(Recorder::new(slowest)));
        let recorder = std::mem::replace(&mut self.recorder, spare);
        self.report(Report::Interval {
            id: self.current,
            worker: self.worker,
            recorder,
        });
    }

    /// Tells the collector, which may be gone already when another worker failed.
    pub fn report(&self, report: Report) {
        let _ = self.channels.reports.send(report);
    }
}
