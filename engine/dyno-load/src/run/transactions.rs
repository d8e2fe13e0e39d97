//! The worker's part that starts, carries on, ends and restarts transactions.

use dyno_core::clock::now_ns;
use dyno_core::random::{Domain, RandomStream};
use dyno_mysql::{Done, ServerError};

use super::batch::Batched as _;
use super::client::{Loss, State};
use super::failure::Failure;
use super::feed::Next;
use super::settings::{Overload, Think};
use super::timeline::Phase;
use super::worker::Worker;
use crate::recorder::{client_code, Slow};
use crate::workload::StatementKind;

/// Pause before a lost connection is made again.
const RECONNECT_PAUSE_NS: u64 = 10_000_000;

/// The file of acknowledged orders cannot be written.
pub(super) fn acknowledgement_failed(error: std::io::Error) -> Failure {
    Failure::new(format!("--acknowledged: the file cannot be written: {error}"))
}

impl Worker {
    /// Starts every transaction that is due and has a free connection, and what timers ask for.
    pub(super) fn start_transactions(&mut self, now: u64) -> Result<(), Failure> {
        while let Some(std::cmp::Reverse((due, index))) = self.timers.peek().copied() {
            if due > now {
                break;
            }
            self.timers.pop();
            self.timer_fired(index as usize, due, now)?;
            self.flush(index as usize)?;
        }
        if self.intervals.phase == Phase::Drain {
            // What the plan still has from before the stop goes on: its response time counts.
            if !self.feed.is_open_loop() {
                return Ok(());
            }
        } else if !self.feed.is_open_loop() {
            while let Some(index) = self.idle.pop_front() {
                let index = index as usize;
                let next = self.feed.take_for(index, self.clients[index].number, now);
                self.start(index, next, now)?;
                self.flush(index)?;
            }
            return Ok(());
        }
        while !self.idle.is_empty() && self.feed.next_release().is_some_and(|release| release <= now) {
            let (Some(next), Some(index)) = (self.feed.take(now), self.idle.pop_front()) else {
                break;
            };
            if self.gives_up(&next, now)? {
                self.idle.push_front(index);
                continue;
            }
            self.start(index as usize, next, now_ns())?;
            self.flush(index as usize)?;
        }
        Ok(())
    }

    /// What the overload policy says of a transaction that starts only now; true when it is given up.
    fn gives_up(&mut self, next: &Next, now: u64) -> Result<bool, Failure> {
        let late_ns = now.saturating_sub(next.intended_ns);
        match self.settings.overload {
            Overload::DropLate { limit_ns } if late_ns > limit_ns => {
                self.intervals.recorder.counts.dropped_late += 1;
                Ok(true)
            }
            Overload::Abort { limit_ns } if late_ns > limit_ns => {
                self.intervals.recorder.counts.dropped_late += 1;
                Err(Failure::new(format!(
                    "the server does not keep up: a planned transaction was {:.1} ms late, the limit is {:.1} ms; \
                 lower --rate, or choose --overload queue",
                    late_ns as f64 / 1e6,
                    limit_ns as f64 / 1e6
                )))
            }
            _ => Ok(false),
        }
    }

    fn timer_fired(&mut self, index: usize, due: u64, now: u64) -> Result<(), Failure> {
        match self.clients[index].state {
            State::Thinking if self.intervals.phase == Phase::Drain => self.clients[index].state = State::Idle,
            State::Thinking => {
                let next = self.feed.take_for(index, self.clients[index].number, due);
                self.start(index, next, now)?;
            }
            State::Closed => self.open(index)?,
            _ => {}
        }
        Ok(())
    }

    /// Begins a transaction; its first statement is in the output, to be flushed.
    fn start(&mut self, index: usize, next: Next, now: u64) -> Result<(), Failure> {
        let client = &mut self.clients[index];
        client.begin(&self.settings.context, next.number);
        client.measured = self.intervals.phase == Phase::Measure
            || (self.intervals.phase == Phase::Drain && self.feed.is_open_loop());
        client.intended_ns = next.intended_ns;
        client.started_ns = now;
        if client.measured && (self.feed.is_open_loop() || self.settings.think != Think::No) {
            self.intervals
                .recorder
                .lag
                .record(now.saturating_sub(next.release_ns.max(client.idle_since_ns)));
        }
        client.active = true;
        self.in_flight += 1;
        if !matches!(client.state, State::Idle | State::Thinking) {
            // The connection is being made again; it takes the transaction up once it is there.
            return Ok(());
        }
        if self.settings.is_churn() {
            client.statement_ns = now;
            return self.open(index);
        }
        self.clients[index].state = State::Busy;
        self.send_next(index, now)
    }

    #[inline]
    fn send_next(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        let client = &mut self.clients[index];
        client.statement_ns = now;
        match client.send_next(&self.settings.context, &self.slots) {
            Ok(true) => Ok(()),
            Ok(false) => self.transaction_done(index, now),
            Err(loss) => self.lost(index, &loss),
        }
    }

    /// Counts a statement and goes on to the next.
    #[inline]
    pub(super) fn statement_done(&mut self, index: usize, now: u64, done: &Done) -> Result<(), Failure> {
        if done.more_results {
            // Of several results only the last is a statement's end.
            return Ok(());
        }
        let client = &mut self.clients[index];
        let service_ns = now.saturating_sub(client.statement_ns);
        let (kind, others) = client.answered(&self.settings.context);
        self.intervals
            .recorder
            .statement(kind, service_ns, done.columns, done.rows, done.affected_rows);
        if client.failing {
            return if others { Ok(()) } else { self.try_again(index, now) };
        }
        self.send_next(index, now)
    }

    #[inline]
    fn transaction_done(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        let client = &mut self.clients[index];
        let service_ns = now.saturating_sub(client.started_ns);
        let response_ns = now.saturating_sub(client.intended_ns);
        self.in_flight -= 1;
        client.idle_since_ns = now;
        client.state = State::Idle;
        client.active = false;
        let number = client.transaction.number();
        // A transaction of the warm-up's plan that ends in the measurement belongs to neither.
        if client.measured || self.intervals.phase == Phase::Warmup || !self.feed.is_open_loop() {
            self.intervals.recorder.counts.transactions += 1;
            self.intervals.recorder.service.record(service_ns);
            self.intervals.recorder.response.record(response_ns);
            if let Some(execution) = &client.execution {
                self.intervals
                    .recorder
                    .transaction_of(execution, service_ns, response_ns);
            }
            self.intervals.recorder.slowest.offer(Slow {
                response_ns,
                service_ns,
                ended_ns: now,
                number,
            });
        }
        self.acknowledge(index)?;
        self.feed.ended(number, now);
        self.after_transaction(index, now)
    }

    /// Notes a New-Order that is committed.
    #[inline]
    fn acknowledge(&mut self, index: usize) -> Result<(), Failure> {
        if let (Some(file), Some(execution)) = (&mut self.acknowledgements, &self.clients[index].execution) {
            if let Some(id) = execution.order_id() {
                file.note(id).map_err(acknowledgement_failed)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn after_transaction(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        if self.settings.is_churn() {
            self.clients[index].quit();
            self.clients[index].state = State::Idle;
        }
        if self.feed.is_open_loop() {
            self.idle.push_back(index as u32);
            // By a clock of its own: the answer was read with a batch of others, and what is due since then must not wait.
            return self.start_transactions(now_ns());
        }
        if self.intervals.phase == Phase::Drain {
            return Ok(());
        }
        let pause_ns = self.pause_ns(index);
        if pause_ns > 0 {
            self.clients[index].state = State::Thinking;
            self.timers.push(std::cmp::Reverse((now + pause_ns, index as u32)));
            return Ok(());
        }
        let next = self.feed.take_for(index, self.clients[index].number, now);
        self.start(index, next, now)
    }

    fn pause_ns(&self, index: usize) -> u64 {
        match self.settings.think {
            Think::No => 0,
            Think::Constant { pause_ns } => pause_ns,
            Think::Exponential { mean_ns } => {
                let number = self.clients[index].transaction.number();
                let mut stream = RandomStream::of(self.settings.context.seed, Domain::Think, number);
                (stream.next_exponential() * mean_ns as f64) as u64
            }
        }
    }

    /// An error of the server: the transaction is restarted when the error is to be ignored, else the run ends.
    #[cold]
    pub(super) fn statement_failed(&mut self, index: usize, error: &ServerError, now: u64) -> Result<(), Failure> {
        self.intervals.recorder.errors.record(error.code, &error.to_string());
        let (kind, others) = self.clients[index].answered(&self.settings.context);
        if !self.settings.ignored_errors.contains(error.code) {
            self.intervals.recorder.counts.errors += 1;
            let kind = kind.name();
            return Err(Failure::with_code(
                error.code,
                format!(
                    "{error} (statement {kind}); --ignore-errors {} would restart the transaction",
                    error.code
                ),
            ));
        }
        self.intervals.recorder.counts.ignored_errors += 1;
        self.clients[index].failing = true;
        if others {
            // Its answers come first; the server has done them in a transaction that is rolled back.
            return Ok(());
        }
        self.try_again(index, now)
    }

    /// The transaction begins anew.
    #[cold]
    fn try_again(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        self.clients[index].failing = false;
        self.clients[index].restart(&self.settings.context, true);
        self.send_next(index, now)
    }

    /// A connection is gone: it is made again when losses are to be ignored, else the run ends.
    #[cold]
    pub(super) fn lost(&mut self, index: usize, loss: &Loss) -> Result<(), Failure> {
        let (code, message) = loss.describe();
        self.intervals.recorder.errors.record(code, &message);
        let started = self.intervals.is_started();
        let ignored = self.settings.ignored_errors.contains(code)
            || (code == client_code::CONNECTION && self.settings.ignored_errors.contains(client_code::SERVER_LOST));
        if !started || !ignored {
            self.intervals.recorder.counts.errors += 1;
            let hint = if started && !matches!(loss, Loss::Missing(_)) {
                "; --ignore-errors 2003,2013 would connect again"
            } else {
                ""
            };
            return Err(Failure::with_code(
                code,
                format!("connection {}: {message}{hint}", self.clients[index].number),
            ));
        }
        self.intervals.recorder.counts.ignored_errors += 1;
        self.clients[index].close();
        self.timers
            .push(std::cmp::Reverse((now_ns() + RECONNECT_PAUSE_NS, index as u32)));
        Ok(())
    }

    /// A connection that was lost is there again: its transaction begins anew.
    #[cold]
    pub(super) fn resume(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        self.intervals.recorder.counts.reconnects += 1;
        if self.clients[index].active {
            self.clients[index].state = State::Busy;
            self.clients[index].restart(&self.settings.context, false);
            return self.send_next(index, now);
        }
        if !self.feed.is_open_loop() {
            // It was lost between two transactions; in an open loop it waits in the queue of the free all along.
            self.idle.push_back(index as u32);
        }
        Ok(())
    }

    /// The end of one operation of the workload `connect`.
    pub(super) fn connected(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        let service_ns = now.saturating_sub(self.clients[index].statement_ns);
        self.intervals
            .recorder
            .statement(StatementKind::Connect, service_ns, 0, 0, 0);
        self.transaction_done(index, now)
    }
}
