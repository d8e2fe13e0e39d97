//! The terminals of TPC-C with key and think times: each is due at a time of its own, whatever connection then serves it.
//!
//! A terminal between two transactions is 16 bytes in a heap, so their number costs next to nothing; connections are as
//! many as the server is to have, as with the transaction monitor of clause 2.1.8.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dyno_core::operation;

use super::feed::Next;
use crate::tpcc::Plan;

/// One worker's terminals.
#[derive(Debug)]
pub struct Terminals {
    plan: Plan,
    /// Due time and operation, the earliest first.
    waiting: BinaryHeap<Reverse<(u64, u64)>>,
    worker: u32,
    workers: u32,
    end_ns: u64,
    is_started: bool,
}

impl Terminals {
    /// The terminals `worker`, `worker + workers`, …
    pub fn new(plan: Plan, worker: u32, workers: u32) -> Self {
        Self {
            waiting: BinaryHeap::with_capacity(plan.terminals.div_ceil(workers) as usize),
            plan,
            worker,
            workers,
            end_ns: 0,
            is_started: false,
        }
    }

    /// Has the next phase start all terminals anew.
    pub fn restart(&mut self) {
        self.is_started = false;
    }

    /// Begins a phase that ends at `end_ns`; terminals go on as they are, the first phase starts them.
    pub fn enter(&mut self, stream: u32, start_ns: u64, end_ns: u64) {
        if !self.is_started {
            self.is_started = true;
            let first = |terminal: u32| {
                let number = operation::base(stream, true) + u64::from(terminal);
                Reverse((start_ns + self.plan.first_due_ns(number), number))
            };
            self.waiting = (self.worker..self.plan.terminals)
                .step_by(self.workers as usize)
                .map(first)
                .collect();
        }
        self.end_ns = end_ns;
    }

    /// When the next is due; `None` when none is in this phase.
    #[inline]
    pub fn next_due(&self) -> Option<u64> {
        let Reverse((due, _)) = self.waiting.peek()?;
        (*due < self.end_ns).then_some(*due)
    }

    /// Takes the next.
    #[inline]
    pub fn take(&mut self) -> Option<Next> {
        self.next_due()?;
        let Reverse((intended_ns, number)) = self.waiting.pop()?;
        Some(Next {
            number,
            intended_ns,
            release_ns: intended_ns,
        })
    }

    /// A terminal has its answer: it thinks, keys in its next transaction, and is due then.
    #[inline]
    pub fn ended(&mut self, number: u64, now_ns: u64) {
        let next = number + u64::from(self.plan.terminals);
        let due_ns = now_ns + self.plan.think_ns(number) + self.plan.key_ns(next);
        self.waiting.push(Reverse((due_ns, next)));
    }

    /// Those due in this phase by `now` that have not started.
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
    use crate::tpcc::{Home, StockLevel};

    const SECOND: u64 = 1_000_000_000;

    fn plan(terminals: u32) -> Plan {
        Plan {
            warehouses: 10,
            terminals,
            key_and_think_times: true,
            time_factor: 1.0,
            home: Home::Fixed,
            stock_level: StockLevel::PerItem,
            pipelining: false,
            stored_procedures: false,
            nurand_constants: Plan::constants(1),
            seed: 1,
        }
    }

    /// With answers that take no time, terminals make the 12.86 New-Orders a minute and ten terminals of the standard.
    #[test]
    fn terminals_keep_the_pace_of_the_standard() {
        let plan = plan(1000);
        let mut terminals = Terminals::new(plan.clone(), 0, 1);
        terminals.enter(0, 0, 1200 * SECOND);
        let mut new_orders = 0;
        while let Some(next) = terminals.take() {
            if next.intended_ns > 600 * SECOND && plan.kind(next.number) == crate::tpcc::Kind::NewOrder {
                new_orders += 1;
            }
            terminals.ended(next.number, next.intended_ns);
        }
        let per_warehouse = f64::from(new_orders) / 10.0 / 100.0;
        assert!((per_warehouse - 12.86).abs() < 0.4, "{per_warehouse}");
    }

    #[test]
    fn workers_share_the_terminals_without_a_rest() {
        let mut seen = Vec::new();
        for worker in 0..3 {
            let mut terminals = Terminals::new(plan(100), worker, 3);
            terminals.enter(0, 0, u64::MAX);
            while let Some(next) = terminals.take() {
                seen.push(next.number);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<u64>>());
    }

    #[test]
    fn terminals_of_a_stream_are_the_same_again_and_others_in_another() {
        let mut terminals = Terminals::new(plan(100), 0, 1);
        let mut slice = |stream| {
            terminals.restart();
            terminals.enter(stream, 5 * SECOND, 30 * SECOND);
            let mut seen = Vec::new();
            while let Some(next) = terminals.take() {
                seen.push((next.number, next.intended_ns));
                terminals.ended(next.number, next.intended_ns);
            }
            seen
        };
        let first = slice(7);
        assert!(first.len() > 50, "{}", first.len());
        let other = slice(8);
        assert_eq!(slice(7), first);
        let due = |seen: &[(u64, u64)]| seen.iter().map(|(_, due)| *due).collect::<Vec<_>>();
        assert_ne!(due(&other), due(&first));
    }
}
