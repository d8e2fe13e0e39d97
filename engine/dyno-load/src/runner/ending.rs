//! The end of a load: how long its measurement lasted, also where a number of operations ended it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dyno_core::clock::now_ns;
use dyno_loop::recorder::Extra;
use dyno_loop::{Interval, LoadSettings, Observer, Outcome};

/// Passes intervals on; the last one of a run that its operations end is as long as they took.
pub struct ClampedObserver<'a, E> {
    /// Where to.
    pub inner: &'a mut dyn Observer<E>,
    /// When the last operation ended, 0 before; none where time alone ends the run.
    pub ended_ns: Option<&'a AtomicU64>,
    /// When the load began: a run that its operations end has no warm-up.
    pub started_ns: &'a AtomicU64,
}

impl<E> Observer<E> for ClampedObserver<'_, E> {
    fn interval(&mut self, interval: &Interval<'_, E>) -> io::Result<()> {
        let ended_ns = self.ended_ns.map_or(0, |ended_ns| ended_ns.load(Ordering::Relaxed));
        let ended_s = ended_ns.saturating_sub(self.started_ns.load(Ordering::Relaxed)) as f64 / 1e9;
        let longest_s = if ended_ns == 0 {
            f64::MAX
        } else {
            (ended_s - interval.start_s).max(0.0)
        };
        self.inner.interval(&Interval {
            phase: interval.phase,
            index: interval.index,
            start_s: interval.start_s,
            length_s: interval.length_s.min(longest_s),
            recorder: interval.recorder,
            plan: interval.plan,
        })
    }
}

/// How long the measurement lasted.
pub fn measured_s<E: Extra>(load: &LoadSettings, outcome: &Outcome<E>, interrupted: &AtomicBool) -> f64 {
    let planned_s = load.shape.duration_ns as f64 / 1e9;
    let Some(timeline) = outcome.timeline else {
        return planned_s;
    };
    let until = |end_ns: u64| (end_ns.saturating_sub(timeline.measure_ns) as f64 / 1e9).clamp(1e-6, planned_s);
    if outcome.failure.is_some() || interrupted.load(Ordering::Relaxed) {
        return until(now_ns());
    }
    match load
        .limit
        .as_ref()
        .map_or(0, |limit| limit.ended_ns.load(Ordering::Relaxed))
    {
        0 => planned_s,
        ended_ns => until(ended_ns),
    }
}
