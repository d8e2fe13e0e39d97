//! What a metric family is, what a collector of one promises, and how rarely it makes readings that cost much.

use crate::clock::Clock;
use crate::machine::{Machine, Process};
use crate::metric::Metric;
use crate::mysql::status_family::StatusFamily;
use crate::sample::Sample;

/// Why a reading gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The thing that was read is not there (any more): a process has ended, a file does not exist.
    #[error("{0}")]
    Gone(String),
    /// It is there, and cannot be read or understood.
    #[error("{0}")]
    Unreadable(String),
}

/// What a collector may use while it reads.
#[derive(Debug)]
pub struct Moment<'a> {
    /// Time; read it when the counters are read, for rates use the true elapsed time.
    pub clock: &'a Clock,
    /// One buffer for all files.
    pub buffer: &'a mut Vec<u8>,
    /// How many counters went backwards; a collector adds its own.
    pub backwards: u32,
}

/// Reads one family for one subject (the host, or one process), sample after sample.
pub trait Collector {
    /// Adds what can be read now to the sample. What is not here is left out.
    ///
    /// # Errors
    /// When the whole family cannot be read; the run goes on and the failure is recorded once.
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure>;
}

/// A collector, or why there can be none on this host.
pub type Opened = Result<Box<dyn Collector>, Failure>;

/// What a family is read for. Another kind of server (memcached) would be one more variant, with a reading of its own.
#[derive(Debug, Clone, Copy)]
pub enum Subject {
    /// Once, for the host.
    Host(fn(&Machine) -> Opened),
    /// Once for each watched process, server or driver.
    Process(fn(&Machine, &Process) -> Opened),
    /// Once for each watched server whose status can be read. All such families share one reading a sample.
    Status(&'static StatusFamily),
}

/// One family: what it is called, what it can report, and how its collectors are made.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Name in the header and in errors.
    pub name: &'static str,
    /// What it is read for.
    pub subject: Subject,
    /// All metrics that it can report.
    pub metrics: &'static [&'static [Metric]],
}

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
