//! The open loop: a worker's share of the arrival schedule.

use std::sync::Arc;

use dyno_core::schedule::{Arrival, ArrivalCursor, ArrivalSchedule};

use crate::recorder::NextOperation;

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
    due: Due,
    /// Catching up starts operations at most this many times as fast as scheduled; none: without a limit.
    catch_up: Option<f64>,
    /// From when on the next may start.
    release_ns: u64,
}

/// The operations that were due when this was last counted. They are counted on from there, so that a long backlog of a
/// Poisson plan is not walked again at every interval.
#[derive(Debug)]
struct Due {
    cursor: ArrivalCursor,
    /// The first after them.
    next: Arrival,
    count: u64,
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
        let due = Due {
            cursor: cursor.clone(),
            next,
            count: 0,
        };
        Self {
            cursor,
            next,
            due,
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

    /// Operations of this phase due by `now` that were not taken; `now` must not be earlier than in the last call.
    pub fn not_started(&mut self, now: u64) -> u64 {
        let limit_ns = self.end_ns.min(now).saturating_sub(self.start_ns);
        if self.due.count < self.passed {
            self.due = Due {
                cursor: self.cursor.clone(),
                next: self.next,
                count: self.passed,
            };
        }
        if self.due.next.intended_ns < limit_ns {
            let (skipped, next) = self.due.cursor.skip_before(limit_ns);
            self.due.next = next;
            self.due.count += 1 + skipped;
        }
        self.due.count - self.passed
    }
}

#[cfg(test)]
mod tests {
    use dyno_core::schedule::Arrivals;

    use super::*;

    #[test]
    fn what_was_taken_and_what_has_not_started_are_all_that_was_due() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let schedule = Arc::new(ArrivalSchedule::parse("1000", arrivals, 3).unwrap());
            let all = ArrivalCursor::new(Arc::clone(&schedule), 1, 2);
            let (start_ns, second_ns) = (5_000_000_000, 1_000_000_000);
            let part = Part {
                worker: 1,
                workers: 2,
                stream: 0,
                base: 0,
                bounds_ns: (start_ns, start_ns + second_ns),
            };
            let mut open = OpenLoop::new(&schedule, &part, None);
            for (now_ms, taken) in [
                (0, 0),
                (100, 0),
                (200, 50),
                (300, 200),
                (300, 0),
                (2_000, 100),
                (2_000, 400),
            ] {
                let now = start_ns + now_ms * 1_000_000;
                for _ in 0..taken {
                    if open.next_release().is_some_and(|release| release <= now) {
                        open.take(now).unwrap();
                    }
                }
                let limit_ns = (now_ms * 1_000_000).min(second_ns);
                let due = all.clone().take_while(|arrival| arrival.intended_ns < limit_ns).count() as u64;
                // What was just taken may be due at this very moment.
                let planned = open.not_started(now + 1) + open.passed();
                assert!(
                    (due..=due + 1).contains(&planned),
                    "{arrivals:?} {now_ms}: {planned}, {due}"
                );
            }
            assert_eq!(open.not_started(u64::MAX), 0);
        }
    }
}
