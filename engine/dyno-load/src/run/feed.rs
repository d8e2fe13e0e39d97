//! Where a worker's transactions come from: the plan of an open loop, or the loop of each connection.
//!
//! Operation numbers are the same for any number of workers. Warm-up and each stream of slices have numbers of their own, so
//! that a measurement has the same operations whatever came before it.

use std::sync::Arc;

use dyno_core::operation;
use dyno_core::schedule::{Arrival, ArrivalCursor, Plan};

use super::crew::End;
use super::settings::Pace;
use super::terminals::Terminals;
use super::timeline::{Phase, Timeline};

/// A transaction that is to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// The operation's number.
    pub number: u64,
    /// When it is due.
    pub intended_ns: u64,
    /// From when on it may start: later than due where catching up is bounded.
    pub release_ns: u64,
}

/// A worker's share of the plan.
#[derive(Debug)]
struct Planned {
    cursor: ArrivalCursor,
    next: Arrival,
    start_ns: u64,
    end_ns: u64,
    passed: u64,
    /// Catching up starts transactions at most this many times as fast as the plan; none: as fast as they can.
    catch_up: Option<f64>,
    /// From when on the next may start.
    release_ns: u64,
}

impl Planned {
    fn due_ns(&self) -> u64 {
        self.start_ns + self.next.intended_ns
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
}

/// One worker's source of transactions.
#[derive(Debug)]
pub struct Feed {
    plan: Option<Arc<Plan>>,
    planned: Option<Planned>,
    catch_up: Option<f64>,
    /// Terminals with key and think times; none in every other loop.
    terminals: Option<Terminals>,
    worker: u64,
    workers: u64,
    connections: u64,
    /// Number of the phase's first operation.
    base: u64,
    /// Transactions that each connection has begun in this phase, by its place in the worker.
    begun: Vec<u64>,
}

impl Feed {
    /// The source of worker `worker`.
    pub fn new(pace: &Pace, worker: u64) -> Self {
        let connections = u64::from(pace.connections);
        let workers = u64::from(pace.threads);
        Self {
            plan: pace.plan.clone(),
            planned: None,
            catch_up: pace.catch_up,
            terminals: pace
                .terminals
                .clone()
                .map(|plan| Terminals::new(plan, worker as u32, pace.threads)),
            worker,
            workers,
            connections,
            base: operation::base(0, false),
            begun: vec![0; connections.div_ceil(workers) as usize],
        }
    }

    /// Makes ready for a load of its own: terminals start anew.
    pub fn restart(&mut self) {
        if let Some(terminals) = &mut self.terminals {
            terminals.restart();
        }
    }

    /// Begins a phase: the plan starts anew, without what was left of the last.
    pub fn enter(&mut self, phase: Phase, timeline: &Timeline) {
        self.base = operation::base(timeline.stream, phase != Phase::Warmup);
        self.begun.fill(0);
        if let Some(terminals) = &mut self.terminals {
            let (start_ns, end_ns) = timeline.bounds(phase);
            terminals.enter(timeline.stream, start_ns, end_ns);
        }
        let Some(plan) = &self.plan else { return };
        let (start_ns, end_ns) = timeline.bounds(phase);
        let mut cursor = ArrivalCursor::of_stream(Arc::clone(plan), self.worker, self.workers, timeline.stream);
        let next = cursor.next_arrival();
        self.planned = Some(Planned {
            cursor,
            next,
            start_ns,
            end_ns,
            passed: 0,
            catch_up: self.catch_up,
            release_ns: start_ns + next.intended_ns,
        });
    }

    /// Whether transactions are due at times of their own, and wait for a free connection.
    pub fn is_open_loop(&self) -> bool {
        self.plan.is_some() || self.terminals.is_some()
    }

    /// From when on the next planned transaction may start; `None` when there is none in this phase.
    #[inline]
    pub fn next_release(&self) -> Option<u64> {
        if let Some(terminals) = &self.terminals {
            return terminals.next_due();
        }
        let planned = self.planned.as_ref()?;
        (planned.due_ns() < planned.end_ns).then_some(planned.release_ns)
    }

    /// Takes the next planned transaction, which starts now.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<Next> {
        if let Some(terminals) = &mut self.terminals {
            return terminals.take();
        }
        let release_ns = self.next_release()?;
        let planned = self.planned.as_mut()?;
        let number = planned.next.number + self.base;
        let intended_ns = planned.due_ns();
        planned.advance(intended_ns, now);
        Some(Next {
            number,
            intended_ns,
            release_ns,
        })
    }

    /// A transaction has ended: its terminal goes on.
    #[inline]
    pub fn ended(&mut self, number: u64, now_ns: u64) {
        if let Some(terminals) = &mut self.terminals {
            terminals.ended(number, now_ns);
        }
    }

    /// The next transaction of a connection's own loop; `place` is its place in the worker.
    #[inline]
    pub fn take_for(&mut self, place: usize, connection: u32, intended_ns: u64) -> Next {
        let number = self.begun[place] * self.connections + u64::from(connection) + self.base;
        self.begun[place] += 1;
        Next {
            number,
            intended_ns,
            release_ns: intended_ns,
        }
    }

    /// Transactions that the plan has for this worker in this phase, up to `now`, started or not.
    pub fn planned(&self, now: u64) -> u64 {
        self.planned.as_ref().map_or(0, |planned| planned.passed) + self.not_started(now)
    }

    /// A load that ends now, with what the plan had for it: all of the measurement after its stop, else what was due by now.
    pub fn account(&self, end: End, phase: Phase, now: u64) -> End {
        match phase {
            Phase::Warmup => end,
            Phase::Measure => End {
                planned: self.planned(now),
                not_started: self.not_started(now),
                ..end
            },
            Phase::Drain => End {
                not_started: self.not_started(u64::MAX),
                ..end
            },
        }
    }

    /// Those of them that are left.
    pub fn not_started(&self, now: u64) -> u64 {
        if let Some(terminals) = &self.terminals {
            return terminals.not_started(now);
        }
        let Some(planned) = &self.planned else { return 0 };
        let limit_ns = planned.end_ns.min(now).saturating_sub(planned.start_ns);
        if planned.next.intended_ns >= limit_ns {
            return 0;
        }
        1 + planned.cursor.count_before(limit_ns)
    }
}
