//! Terminals with key and think times: each has its own due time, whatever connection then serves it.
//!
//! A terminal between two operations is 16 bytes in a heap, so their number costs next to nothing; there are as many
//! connections as the server is meant to have, as with the transaction monitor of TPC-C's clause 2.1.8.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dyno_core::random;

use crate::recorder::NextOperation;

/// The times that terminals take between their operations.
pub trait TerminalCycle: std::fmt::Debug {
    /// Number of terminals.
    fn terminals(&self) -> u32;

    /// When a terminal's first operation, `number`, is due after the start of the load.
    fn first_due_ns(&self, number: u64) -> u64;

    /// The time to key in operation `number`.
    fn key_ns(&self, number: u64) -> u64;

    /// The time to think after operation `number`.
    fn think_ns(&self, number: u64) -> u64;
}

/// The cycle of a workload without terminals; has no value.
#[derive(Debug, Clone, Copy)]
pub enum NoTerminals {}

impl TerminalCycle for NoTerminals {
    fn terminals(&self) -> u32 {
        match *self {}
    }

    fn first_due_ns(&self, _: u64) -> u64 {
        match *self {}
    }

    fn key_ns(&self, _: u64) -> u64 {
        match *self {}
    }

    fn think_ns(&self, _: u64) -> u64 {
        match *self {}
    }
}

/// One worker's terminals.
#[derive(Debug)]
pub struct Terminals<T> {
    cycle: T,
    /// Due time and operation, the earliest first.
    waiting: BinaryHeap<Reverse<(u64, u64)>>,
    worker: u32,
    workers: u32,
    end_ns: u64,
    passed: u64,
    is_started: bool,
}

impl<T: TerminalCycle> Terminals<T> {
    /// The terminals `worker`, `worker + workers`, …
    pub fn new(cycle: T, worker: u32, workers: u32) -> Self {
        Self {
            waiting: BinaryHeap::with_capacity(cycle.terminals().div_ceil(workers) as usize),
            cycle,
            worker,
            workers,
            end_ns: 0,
            passed: 0,
            is_started: false,
        }
    }

    /// Makes the next phase start all terminals anew.
    pub fn restart(&mut self) {
        self.is_started = false;
    }

    /// Begins a phase that ends at `end_ns`; terminals go on as they are, the first phase starts them.
    pub fn enter(&mut self, stream: u32, start_ns: u64, end_ns: u64) {
        if !self.is_started {
            self.is_started = true;
            let first = |terminal: u32| {
                let number = random::first_number(stream, true) + u64::from(terminal);
                Reverse((start_ns + self.cycle.first_due_ns(number), number))
            };
            self.waiting = (self.worker..self.cycle.terminals())
                .step_by(self.workers as usize)
                .map(first)
                .collect();
        }
        self.end_ns = end_ns;
        self.passed = 0;
    }

    /// When the next is due; `None` when none is in this phase.
    #[inline]
    pub fn next_due(&self) -> Option<u64> {
        let Reverse((due, _)) = self.waiting.peek()?;
        (*due < self.end_ns).then_some(*due)
    }

    /// Takes the next.
    #[inline]
    pub fn take(&mut self) -> Option<NextOperation> {
        self.next_due()?;
        let Reverse((intended_ns, number)) = self.waiting.pop()?;
        self.passed += 1;
        Some(NextOperation {
            number,
            intended_ns,
            release_ns: intended_ns,
        })
    }

    /// A terminal's operation has ended or was dropped: it thinks, keys in its next transaction, and is due then.
    #[inline]
    pub fn ended(&mut self, number: u64, now_ns: u64) {
        let next = number + u64::from(self.cycle.terminals());
        let due_ns = now_ns + self.cycle.think_ns(number) + self.cycle.key_ns(next);
        self.waiting.push(Reverse((due_ns, next)));
    }

    /// Operations that were taken in this phase, also those due before it.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Operations due in this phase by `now` that have not started.
    pub fn not_started(&self, now: u64) -> u64 {
        self.waiting
            .iter()
            .filter(|Reverse((due, _))| *due < self.end_ns.min(now))
            .count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Due at 0, and 10 ns after each operation.
    #[derive(Debug)]
    struct Cycle;

    impl TerminalCycle for Cycle {
        fn terminals(&self) -> u32 {
            3
        }

        fn first_due_ns(&self, _: u64) -> u64 {
            0
        }

        fn key_ns(&self, _: u64) -> u64 {
            4
        }

        fn think_ns(&self, _: u64) -> u64 {
            6
        }
    }

    #[test]
    fn what_was_taken_and_what_has_not_started_are_all_that_was_due_in_the_phase() {
        let mut terminals = Terminals::new(Cycle, 0, 1);
        terminals.enter(0, 100, 200);
        let counts = |terminals: &Terminals<Cycle>| (terminals.passed(), terminals.not_started(u64::MAX));
        assert_eq!(counts(&terminals), (0, 3));
        let first = terminals.take().unwrap();
        terminals.take().unwrap();
        terminals.ended(first.number, 130);
        assert_eq!(
            terminals.not_started(140),
            1,
            "the next of the first terminal is due at 140"
        );
        assert_eq!(counts(&terminals), (2, 2));
        // What the warm-up has not started belongs to the measurement.
        terminals.enter(0, 200, 300);
        assert_eq!(counts(&terminals), (0, 2));
        let next = terminals.take().unwrap();
        terminals.ended(next.number, 290);
        assert_eq!(counts(&terminals), (1, 1), "due at 300, after the end");
    }
}
