//! Readings that cost too much for every sample: made rarely, and more rarely the more they cost.

use crate::clock::Clock;

/// The shortest wait.
const EVERY_NS: u64 = 10_000_000_000;

/// The most that one limited reading may take of one core, over time: 0.02 %.
const SHARE: f64 = 0.0002;

/// Limits the CPU time of a reading: when the next one is due.
#[derive(Debug, Default)]
pub struct CostLimiter {
    due_ns: u64,
}

impl CostLimiter {
    /// Makes the reading when it is due, measures its CPU time, and sets when the next one is. Gives what was read and
    /// its cost in nanoseconds; `None` when it is not due.
    pub fn run<T>(&mut self, now_ns: u64, reading: impl FnOnce() -> T) -> Option<(T, u64)> {
        if now_ns < self.due_ns {
            return None;
        }
        let before_ns = Clock::thread_cpu_ns();
        let result = reading();
        let cost_ns = Clock::thread_cpu_ns().saturating_sub(before_ns);
        self.due_ns = now_ns.saturating_add(wait_ns(cost_ns));
        Some((result, cost_ns))
    }
}

fn wait_ns(cost_ns: u64) -> u64 {
    ((cost_ns as f64 / SHARE) as u64).max(EVERY_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cheap_reading_is_made_every_ten_seconds() {
        let mut limiter = CostLimiter::default();
        assert!(limiter.run(0, || ()).is_some());
        assert!(limiter.run(9_999_999_999, || ()).is_none());
        assert!(limiter.run(3_600_000_000_000, || ()).is_some());
    }

    #[test]
    fn the_wait_grows_with_the_cost() {
        assert_eq!(wait_ns(1_000), 10_000_000_000);
        assert_eq!(wait_ns(20_000_000), 100_000_000_000);
        assert_eq!(wait_ns(u64::MAX), u64::MAX);
    }
}
