//! The worker's part that starts operations.

use std::cmp::Reverse;

use dyno_core::clock::now_ns;
use dyno_core::random::{Domain, RandomStream, WARMUP_BIT};

use super::{LinkState, Worker};
use crate::recorder::errors::Failure;
use crate::recorder::{NextOperation, Operation};
use crate::session::{Session, SlotState};
use crate::settings::Think;
use crate::timeline::Phase;

impl<S: Session> Worker<S> {
    /// Starts every operation that is due and has a free slot, and what timers are set for.
    #[inline]
    pub(super) fn start_due(&mut self, now: u64) -> Result<(), Failure> {
        while let Some(Reverse((due, index))) = self.timers.peek().copied() {
            if due > now {
                break;
            }
            self.timers.pop();
            self.timer_fired(index as usize, due, now)?;
        }
        if self.tally.is_timed {
            self.start_planned(now)
        } else if self.tally.intervals.phase == Phase::Drain {
            Ok(())
        } else {
            self.start_idle(now)
        }
    }

    /// Starts the next operation of every free slot.
    fn start_idle(&mut self, now: u64) -> Result<(), Failure> {
        while let Some(index) = self.idle.pop_front() {
            self.start_next(index as usize, now, now)?;
            // The last slot of a connection sends for all.
            if self.idle.front() != Some(&index) {
                self.flush(index as usize)?;
            }
        }
        Ok(())
    }

    /// Starts planned operations. The rest of the schedule is also started while the load drains, since it counts.
    fn start_planned(&mut self, now: u64) -> Result<(), Failure> {
        if self.arrivals.is_recorded() {
            return self.start_recorded(now);
        }
        while !self.idle.is_empty() && self.arrivals.next_release().is_some_and(|release| release <= now) {
            let (Some(next), Some(index)) = (self.arrivals.take(now), self.idle.pop_front()) else {
                break;
            };
            if self.drops(&next, now)? {
                self.idle.push_front(index);
                self.arrivals.ended(next.number, now);
                continue;
            }
            self.start(index as usize, next, now_ns())?;
            self.flush(index as usize)?;
        }
        Ok(())
    }

    /// The same of recorded operations, each on its connection.
    fn start_recorded(&mut self, now: u64) -> Result<(), Failure> {
        while self.arrivals.next_release().is_some_and(|release| release <= now) {
            let Some((next, index)) = self.arrivals.take_recorded() else {
                break;
            };
            if self.drops(&next, now)? {
                self.arrivals.go_on(index);
                continue;
            }
            self.start(index, next, now_ns())?;
            self.flush(index)?;
        }
        Ok(())
    }

    /// Whether an operation that would start only now is dropped.
    fn drops(&mut self, next: &NextOperation, now: u64) -> Result<bool, Failure> {
        let late_ns = now.saturating_sub(next.intended_ns);
        if !self.load.overload.drops(late_ns) {
            return Ok(false);
        }
        self.tally.recorder().counts.dropped_late += 1;
        match self.load.overload.failure(late_ns, S::OPERATION) {
            None => Ok(true),
            Some(failure) => Err(failure),
        }
    }

    fn timer_fired(&mut self, index: usize, due: u64, now: u64) -> Result<(), Failure> {
        match self.links[index].state {
            LinkState::Closed => self.open(index),
            LinkState::Ready if self.tally.intervals.phase != Phase::Drain => {
                self.start_next(index, due, now)?;
                self.flush(index)
            }
            _ => Ok(()),
        }
    }

    /// Whether a number of operations ends the run, and this one is beyond it.
    #[inline]
    fn is_beyond_limit(&self, number: u64) -> bool {
        let limit = self.load.limit.as_ref();
        limit.is_some_and(|limit| number & !WARMUP_BIT >= limit.operations)
    }

    /// Starts the next operation of a slot's own loop.
    #[inline]
    fn start_next(&mut self, index: usize, intended_ns: u64, now: u64) -> Result<(), Failure> {
        let next = self.arrivals.take_for(index, self.links[index].number, intended_ns);
        if self.is_beyond_limit(next.number) {
            self.retired += 1;
            return Ok(());
        }
        self.start(index, next, now)
    }

    /// Starts an operation: its first bytes are in the output. After one without a reply its slot goes on at once.
    #[inline]
    fn start(&mut self, index: usize, mut next: NextOperation, now: u64) -> Result<(), Failure> {
        loop {
            let link = &mut self.links[index];
            let operation = Operation {
                number: next.number,
                intended_ns: next.intended_ns,
                started_ns: now,
                measured: self.tally.is_measuring(),
            };
            if operation.measured && self.tally.has_intended_times {
                let free_ns = next.release_ns.max(link.idle_since_ns);
                self.tally.recorder().lag.record(now.saturating_sub(free_ns));
            }
            self.tally.in_flight += 1;
            let is_new = self.arrivals.is_recorded() && link.session.needs_new_connection(&self.shared, next.number);
            let is_ready = link.state == LinkState::Ready && !self.connects_each_time && !is_new;
            let may_follow = match link.session.start(&mut self.shared, operation, is_ready) {
                Ok(SlotState::Busy) if is_new && link.state == LinkState::Ready => {
                    link.state = LinkState::Closed;
                    link.begins_session = true;
                    self.close(index);
                    return self.open(index);
                }
                Ok(SlotState::Busy) => break,
                Ok(SlotState::Free { may_follow }) => may_follow,
                Err(stop) => return self.stopped(index, stop),
            };
            let goes_on = may_follow && !self.tally.has_intended_times;
            if goes_on {
                next = self.arrivals.take_for(index, self.links[index].number, now);
            }
            if !goes_on || self.is_beyond_limit(next.number) {
                self.tally.in_flight += 1;
                self.links[index].session.request_reply(now);
                return Ok(());
            }
        }
        if self.connects_each_time && self.links[index].state == LinkState::Ready {
            return self.open(index);
        }
        Ok(())
    }

    /// A slot of a connection is free: the next operation takes it.
    #[inline]
    pub(super) fn slot_is_free(&mut self, index: usize, number: u64, now: u64) -> Result<(), Failure> {
        self.arrivals.ended(number, now);
        let link = &mut self.links[index];
        link.idle_since_ns = now;
        if self.connects_each_time {
            link.state = LinkState::Ready;
            self.close(index);
        }
        if self.arrivals.is_recorded() {
            self.arrivals.go_on(index);
            return self.start_due(now_ns());
        }
        if self.tally.is_timed {
            self.idle.push_back(index as u32);
            // By a clock of its own: the answer was read with a batch of others, and what is due since then must not wait.
            return self.start_due(now_ns());
        }
        // A pause that begins in the drain goes on in the next slice.
        let pause_ns = self.pause_ns(number);
        if pause_ns > 0 {
            self.timers.push(Reverse((now + pause_ns, index as u32)));
            return Ok(());
        }
        if self.tally.intervals.phase == Phase::Drain {
            return Ok(());
        }
        self.start_next(index, now, now)
    }

    /// The pause after an operation.
    #[inline]
    fn pause_ns(&self, number: u64) -> u64 {
        match self.load.think {
            Think::No => 0,
            Think::Constant { pause_ns } => pause_ns,
            Think::Exponential { mean_ns } => {
                let mut stream = RandomStream::of(self.load.seed, Domain::Think, number);
                (stream.next_exponential() * mean_ns as f64) as u64
            }
        }
    }
}
