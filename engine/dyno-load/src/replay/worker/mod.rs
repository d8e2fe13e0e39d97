//! One thread that replays its share of the sessions: sockets that do not block, and a queue of what is due.
//!
//! A session does one thing at a time, in its order. A statement is due at its captured time; if the session is busy then,
//! it is sent as soon as the session is free, and the time that it waited is lag.

mod exchange;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_loop::recorder::client_code;
use dyno_loop::transport::{Interest, Poller, Socket};
use dyno_loop::Address;
use dyno_mysql::{Connection, Detail, Options};

use super::outcome::{FirstError, Outcome, Record};
use super::plan::{Act, Pace, ReplayPlan, Session};

/// Longest wait for events: how soon an interruption is seen.
const LONGEST_WAIT_NS: u64 = 100_000_000;
/// Pause when the queue of the server's Unix socket is full.
const FULL_QUEUE_PAUSE_NS: u64 = 1_000_000;
/// A connection whose begin was not captured is made this long before its first statement is due.
pub const LEAD_NS: u64 = 500_000_000;
const READ_BYTES: usize = 64 * 1024;

/// What all workers share.
#[derive(Debug)]
pub struct Shared {
    /// What to do.
    pub plan: ReplayPlan,
    /// How fast.
    pub pace: Pace,
    /// Whether rows are read for their checksum.
    pub checksums: bool,
    /// Where the server is.
    pub address: Address,
    /// Options of a connection without a default schema.
    pub options: Options,
    /// How long nothing may end once all is due, ns.
    pub grace_ns: u64,
    /// Statements that have ended.
    pub done: AtomicU64,
    /// Statements that ended with an error.
    pub errors: AtomicU64,
    /// Set by Ctrl-C.
    pub interrupted: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its connection is not made yet.
    Closed,
    /// Waits for a place among the connections.
    Queued,
    /// Connecting, until then at the latest.
    Connecting(u64),
    /// Between two steps.
    Idle,
    /// A step is in progress.
    Busy,
    /// At its end.
    Ended,
}

/// A connection, with its socket.
#[derive(Debug)]
struct Link {
    socket: Socket,
    connection: Connection,
    interest: Interest,
}

/// A session as far as it has come.
#[derive(Debug)]
struct Live {
    /// Index in the plan.
    session: usize,
    state: State,
    next: usize,
    link: Option<Link>,
    /// When it became free, ns.
    free_ns: u64,
    /// The default schema of a connection that is made now.
    schema: Option<String>,
    /// The statement in progress.
    current: Outcome,
}

/// One thread's share.
pub struct Worker<'a> {
    shared: &'a Shared,
    live: Vec<Live>,
    poller: Poller,
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    queued: VecDeque<usize>,
    open: usize,
    most_open: usize,
    ended: usize,
    record: Record,
    begin_ns: u64,
    progress_ns: u64,
    options: HashMap<Option<String>, Arc<Options>>,
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    /// A worker for these sessions, at most `most_open` of them connected at a time, from `begin_ns` on.
    ///
    /// # Errors
    /// When the kernel has no room for its events.
    pub fn new(shared: &'a Shared, sessions: Vec<usize>, most_open: usize, begin_ns: u64) -> std::io::Result<Self> {
        let live: Vec<Live> = sessions
            .into_iter()
            .map(|session| Live {
                session,
                state: State::Closed,
                next: 0,
                link: None,
                free_ns: 0,
                schema: shared.plan.sessions[session].schema.clone(),
                current: Outcome::default(),
            })
            .collect();
        let opened = |(index, live): (usize, &Live)| {
            let session = &shared.plan.sessions[live.session];
            let lead_ns = if session.has_connect { 0 } else { LEAD_NS };
            let due_ns = shared.pace.due_at_ns(begin_ns, session.open_us);
            Reverse((due_ns.saturating_sub(lead_ns), index))
        };
        let timers = live.iter().enumerate().map(opened).collect();
        Ok(Self {
            shared,
            live,
            poller: Poller::new(256)?,
            timers,
            queued: VecDeque::new(),
            open: 0,
            most_open,
            ended: 0,
            record: Record::default(),
            begin_ns,
            progress_ns: begin_ns,
            options: HashMap::new(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Replays to the end.
    ///
    /// # Errors
    /// When the kernel refuses to wait for events. What the server does is in the record.
    pub fn run(mut self) -> std::io::Result<Record> {
        while self.ended < self.live.len() && !self.is_over() {
            let now = now_ns();
            let mut wait_ns = LONGEST_WAIT_NS;
            while let Some(Reverse((due_ns, index))) = self.timers.peek().copied() {
                if due_ns > now {
                    wait_ns = wait_ns.min(due_ns - now);
                    break;
                }
                self.timers.pop();
                self.wake(index, now_ns());
            }
            if self
                .timers
                .peek()
                .is_some_and(|Reverse((due_ns, _))| *due_ns <= now_ns())
            {
                wait_ns = 0;
            }
            let events = self.poller.wait(wait_ns)?;
            for event in 0..events {
                let index = self.poller.token(event) as usize;
                if self.poller.is_writable(event) {
                    self.flush(index);
                }
                self.receive(index);
            }
        }
        self.give_up();
        let mut record = self.record;
        record.cpu_ns = thread_cpu_ns();
        Ok(record)
    }

    /// Whether it was interrupted, or the server has stopped to answer after all was due.
    fn is_over(&self) -> bool {
        let due_ns = self.shared.pace.due_at_ns(self.begin_ns, self.shared.plan.end_us);
        self.shared.interrupted.load(Ordering::Relaxed)
            || now_ns() > due_ns.max(self.progress_ns).saturating_add(self.shared.grace_ns)
    }

    fn give_up(&mut self) {
        for index in 0..self.live.len() {
            let live = &self.live[index];
            if live.state == State::Ended {
                continue;
            }
            self.record.not_sent.at_end += self.remaining(index);
            if live.state == State::Busy && self.is_statement(index) {
                // Its fate is unknown.
                self.statement_ended(
                    index,
                    now_ns(),
                    client_code::SERVER_LOST,
                    "it had not ended when the replay ended",
                );
            }
        }
    }

    fn plan(&self, index: usize) -> &'a Session {
        &self.shared.plan.sessions[self.live[index].session]
    }

    /// Statements that the session has not begun.
    fn remaining(&self, index: usize) -> u64 {
        let steps = &self.plan(index).steps;
        let in_progress = usize::from(self.live[index].state == State::Busy);
        let is_statement = |step: &&super::plan::Step| matches!(step.act, Act::Statement(_));
        steps[(self.live[index].next + in_progress).min(steps.len())..]
            .iter()
            .filter(is_statement)
            .count() as u64
    }

    fn is_statement(&self, index: usize) -> bool {
        let step = self.plan(index).steps.get(self.live[index].next);
        step.is_some_and(|step| matches!(step.act, Act::Statement(_)))
    }

    /// Something of this session is due.
    fn wake(&mut self, index: usize, now: u64) {
        match self.live[index].state {
            State::Closed => self.enter(index, now),
            State::Connecting(deadline_ns) if now >= deadline_ns => {
                let message = "no answer within --connect-timeout".to_string();
                self.connecting_failed(index, client_code::CONNECTION, message);
            }
            State::Idle => self.go_on(index, now),
            _ => {}
        }
    }

    /// Does the next step if it is due, or waits for it.
    fn go_on(&mut self, index: usize, now: u64) {
        let plan = self.plan(index);
        let pace = self.shared.pace;
        let due = |at_us| pace.due_at_ns(self.begin_ns, at_us);
        let Some(step) = plan.steps.get(self.live[index].next) else {
            let close_ns = plan.close_us.map_or(0, due);
            if now < close_ns {
                self.timers.push(Reverse((close_ns, index)));
                return;
            }
            return self.quit(index);
        };
        let due_ns = due(step.at_us);
        if now < due_ns {
            self.timers.push(Reverse((due_ns, index)));
            return;
        }
        self.start(index, &step.act, due_ns, now);
    }

    fn start(&mut self, index: usize, act: &Act, due_ns: u64, now: u64) {
        let live = &mut self.live[index];
        let Some(link) = &mut live.link else {
            // Its connection was lost: a new one before the next step.
            return self.connect(index, now);
        };
        let shared = self.shared;
        let begun = match act {
            Act::Statement(number) => {
                let detail = if shared.checksums { Detail::Rows } else { Detail::Skip };
                let is_max = shared.pace == Pace::Max;
                live.current = Outcome {
                    statement: *number,
                    started_ns: now - self.begin_ns,
                    lag_ns: if is_max { 0 } else { now - due_ns },
                    own_lag_ns: if is_max {
                        0
                    } else {
                        now - due_ns.max(live.free_ns).min(now)
                    },
                    ..Outcome::default()
                };
                link.connection
                    .query(&shared.plan.statements[*number as usize].text, detail)
            }
            Act::Use(schema) => {
                let sql = format!("USE `{}`", schema.replace('`', "``"));
                live.schema = Some(schema.clone());
                link.connection.query(sql.as_bytes(), Detail::Skip)
            }
            Act::Reset(schema) => {
                live.schema.clone_from(schema);
                // The old connection ends in order, the new one is another.
                if link.connection.quit().is_ok() {
                    let _ = link.socket.write(link.connection.outgoing());
                }
                live.link = None;
                live.next += 1;
                return self.connect(index, now);
            }
        };
        live.state = State::Busy;
        match begun {
            Ok(()) => self.flush(index),
            Err(error) => self.lost(index, client_code::MALFORMED_PACKET, &error.to_string()),
        }
    }

    fn step_ended(&mut self, index: usize, now: u64, code: u16, message: &str) {
        if self.is_statement(index) {
            self.statement_ended(index, now, code, message);
        } else if code != 0 {
            self.record.failed_selections.get_or_insert((0, message.to_string())).0 += 1;
        }
        let live = &mut self.live[index];
        live.next += 1;
        live.state = State::Idle;
        live.free_ns = now;
        self.go_on(index, now);
    }

    fn statement_ended(&mut self, index: usize, now: u64, code: u16, message: &str) {
        let mut outcome = self.live[index].current;
        outcome.service_ns = (now - self.begin_ns).saturating_sub(outcome.started_ns);
        outcome.error = code;
        if code != 0 {
            (outcome.rows, outcome.checksum, outcome.order) = (0, 0, 0);
            let digest = self.shared.plan.statements[outcome.statement as usize].digest;
            let error = FirstError {
                statement: outcome.statement,
                message: message.to_string(),
            };
            self.record.note_error((code, digest), error);
            self.shared.errors.fetch_add(1, Ordering::Relaxed);
        }
        self.record.outcomes.push(outcome);
        self.shared.done.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection is gone. The statement in progress has failed; the session goes on with a new connection.
    fn lost(&mut self, index: usize, code: u16, message: &str) {
        let now = now_ns();
        match self.live[index].state {
            State::Connecting(_) => return self.connecting_failed(index, code, message.to_string()),
            State::Busy => {
                self.live[index].link = None;
                self.record.lost_connections += 1;
                self.step_ended(index, now, code, message);
            }
            _ => {
                self.live[index].link = None;
                self.record.lost_connections += 1;
            }
        }
        self.progress_ns = now;
    }
}

fn thread_cpu_ns() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
