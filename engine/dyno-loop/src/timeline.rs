//! The run's times, on the engine's clock: fixed when every connection is ready, the same for all workers.

use super::settings::LoadShape;

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Load that is not measured.
    Warmup,
    /// The measurement.
    Measure,
    /// No new transactions; those under way end.
    Drain,
}

/// One interval of one phase, counted from the phase's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct IntervalId {
    /// Its phase.
    pub phase: Phase,
    /// Its number.
    pub index: u64,
}

/// A slice: a separate load on connections that exist before it and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceTimes {
    /// Which operations: the same stream has the same ones.
    pub stream: u32,
    /// Load that is not counted.
    pub washout_ns: u64,
    /// Load that is counted.
    pub measure_ns: u64,
    /// Operations per 1000 s of an open loop, in place of the load's own rate; none: that one.
    pub rate_per_ks: Option<u64>,
    /// How many connections of a closed loop are loaded, the others stay idle; none: all.
    pub connections: Option<u32>,
}

/// When each phase starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Start of the load.
    pub start_ns: u64,
    /// End of the warm-up: the plan of an open loop begins anew here, without the warm-up's backlog.
    pub measure_ns: u64,
    /// End of the measurement.
    pub stop_ns: u64,
    /// End of the load: operations still in flight are abandoned.
    pub hard_stop_ns: u64,
    /// Which operations; 0 in a run without slices.
    pub stream: u32,
    /// Whether it is a slice: the connections stay for the next.
    pub is_slice: bool,
    /// Operations per 1000 s in place of the load's own rate.
    pub rate_per_ks: Option<u64>,
    /// How many connections of a closed loop are loaded.
    pub connections: Option<u32>,
    interval_ns: u64,
}

impl Timeline {
    /// A timeline that starts at `start_ns`.
    pub fn new(start_ns: u64, shape: &LoadShape) -> Self {
        let measure_ns = start_ns + shape.warmup_ns;
        let stop_ns = measure_ns + shape.duration_ns;
        Self {
            start_ns,
            measure_ns,
            stop_ns,
            hard_stop_ns: stop_ns + shape.grace_ns,
            stream: 0,
            is_slice: false,
            rate_per_ks: None,
            connections: None,
            interval_ns: shape.interval_ns,
        }
    }

    /// A slice that starts at `start_ns`; each of its phases is one interval.
    pub fn slice(start_ns: u64, times: &SliceTimes, grace_ns: u64) -> Self {
        let measure_ns = start_ns + times.washout_ns;
        let stop_ns = measure_ns + times.measure_ns;
        Self {
            start_ns,
            measure_ns,
            stop_ns,
            hard_stop_ns: stop_ns + grace_ns,
            stream: times.stream,
            is_slice: true,
            rate_per_ks: times.rate_per_ks,
            connections: times.connections,
            interval_ns: times.washout_ns.max(times.measure_ns),
        }
    }

    /// Start and end of a phase.
    pub fn bounds(&self, phase: Phase) -> (u64, u64) {
        match phase {
            Phase::Warmup => (self.start_ns, self.measure_ns),
            Phase::Measure => (self.measure_ns, self.stop_ns),
            Phase::Drain => (self.stop_ns, self.hard_stop_ns),
        }
    }

    /// The interval that a moment falls in. The drain is one interval.
    pub fn interval_at(&self, now_ns: u64) -> IntervalId {
        let phase = if now_ns < self.measure_ns {
            Phase::Warmup
        } else if now_ns < self.stop_ns {
            Phase::Measure
        } else {
            return IntervalId {
                phase: Phase::Drain,
                index: 0,
            };
        };
        let index = now_ns.saturating_sub(self.bounds(phase).0) / self.interval_ns;
        IntervalId { phase, index }
    }

    /// Start and end of an interval; the last of a phase ends with it.
    pub fn interval_bounds(&self, id: IntervalId) -> (u64, u64) {
        let (start, end) = self.bounds(id.phase);
        if id.phase == Phase::Drain {
            return (start, end);
        }
        let from = start + id.index * self.interval_ns;
        (from, (from + self.interval_ns).min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMELINE: Timeline = Timeline {
        start_ns: 1_000,
        measure_ns: 1_250,
        stop_ns: 1_600,
        hard_stop_ns: 2_000,
        stream: 0,
        is_slice: false,
        rate_per_ks: None,
        connections: None,
        interval_ns: 100,
    };

    #[test]
    fn intervals_restart_with_the_measurement_and_cover_all_of_it() {
        let at = |now| {
            let id = TIMELINE.interval_at(now);
            (id.phase, id.index, TIMELINE.interval_bounds(id))
        };
        assert_eq!(at(1_000), (Phase::Warmup, 0, (1_000, 1_100)));
        assert_eq!(at(1_249), (Phase::Warmup, 2, (1_200, 1_250)));
        assert_eq!(at(1_250), (Phase::Measure, 0, (1_250, 1_350)));
        assert_eq!(at(1_599), (Phase::Measure, 3, (1_550, 1_600)));
        assert_eq!(at(1_600), (Phase::Drain, 0, (1_600, 2_000)));
        assert_eq!(at(9_999), (Phase::Drain, 0, (1_600, 2_000)));
    }

    #[test]
    fn each_phase_of_a_slice_is_one_interval() {
        for (washout_ns, measure_ns) in [(500, 3_000), (3_000, 500), (0, 3_000)] {
            let times = SliceTimes {
                stream: 7,
                washout_ns,
                measure_ns,
                rate_per_ks: None,
                connections: None,
            };
            let slice = Timeline::slice(1_000, &times, 9_000);
            let stop_ns = 1_000 + washout_ns + measure_ns;
            let id = slice.interval_at(stop_ns - 1);
            assert_eq!((id.phase, id.index), (Phase::Measure, 0));
            assert_eq!(slice.interval_bounds(id), (1_000 + washout_ns, stop_ns));
            assert_eq!(slice.bounds(Phase::Drain), (stop_ns, stop_ns + 9_000));
        }
    }
}
