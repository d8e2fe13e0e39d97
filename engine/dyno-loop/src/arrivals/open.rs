//! The open loop: a worker's share of the arrival schedule.

use std::sync::Arc;

use dyno_core::schedule::{Arrival, ArrivalCursor, ArrivalSchedule};

use super::NextOperation;

/// A worker's share of the schedule in one phase.
#[derive(Debug)]
pub struct OpenLoop {
    cursor: ArrivalCursor,
    next: Arrival,
    /// Number of the phase's first operation.
    base: u64,
    start_ns: u64,
    end_ns: u64,
    passed: u64,
    /// Catching up starts operations at most this many times as fast as scheduled; none: without a limit.
    catch_up: Option<f64>,
    /// From when on the next may start.
    release_ns: u64,
}

/// Which part of a schedule.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Index of the worker.
    pub worker: u64,
    /// Workers of the whole run.
    pub workers: u64,
    /// Stream of the operations.
    pub stream: u32,
    /// Number of the phase's first operation.
    pub base: u64,
    /// Start and end of the phase.
    pub bounds_ns: (u64, u64),
}

impl OpenLoop {
    /// The schedule from its beginning, for one phase.
    pub fn new(schedule: &Arc<ArrivalSchedule>, part: &Part, catch_up: Option<f64>) -> Self {
        let mut cursor = ArrivalCursor::of_stream(Arc::clone(schedule), part.worker, part.workers, part.stream);
        let next = cursor.next_arrival();
        let (start_ns, end_ns) = part.bounds_ns;
        Self {
            cursor,
            next,
            base: part.base,
            start_ns,
            end_ns,
            passed: 0,
            catch_up,
            release_ns: start_ns + next.intended_ns,
        }
    }

    fn due_ns(&self) -> u64 {
        self.start_ns + self.next.intended_ns
    }

    /// From when on the next operation may start; `None` when there is none in this phase.
    #[inline]
    pub fn next_release(&self) -> Option<u64> {
        (self.due_ns() < self.end_ns).then_some(self.release_ns)
    }

    /// Takes the next operation, which starts now.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<NextOperation> {
        let release_ns = self.next_release()?;
        let number = self.next.number + self.base;
        let intended_ns = self.due_ns();
        self.advance(intended_ns, now);
        Some(NextOperation {
            number,
            intended_ns,
            release_ns,
        })
    }

    /// Goes on to the next, after one that was due at `due_ns` and started at `now`.
    #[inline]
    fn advance(&mut self, due_ns: u64, now: u64) {
        self.next = self.cursor.next_arrival();
        self.passed += 1;
        self.release_ns = self.due_ns();
        if let Some(factor) = self.catch_up {
            let gap_ns = (self.release_ns - due_ns) as f64 / factor;
            self.release_ns = self.release_ns.max(now.saturating_add(gap_ns as u64));
        }
    }

    /// Operations of this phase that were taken.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Operations of this phase due by `now` that were not taken.
    pub fn not_started(&self, now: u64) -> u64 {
        let limit_ns = self.end_ns.min(now).saturating_sub(self.start_ns);
        if self.next.intended_ns >= limit_ns {
            return 0;
        }
        1 + self.cursor.count_before(limit_ns)
    }
}
