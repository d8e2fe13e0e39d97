//! Recorded load: each connection has operations of its own, which are due at their recorded times, one after the other.
//!
//! A load plays a part of the recording: the stream of its timeline is the place where it begins, in milliseconds. After
//! its end the recording begins again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::recorder::NextOperation;

const STREAM_UNIT_NS: u64 = 1_000_000;

/// One recorded operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordedOperation {
    /// When it is due, since the beginning of the recording, ns.
    pub due_ns: u64,
    /// From when on its connection may start it, ns: later than it is due where another session still has the connection.
    pub release_ns: u64,
    /// Its number, which the session knows.
    pub number: u64,
}

/// What every connection of a load does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// The operations of each connection, in the order in which they may start.
    pub connections: Vec<Vec<RecordedOperation>>,
    /// The length of the recording, ns; longer than any time at which an operation may start.
    pub length_ns: u64,
}

/// The recorded operations of one worker's connections.
#[derive(Debug)]
pub struct Recorded {
    recording: Arc<Recording>,
    worker: usize,
    workers: usize,
    /// When the next operation of a connection that is free may start, and the connection's index in the worker.
    free: BinaryHeap<Reverse<(u64, usize)>>,
    /// For each connection the place of its next operation, counted on over repetitions of the recording.
    next: Vec<u64>,
    /// When the load began, and at which place of the recording, ns.
    begin_ns: u64,
    place_ns: u64,
    end_ns: u64,
    passed: u64,
    is_started: bool,
}

impl Recorded {
    /// The connections `worker`, `worker + workers`, …
    pub fn new(recording: Arc<Recording>, worker: usize, workers: usize) -> Self {
        Self {
            recording,
            worker,
            workers,
            free: BinaryHeap::new(),
            next: Vec::new(),
            begin_ns: 0,
            place_ns: 0,
            end_ns: 0,
            passed: 0,
            is_started: false,
        }
    }

    /// Makes the next phase begin at a place of its own.
    pub fn restart(&mut self) {
        self.is_started = false;
    }

    /// Begins a phase that ends at `end_ns`: the first one at its stream's place, the others where the last has ended.
    pub fn enter(&mut self, stream: u32, start_ns: u64, end_ns: u64) {
        self.passed = 0;
        self.end_ns = end_ns;
        if self.is_started {
            return;
        }
        self.is_started = true;
        (self.begin_ns, self.place_ns) = (start_ns, u64::from(stream) * STREAM_UNIT_NS);
        self.free.clear();
        self.next = self
            .own()
            .map(|operations| self.before(operations, self.place_ns))
            .collect();
        for index in 0..self.next.len() {
            self.go_on(index);
        }
    }

    /// The operations of each of this worker's connections.
    fn own(&self) -> impl Iterator<Item = &Vec<RecordedOperation>> {
        let all = self.recording.connections.iter();
        all.skip(self.worker).step_by(self.workers)
    }

    /// How many of a connection's operations may start before a place of the recording, over its repetitions.
    fn before(&self, operations: &[RecordedOperation], place_ns: u64) -> u64 {
        let length_ns = self.recording.length_ns.max(1);
        let (repetition, within_ns) = (place_ns / length_ns, place_ns % length_ns);
        let of_last = operations.partition_point(|one| one.release_ns < within_ns);
        repetition * operations.len() as u64 + of_last as u64
    }

    /// The connection is free: its next operation may start when it is due.
    pub fn go_on(&mut self, index: usize) {
        if let Some(next) = self.operation(index, self.next[index]) {
            self.free.push(Reverse((next.release_ns, index)));
        }
    }

    /// An operation of a connection by its place, with its times in this load.
    fn operation(&self, index: usize, place: u64) -> Option<NextOperation> {
        let operations = self.recording.connections.get(self.worker + index * self.workers)?;
        let count = operations.len() as u64;
        let one = operations.get(place.checked_rem(count)? as usize)?;
        let earlier_ns = (place / count).saturating_mul(self.recording.length_ns);
        let in_load = |at_ns: u64| {
            let since_begin_ns = earlier_ns.saturating_add(at_ns).saturating_sub(self.place_ns);
            self.begin_ns.saturating_add(since_begin_ns)
        };
        Some(NextOperation {
            number: one.number,
            intended_ns: in_load(one.due_ns),
            release_ns: in_load(one.release_ns),
        })
    }

    /// When the next may start whose connection is free; `None` when there is none in this phase.
    #[inline]
    pub fn next_release(&self) -> Option<u64> {
        let Reverse((release_ns, _)) = self.free.peek()?;
        (*release_ns < self.end_ns).then_some(*release_ns)
    }

    /// Takes the next, with the index of its connection; [`Self::go_on`] follows when it has ended.
    pub fn take(&mut self) -> Option<(NextOperation, usize)> {
        self.next_release()?;
        let Reverse((_, index)) = self.free.pop()?;
        let next = self.operation(index, self.next[index])?;
        self.next[index] += 1;
        self.passed += 1;
        Some((next, index))
    }

    /// Operations of this phase that were taken.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Operations that could have started in this phase by `now`, and have not.
    pub fn not_started(&self, now: u64) -> u64 {
        let since_begin_ns = self.end_ns.min(now).saturating_sub(self.begin_ns);
        let place_ns = self.place_ns.saturating_add(since_begin_ns);
        self.own()
            .zip(&self.next)
            .map(|(operations, next)| self.before(operations, place_ns).saturating_sub(*next))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connection 0 is due at 1, 4 and 5 ms, connection 1 at 2 ms; 10 ms in all.
    fn recorded() -> Recorded {
        let operations = |all: &[(u64, u64)]| {
            let one = |(at_ms, number): &(u64, u64)| RecordedOperation {
                due_ns: at_ms * STREAM_UNIT_NS,
                release_ns: at_ms * STREAM_UNIT_NS,
                number: *number,
            };
            all.iter().map(one).collect()
        };
        let recording = Recording {
            connections: vec![operations(&[(1, 10), (4, 11), (5, 12)]), operations(&[(2, 20)]), vec![]],
            length_ns: 10 * STREAM_UNIT_NS,
        };
        Recorded::new(Arc::new(recording), 0, 1)
    }

    fn play(recorded: &mut Recorded) -> Vec<(u64, u64, usize)> {
        std::iter::from_fn(|| {
            let (next, index) = recorded.take()?;
            recorded.go_on(index);
            Some((next.intended_ns / STREAM_UNIT_NS, next.number, index))
        })
        .collect()
    }

    #[test]
    fn a_load_plays_its_part_and_the_next_goes_on_where_it_ended() {
        let mut recorded = recorded();
        recorded.enter(0, 100 * STREAM_UNIT_NS, 104 * STREAM_UNIT_NS);
        assert_eq!(recorded.not_started(u64::MAX), 2);
        assert_eq!(play(&mut recorded), [(101, 10, 0), (102, 20, 1)]);
        recorded.enter(0, 104 * STREAM_UNIT_NS, 105 * STREAM_UNIT_NS);
        assert_eq!(play(&mut recorded), [(104, 11, 0)], "the next phase");
        recorded.restart();
        recorded.enter(5, 200 * STREAM_UNIT_NS, 208 * STREAM_UNIT_NS);
        assert_eq!(
            play(&mut recorded),
            [(200, 12, 0), (206, 10, 0), (207, 20, 1)],
            "the next load, over the end of the recording"
        );
        recorded.restart();
        recorded.enter(23, 300 * STREAM_UNIT_NS, 302 * STREAM_UNIT_NS);
        assert_eq!(play(&mut recorded), [(301, 11, 0)], "the third repetition");
    }

    #[test]
    fn an_operation_waits_for_the_one_before_it_on_its_connection() {
        let mut recorded = recorded();
        recorded.enter(4, 0, 10 * STREAM_UNIT_NS);
        let (first, index) = recorded.take().unwrap();
        assert_eq!(
            (first.number, recorded.next_release()),
            (11, Some(8 * STREAM_UNIT_NS)),
            "of connection 1"
        );
        assert_eq!(recorded.not_started(7 * STREAM_UNIT_NS), 1);
        recorded.go_on(index);
        assert_eq!(
            recorded.next_release(),
            Some(STREAM_UNIT_NS),
            "it is late by then, and still due at its time"
        );
        assert_eq!(recorded.passed(), 1);
    }

    #[test]
    fn an_operation_of_a_session_that_waits_for_a_connection_is_late_and_not_in_an_earlier_part() {
        let one = |due_ms: u64, release_ms: u64, number| RecordedOperation {
            due_ns: due_ms * STREAM_UNIT_NS,
            release_ns: release_ms * STREAM_UNIT_NS,
            number,
        };
        let recording = Recording {
            connections: vec![vec![one(1, 1, 10), one(6, 6, 11), one(3, 7, 20)]],
            length_ns: 10 * STREAM_UNIT_NS,
        };
        let mut recorded = Recorded::new(Arc::new(recording), 0, 1);
        recorded.enter(0, 0, 5 * STREAM_UNIT_NS);
        assert_eq!(recorded.not_started(u64::MAX), 1);
        recorded.restart();
        recorded.enter(5, 100 * STREAM_UNIT_NS, 105 * STREAM_UNIT_NS);
        assert_eq!(recorded.not_started(u64::MAX), 2);
        assert_eq!(
            play(&mut recorded),
            [(101, 11, 0), (100, 20, 0)],
            "due before this part"
        );
    }

    #[test]
    fn a_long_backlog_of_a_short_recording_is_counted_at_once() {
        let recording = Recording {
            connections: vec![vec![RecordedOperation::default()]],
            length_ns: 1,
        };
        let mut recorded = Recorded::new(Arc::new(recording), 0, 1);
        recorded.enter(0, 0, u64::MAX);
        assert_eq!(recorded.not_started(u64::MAX), u64::MAX);
        assert!(recorded.take().is_some());
        assert_eq!(recorded.not_started(u64::MAX), u64::MAX - 1);
    }
}
