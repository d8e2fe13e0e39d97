//! When samples are due: at whole intervals after the start, never drifting; what is late or missed is counted.

/// The plan of one run, and how well it was kept.
#[derive(Debug)]
pub struct Schedule {
    interval_ns: u64,
    next_ns: u64,
    /// Samples that began later than a tenth of the interval.
    pub late: u64,
    /// Samples left out because the one before took too long.
    pub missed: u64,
    /// The greatest lateness.
    pub late_max_us: u64,
}

impl Schedule {
    /// The first sample is due at once; an interval of 0 plans none.
    pub fn new(now_ns: u64, interval_ns: u64) -> Self {
        Self {
            interval_ns,
            next_ns: now_ns,
            late: 0,
            missed: 0,
            late_max_us: 0,
        }
    }

    /// Time until the next sample; absent when none is planned.
    pub fn wait_ns(&self, now_ns: u64) -> Option<u64> {
        (self.interval_ns > 0).then(|| self.next_ns.saturating_sub(now_ns))
    }

    /// A sample begins at `now_ns`: gives its lateness in microseconds and plans the next one.
    pub fn begin(&mut self, now_ns: u64) -> u64 {
        if self.interval_ns == 0 {
            return 0;
        }
        let late_ns = now_ns.saturating_sub(self.next_ns);
        let missed = late_ns / self.interval_ns;
        self.missed += missed;
        self.late += u64::from(late_ns > self.interval_ns / 10);
        self.late_max_us = self.late_max_us.max(late_ns / 1000);
        self.next_ns = self.next_ns.saturating_add(self.interval_ns.saturating_mul(missed + 1));
        late_ns / 1000
    }

    /// How long a sample may wait for an answer: half the interval.
    pub fn half_interval_ns(&self) -> Option<u64> {
        (self.interval_ns > 0).then_some(self.interval_ns / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_to_whole_intervals_from_the_start() {
        let mut schedule = Schedule::new(5, 1_000_000);
        assert_eq!(schedule.begin(5), 0);
        assert_eq!(schedule.wait_ns(5), Some(1_000_000));
        assert_eq!(schedule.begin(1_000_005 + 50_000), 50);
        assert_eq!(schedule.wait_ns(1_050_005), Some(950_000));
        assert_eq!((schedule.late, schedule.missed), (0, 0));
    }

    #[test]
    fn a_sample_that_is_too_late_leaves_out_those_it_missed() {
        let mut schedule = Schedule::new(0, 1_000_000);
        assert_eq!(schedule.begin(3_200_000), 3200);
        assert_eq!((schedule.late, schedule.missed, schedule.late_max_us), (1, 3, 3200));
        assert_eq!(schedule.wait_ns(3_200_000), Some(800_000));
    }

    #[test]
    fn without_an_interval_nothing_is_planned() {
        let mut schedule = Schedule::new(0, 0);
        assert_eq!((schedule.wait_ns(9), schedule.begin(9)), (None, 0));
    }
}
