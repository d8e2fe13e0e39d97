//! The worker's part that makes connections: a few at a time, so that the server's queue of new ones never overflows.

use std::io::ErrorKind;

use dyno_core::clock::now_ns;
use dyno_mysql::{ServerError, Statement};

use super::batch::Batched as _;
use super::client::{Loss, State};
use super::failure::Failure;
use super::worker::Worker;
use crate::recorder::{client_code, Part};

/// Connections of a worker that log in at the same time; servers queue 50 to 150 (`back_log`).
const AT_A_TIME: usize = 16;
/// Pause when the server's queue is full.
const FULL_QUEUE_PAUSE_NS: u64 = 1_000_000;
/// The server cannot prepare this kind of statement (MySQL before 8.0 and BEGIN): it goes as text, as in sysbench.
const UNSUPPORTED_PREPARE: u16 = 1295;

/// How far the first connecting has come.
#[derive(Debug, Default)]
pub struct Connecting {
    under_way: usize,
    ready: usize,
}

impl Worker {
    /// Makes all connections, and prepares their statements.
    pub(super) fn make_connections(&mut self) -> Result<(), Failure> {
        if self.settings.is_churn() {
            self.clients.iter_mut().for_each(|client| client.state = State::Idle);
            return Ok(());
        }
        let deadline = now_ns() + self.settings.connect_timeout_ns;
        let mut next = 0;
        while self.connecting.ready < self.clients.len() {
            if now_ns() > deadline {
                return Err(Failure::new(format!(
                    "only {} of {} connections were ready after {:.0} s; raise --connect-timeout, or look at the \
                     server's log",
                    self.connecting.ready,
                    self.clients.len(),
                    self.settings.connect_timeout_ns as f64 / 1e9
                )));
            }
            let mut wait_ns = 100_000_000;
            while self.connecting.under_way < AT_A_TIME && next < self.clients.len() {
                if !self.try_open(next)? {
                    wait_ns = FULL_QUEUE_PAUSE_NS;
                    break;
                }
                self.connecting.under_way += 1;
                next += 1;
            }
            let events = self.poller.wait(wait_ns)?;
            self.handle_events(events)?;
        }
        Ok(())
    }

    /// Starts to connect; false when the server's queue is full.
    fn try_open(&mut self, index: usize) -> Result<bool, Failure> {
        let settings = &self.settings;
        match self.clients[index].open(&settings.address, &self.poller, index as u64, settings) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => {
                let message = format!("cannot connect to {}: {error}", settings.options.endpoint);
                Err(Failure::with_code(client_code::CONNECTION, message))
            }
        }
    }

    /// Starts to connect during the run; a full queue, or a server that is away, is tried again later.
    pub(super) fn open(&mut self, index: usize) -> Result<(), Failure> {
        match self.try_open(index) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.clients[index].state = State::Closed;
                self.timers
                    .push(std::cmp::Reverse((now_ns() + FULL_QUEUE_PAUSE_NS, index as u32)));
                Ok(())
            }
            Err(failure) => self.lost(index, &Loss::Socket(std::io::Error::other(failure.message))),
        }
    }

    /// Notes what part of connecting has ended.
    #[cold]
    pub(super) fn note_parts(&mut self, index: usize, now: u64) {
        if let Some((part, ns)) = self.clients[index].ended_part(now) {
            self.intervals.recorder.connecting.record(part, ns);
        }
    }

    /// A connection is logged in.
    pub(super) fn logged_in(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        if let Some(info) = self.clients[index].tls() {
            self.intervals.recorder.handshakes.record(&info);
        }
        if self.settings.is_churn() {
            self.note_statements(index, now);
            return self.connected(index, now);
        }
        self.prepare_from(index, 0, now)
    }

    /// A statement is prepared, or (`None`) cannot be.
    pub(super) fn prepared(&mut self, index: usize, statement: Option<Statement>, now: u64) -> Result<(), Failure> {
        let State::Preparing(slot) = self.clients[index].state else {
            return Ok(());
        };
        self.clients[index].keep(statement);
        self.prepare_from(index, slot + 1, now)
    }

    /// Notes what it took to make the connection ready, where it took statements.
    fn note_statements(&mut self, index: usize, now: u64) {
        let initial = &self.settings.options.init_statements;
        if !initial.is_empty() || self.texts.iter().any(Option::is_some) {
            let ns = self.clients[index].statements_ns(now);
            self.intervals.recorder.connecting.record(Part::Statements, ns);
        }
    }

    fn prepare_from(&mut self, index: usize, slot: usize, now: u64) -> Result<(), Failure> {
        match self.clients[index].prepare(slot, &self.texts) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.note_statements(index, now);
                self.clients[index].state = State::Idle;
                if self.intervals.is_started() {
                    return self.resume(index, now);
                }
                self.connecting.under_way -= 1;
                self.connecting.ready += 1;
                Ok(())
            }
            Err(loss) => self.lost(index, &loss),
        }
    }

    /// The server refuses to prepare.
    pub(super) fn prepare_failed(&mut self, index: usize, error: &ServerError, now: u64) -> Result<(), Failure> {
        if error.code == UNSUPPORTED_PREPARE {
            return self.prepared(index, None, now);
        }
        let State::Preparing(slot) = self.clients[index].state else {
            return Ok(());
        };
        let text = self.texts.get(slot).cloned().flatten().unwrap_or_default();
        Err(Failure::with_code(
            error.code,
            format!("{error} (when preparing \"{text}\")"),
        ))
    }
}
