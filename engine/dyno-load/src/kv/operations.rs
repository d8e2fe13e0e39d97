//! The worker's part that starts, carries on and ends operations.

use dyno_core::clock::now_ns;
use dyno_core::operation::WARMUP_BIT;
use dyno_core::queue::Queue;
use dyno_core::random::{Domain, RandomStream};
use dyno_kv::{Done, Status, Store};

use super::client::{Flight, Loss, State};
use super::record::{Command, KvCounts};
use super::worker::Worker;
use super::workload::Workload;
use crate::recorder::Slow;
use crate::run::batch::Batched as _;
use crate::run::{Failure, Next, Overload, Phase, Think};

/// Pause before a lost connection is made again.
pub(super) const RECONNECT_PAUSE_NS: u64 = 10_000_000;
/// Quiet requests of a closed loop between two that have a reply.
const QUIET_AT_A_TIME: u32 = 64;

/// Looks at a value that was found, and keeps its cas value.
pub(super) fn value_found(
    flights: &mut Queue<Flight>,
    workload: &Workload,
    counts: &mut KvCounts,
    (key, cas, data): (&[u8], Option<u64>, &[u8]),
) {
    let Some(flight) = flights.iter_mut().find(|flight| !flight.quiet) else {
        return;
    };
    flight.cas = cas.unwrap_or(0);
    if !flight.verify {
        return;
    }
    let number = match flight.command {
        Command::MultiGet => workload.keys.number(key),
        _ => Some(flight.key),
    };
    counts.verified += 1;
    if !number.is_some_and(|number| workload.values.is_right(number, data)) {
        counts.wrong_values += 1;
    }
}

impl Worker {
    /// Starts every operation that is due and has a free place, and what timers ask for.
    pub(super) fn start_operations(&mut self, now: u64) -> Result<(), Failure> {
        while let Some(std::cmp::Reverse((due, index))) = self.timers.peek().copied() {
            if due > now {
                break;
            }
            self.timers.pop();
            self.timer_fired(index as usize, due, now)?;
        }
        if !self.feed.is_open_loop() {
            if self.intervals.phase == Phase::Drain {
                return Ok(());
            }
            while let Some(index) = self.idle.pop_front() {
                self.start_next(index as usize, now, now)?;
                // The last place of a connection sends for all.
                if self.idle.front() != Some(&index) {
                    self.flush(index as usize)?;
                }
            }
            return Ok(());
        }
        // What the plan still has from before the stop goes on: its response time counts.
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

    /// What the overload policy says of an operation that starts only now; true when it is given up.
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
                "the server does not keep up: a planned operation was {:.1} ms late, the limit is {:.1} ms; lower --rate, \
                 or choose --overload queue",
                late_ns as f64 / 1e6,
                limit_ns as f64 / 1e6
            )))
            }
            _ => Ok(false),
        }
    }

    fn timer_fired(&mut self, index: usize, due: u64, now: u64) -> Result<(), Failure> {
        if self.clients[index].state == State::Closed {
            return match self.try_open(index) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    self.timers
                        .push(std::cmp::Reverse((now + RECONNECT_PAUSE_NS, index as u32)));
                    Ok(())
                }
                Err(failure) => self.lost(index, &Loss::Socket(std::io::Error::other(failure.message))),
            };
        }
        if self.intervals.phase == Phase::Drain || self.clients[index].state != State::Ready {
            return Ok(());
        }
        self.start_next(index, due, now)?;
        self.flush(index)
    }

    /// The next operation of a place's own loop.
    fn start_next(&mut self, index: usize, intended_ns: u64, now: u64) -> Result<(), Failure> {
        let next = self.feed.take_for(index, self.clients[index].number, intended_ns);
        let limit = self.settings.operations;
        if limit.is_some_and(|limit| next.number & !WARMUP_BIT >= limit) {
            self.retired += 1;
            return Ok(());
        }
        self.start(index, next, now)
    }

    /// Puts an operation into the output. After a quiet one its place goes on at once, up to a barrier.
    fn start(&mut self, index: usize, mut next: Next, now: u64) -> Result<(), Failure> {
        loop {
            if !self.put(index, next, now)? {
                self.clients[index].quiet = 0;
                return Ok(());
            }
            self.clients[index].quiet += 1;
            let limit = self.settings.operations;
            let barrier = self.feed.is_open_loop() || self.thinks() || self.clients[index].quiet >= QUIET_AT_A_TIME;
            if !barrier {
                next = self.feed.take_for(index, self.clients[index].number, now);
            }
            if barrier || limit.is_some_and(|limit| next.number & !WARMUP_BIT >= limit) {
                return self.put_barrier(index, now);
            }
        }
    }

    fn put_barrier(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        let client = &mut self.clients[index];
        client.quiet = 0;
        client.connection.noop();
        client.flights.push_back(Flight {
            number: 0,
            key: 0,
            intended_ns: now,
            started_ns: now,
            sent_ns: now,
            cas: 0,
            command: Command::Barrier,
            quiet: false,
            measured: false,
            verify: false,
        });
        self.in_flight += 1;
        Ok(())
    }

    /// Puts one operation into the output; true when it is quiet.
    #[inline]
    fn put(&mut self, index: usize, next: Next, now: u64) -> Result<bool, Failure> {
        let workload = &self.settings.workload;
        let client = &mut self.clients[index];
        let place = (u64::from(client.number), u64::from(self.settings.pace.connections));
        let operation = workload.operation(next.number, place, &mut client.window);
        let phase = self.intervals.phase;
        let open_loop = self.feed.is_open_loop();
        let measured = phase == Phase::Measure || (phase == Phase::Drain && open_loop);
        if measured && (open_loop || self.settings.think != Think::No) {
            let free_ns = next.release_ns.max(client.idle_since_ns);
            self.intervals.recorder.lag.record(now.saturating_sub(free_ns));
        }
        let quiet = client
            .ask(workload, &operation, next.number, &mut self.scratch)
            .map_err(|error| Failure::new(error.to_string()))?;
        client.flights.push_back(Flight {
            number: next.number,
            key: operation.key,
            intended_ns: next.intended_ns,
            started_ns: now,
            sent_ns: now,
            cas: 0,
            command: operation.command,
            quiet,
            measured,
            verify: operation.verify,
        });
        self.in_flight += 1;
        Ok(quiet)
    }

    /// The end of a reply: of the oldest command that has one, and of the quiet ones before it.
    #[inline]
    pub(super) fn answered(&mut self, index: usize, now: u64, done: &Done) -> Result<(), Failure> {
        let flight = self.take_flight(index, now);
        let Some(mut flight) = flight else { return Ok(()) };
        self.count(&flight, now, done);
        if flight.command == Command::Gets && done.hits > 0 {
            flight.command = Command::Cas;
            flight.sent_ns = now;
            let workload = &self.settings.workload;
            let client = &mut self.clients[index];
            let store = Store::Cas(flight.cas);
            client
                .store(store, workload, flight.key, flight.number, false, &mut self.scratch)
                .map_err(|error| Failure::new(error.to_string()))?;
            client.flights.push_back(flight);
            return Ok(());
        }
        self.operation_done(&flight, index, now);
        self.place_is_free(index, now)
    }

    /// The flight that a reply belongs to; quiet ones before it are done with it.
    #[inline]
    pub(super) fn take_flight(&mut self, index: usize, now: u64) -> Option<Flight> {
        loop {
            let flight = self.clients[index].flights.pop_front()?;
            if !flight.quiet {
                return Some(flight);
            }
            let done = Done {
                status: Status::Success,
                hits: 0,
                keys: 0,
            };
            self.count(&flight, now, &done);
            self.operation_done(&flight, index, now);
        }
    }

    /// Counts one command with its answer.
    #[inline]
    fn count(&mut self, flight: &Flight, now: u64, done: &Done) {
        let recorder = &mut self.intervals.recorder;
        let counts = &mut recorder.kv.counts;
        let success = done.status == Status::Success;
        match flight.command {
            Command::Get | Command::MultiGet | Command::Gets => {
                counts.cmd_get += u64::from(done.keys);
                counts.get_hits += u64::from(done.hits);
                counts.get_misses += u64::from(done.keys - done.hits);
                recorder.counts.reads += 1;
                recorder.counts.rows += u64::from(done.hits);
            }
            Command::Set => {
                counts.cmd_set += 1;
                counts.not_stored += u64::from(!success);
                counts.object_bytes += self.settings.workload.object_bytes(flight.key);
                recorder.counts.writes += 1;
            }
            Command::Cas => {
                counts.cmd_set += 1;
                counts.cas += 1;
                counts.cas_changed += u64::from(done.status == Status::Exists);
                counts.cas_missing += u64::from(done.status == Status::NotFound);
                counts.not_stored += u64::from(done.status == Status::NotStored);
                recorder.counts.writes += 1;
            }
            Command::Increment => {
                let missing = done.status == Status::NotFound;
                counts.incr_misses += u64::from(missing);
                counts.incr_hits += u64::from(!missing);
                recorder.counts.writes += 1;
            }
            Command::Delete => {
                counts.delete_hits += u64::from(success);
                counts.delete_misses += u64::from(!success);
                recorder.counts.writes += 1;
            }
            Command::Barrier => return,
        }
        recorder.kv.command(flight.command, now.saturating_sub(flight.sent_ns));
    }

    /// Counts a whole operation.
    #[inline]
    fn operation_done(&mut self, flight: &Flight, index: usize, now: u64) {
        self.in_flight -= 1;
        self.clients[index].idle_since_ns = now;
        // An operation of the warm-up's plan that ends in the measurement belongs to neither.
        let counted = flight.measured || self.intervals.phase == Phase::Warmup || !self.feed.is_open_loop();
        if flight.command == Command::Barrier || !counted {
            return;
        }
        // Without a plan and without pauses both are the same, and those of its command; they are added when the interval ends.
        let separate = self.feed.is_open_loop() || self.thinks();
        let service_ns = now.saturating_sub(flight.started_ns);
        let response_ns = now.saturating_sub(flight.intended_ns);
        let recorder = &mut self.intervals.recorder;
        recorder.counts.transactions += 1;
        if separate || !flight.command.is_whole_operation() {
            recorder.service.record(service_ns);
        }
        if separate {
            recorder.response.record(response_ns);
        }
        recorder.slowest.offer(Slow {
            response_ns,
            service_ns,
            ended_ns: now,
            number: flight.number,
        });
    }

    /// A place of a connection is free: the next operation takes it.
    #[inline]
    pub(super) fn place_is_free(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        if self.feed.is_open_loop() {
            self.idle.push_back(index as u32);
            // By a clock of its own: the answer was read with a batch of others, and what is due since then must not wait.
            return self.start_operations(now_ns());
        }
        if self.intervals.phase == Phase::Drain {
            return Ok(());
        }
        if self.thinks() {
            let pause_ns = self.pause_ns(self.clients[index].idle_since_ns ^ index as u64);
            self.timers.push(std::cmp::Reverse((now + pause_ns, index as u32)));
            return Ok(());
        }
        self.start_next(index, now, now)
    }

    fn pause_ns(&self, number: u64) -> u64 {
        match self.settings.think {
            Think::No => 0,
            Think::Constant { pause_ns } => pause_ns,
            Think::Exponential { mean_ns } => {
                let mut stream = RandomStream::of(self.settings.workload.seed, Domain::Think, number);
                (stream.next_exponential() * mean_ns as f64) as u64
            }
        }
    }
}
