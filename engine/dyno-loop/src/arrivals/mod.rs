//! When a worker's operations arrive: the schedule of an open loop, terminals, or the loop of each connection.
//!
//! Operation numbers are the same for any number of workers. Warm-up and each stream of slices have numbers of their own,
//! so that a measurement has the same operations whatever came before it.

mod open;
mod recorded;
mod terminals;

pub use recorded::{RecordedOperation, Recording};
pub use terminals::{NoTerminals, TerminalCycle, Terminals};

use std::sync::Arc;

use dyno_core::random;
use dyno_core::schedule::ArrivalSchedule;

use super::report::End;
use super::settings::LoadShape;
use super::timeline::{Phase, Timeline};
use crate::recorder::NextOperation;
use open::{OpenLoop, Part};
use recorded::Recorded;

/// The arrivals of one worker.
#[derive(Debug)]
pub struct Arrivals<T> {
    schedule: Option<Arc<ArrivalSchedule>>,
    open: Option<OpenLoop>,
    catch_up: Option<f64>,
    /// Terminals with key and think times; none in every other loop.
    terminals: Option<Terminals<T>>,
    /// A recorded load; none in every other.
    recorded: Option<Recorded>,
    worker: u64,
    workers: u64,
    connections: u64,
    /// Number of the phase's first operation.
    base: u64,
    /// Operations that each connection has begun in this phase, by its index in the worker.
    begun: Vec<u64>,
}

impl<T: TerminalCycle> Arrivals<T> {
    /// The arrivals of worker `worker`.
    pub fn new(shape: &LoadShape, cycle: Option<T>, recording: Option<Arc<Recording>>, worker: u64) -> Self {
        let connections = u64::from(shape.connections);
        let workers = u64::from(shape.threads);
        Self {
            schedule: shape.schedule.clone(),
            open: None,
            catch_up: shape.catch_up,
            terminals: cycle.map(|cycle| Terminals::new(cycle, worker as u32, shape.threads)),
            recorded: recording.map(|recording| Recorded::new(recording, worker as usize, shape.threads as usize)),
            worker,
            workers,
            connections,
            base: random::first_number(0, false),
            begun: vec![0; connections.div_ceil(workers) as usize],
        }
    }

    /// Prepares for another load: terminals start anew, and a recorded load at its stream's place.
    pub fn restart(&mut self) {
        if let Some(recorded) = &mut self.recorded {
            recorded.restart();
        }
        if let Some(terminals) = &mut self.terminals {
            terminals.restart();
        }
    }

    /// Begins a phase: the schedule starts anew, without what was left of the last phase.
    pub fn enter(&mut self, phase: Phase, timeline: &Timeline) {
        self.base = random::first_number(timeline.stream, phase != Phase::Warmup);
        self.begun.fill(0);
        let bounds_ns = timeline.bounds(phase);
        if let Some(recorded) = &mut self.recorded {
            recorded.enter(timeline.stream, bounds_ns.0, bounds_ns.1);
        }
        if let Some(terminals) = &mut self.terminals {
            terminals.enter(timeline.stream, bounds_ns.0, bounds_ns.1);
        }
        if let Some(schedule) = &self.schedule {
            let part = Part {
                worker: self.worker,
                workers: self.workers,
                stream: timeline.stream,
                base: self.base,
                bounds_ns,
            };
            let of_slice = timeline.rate_per_ks.map(|rate| schedule.at_rate(rate as f64 / 1e3));
            self.open = Some(match of_slice {
                Some(Ok(of_slice)) => OpenLoop::new(&Arc::new(of_slice), &part, self.catch_up),
                _ => OpenLoop::new(schedule, &part, self.catch_up),
            });
        }
    }

    /// Whether operations are due at times of their own, and wait for a free connection.
    pub fn is_timed(&self) -> bool {
        self.schedule.is_some() || self.terminals.is_some() || self.recorded.is_some()
    }

    /// Whether each operation has a connection of its own, and a time.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Takes the next recorded operation whose connection is free, with the connection's index in the worker.
    pub fn take_recorded(&mut self) -> Option<(NextOperation, usize)> {
        self.recorded.as_mut()?.take()
    }

    /// A connection of a recorded load is free again.
    pub fn go_on(&mut self, index: usize) {
        if let Some(recorded) = &mut self.recorded {
            recorded.go_on(index);
        }
    }

    /// From when on the next planned operation may start; `None` when there is none in this phase.
    #[inline]
    pub fn next_release(&self) -> Option<u64> {
        if let Some(recorded) = &self.recorded {
            return recorded.next_release();
        }
        if let Some(terminals) = &self.terminals {
            return terminals.next_due();
        }
        self.open.as_ref()?.next_release()
    }

    /// Takes the next planned operation, which starts now.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<NextOperation> {
        if let Some(terminals) = &mut self.terminals {
            return terminals.take();
        }
        self.open.as_mut()?.take(now)
    }

    /// An operation has ended, or was dropped: its terminal goes on.
    #[inline]
    pub fn ended(&mut self, number: u64, now_ns: u64) {
        if let Some(terminals) = &mut self.terminals {
            terminals.ended(number, now_ns);
        }
    }

    /// The next operation of a connection's own loop; `index` is the connection's index in the worker.
    #[inline]
    pub fn take_for(&mut self, index: usize, connection: u32, intended_ns: u64) -> NextOperation {
        let number = self.begun[index] * self.connections + u64::from(connection) + self.base;
        self.begun[index] += 1;
        NextOperation {
            number,
            intended_ns,
            release_ns: intended_ns,
        }
    }

    /// Operations that this worker had in this phase up to `now`, started or not.
    pub fn planned(&mut self, now: u64) -> u64 {
        self.passed() + self.not_started(now)
    }

    /// Operations among those planned that were taken.
    fn passed(&self) -> u64 {
        if let Some(recorded) = &self.recorded {
            return recorded.passed();
        }
        if let Some(terminals) = &self.terminals {
            return terminals.passed();
        }
        self.open.as_ref().map_or(0, OpenLoop::passed)
    }

    /// Operations among those planned that have not started.
    pub fn not_started(&mut self, now: u64) -> u64 {
        if let Some(recorded) = &self.recorded {
            return recorded.not_started(now);
        }
        if let Some(terminals) = &self.terminals {
            return terminals.not_started(now);
        }
        self.open.as_mut().map_or(0, |open| open.not_started(now))
    }

    /// The end of a load, with what was planned: the whole measurement after its stop, else what was due by now.
    pub fn account(&mut self, end: End, phase: Phase, now: u64) -> End {
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
}

#[cfg(test)]
mod tests {
    use dyno_core::schedule::Arrivals as Kind;

    use super::*;

    const MS: u64 = 1_000_000;

    fn shape(rate: &str, threads: u32) -> LoadShape {
        LoadShape {
            threads,
            connections: 2 * threads,
            warmup_ns: 100 * MS,
            duration_ns: 1000 * MS,
            grace_ns: 100 * MS,
            interval_ns: 100 * MS,
            schedule: Some(Arc::new(ArrivalSchedule::parse(rate, Kind::Constant, 1).unwrap())),
            catch_up: None,
            slowest: 0,
            has_terminals: false,
        }
    }

    fn open_loop(shape: &LoadShape) -> Vec<Arrivals<NoTerminals>> {
        (0..u64::from(shape.threads))
            .map(|worker| Arrivals::new(shape, None, None, worker))
            .collect()
    }

    /// Takes what is due by `now`, at most so many.
    fn take(arrivals: &mut Arrivals<NoTerminals>, now: u64, most: usize) -> Vec<NextOperation> {
        std::iter::from_fn(|| {
            let is_due = arrivals.next_release().is_some_and(|release| release <= now);
            is_due.then(|| arrivals.take(now)).flatten()
        })
        .take(most)
        .collect()
    }

    #[test]
    fn what_a_stalled_server_leaves_of_the_plan_is_accounted_for_whenever_the_load_ends() {
        let shape = shape("1000", 2);
        let timeline = Timeline::new(5000 * MS, &shape);
        for worker in &mut open_loop(&shape) {
            worker.enter(Phase::Warmup, &timeline);
            // The backlog of the warm-up is not the measurement's: it takes none of its operations.
            let of_warmup = worker.account(End::default(), Phase::Warmup, timeline.start_ns + 50 * MS);
            assert_eq!(of_warmup, End::default());
            worker.enter(Phase::Measure, &timeline);
            let (stalled_ns, later_ns) = (timeline.measure_ns + 400 * MS - 1, timeline.measure_ns + 600 * MS);
            assert_eq!(take(worker, stalled_ns, usize::MAX).len(), 200);
            // No slot is free for 200 ms, and then for 50 operations.
            assert_eq!((worker.planned(later_ns), worker.not_started(later_ns)), (300, 100));
            let caught_up = take(worker, later_ns, 50);
            let intended_ns: Vec<u64> = caught_up.iter().map(|next| next.intended_ns).collect();
            assert!(intended_ns.is_sorted() && intended_ns[0] > stalled_ns && intended_ns[49] < later_ns - 90 * MS);
            let interrupted = worker.account(End::default(), Phase::Measure, later_ns);
            assert_eq!((interrupted.planned, interrupted.not_started), (300, 50));
            // After the stop the whole plan was due.
            let drained = worker.account(End::default(), Phase::Drain, timeline.stop_ns + 50 * MS);
            assert_eq!((worker.planned(u64::MAX), drained.not_started), (500, 250));
        }
    }
}
