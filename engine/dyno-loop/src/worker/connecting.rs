//! The worker's part that makes and ends connections: a few at a time, so that the server's queue never overflows.

use std::cmp::Reverse;
use std::io::ErrorKind;

use dyno_core::clock::now_ns;
use dyno_core::local_ports::{explained, is_exhausted};

use super::{LinkState, Worker};
use crate::recorder::client_code;
use crate::recorder::errors::{Failure, Loss, Stop};
use crate::session::Session;
use crate::transport::{Interest, Socket};

/// Pause when the server's queue is full.
const FULL_QUEUE_PAUSE_NS: u64 = 1_000_000;
/// Pause before a lost connection is made again.
const RECONNECT_PAUSE_NS: u64 = 10_000_000;
/// Longest wait for events while connections are being made.
const CONNECT_WAIT_NS: u64 = 100_000_000;

impl<S: Session> Worker<S> {
    /// Makes all connections ready for operations.
    pub(super) fn connect_all(&mut self) -> Result<(), Failure> {
        if self.connects_each_time {
            self.links.iter_mut().for_each(|link| link.state = LinkState::Ready);
            return Ok(());
        }
        self.connecting.progress_ns = now_ns();
        let mut next = 0;
        while self.connecting.ready < self.links.len() {
            let timeout_ns = self.load.connect_timeout_ns;
            if now_ns().saturating_sub(self.connecting.progress_ns) > timeout_ns {
                let message = format!(
                    "no answer from {} within {} s ({} of {} connections were ready); {}, or raise --connect-timeout",
                    self.load.endpoint,
                    timeout_ns as f64 / 1e9,
                    self.connecting.ready,
                    self.links.len(),
                    S::CONNECT_HINT
                );
                return Err(Failure::with_code(client_code::CONNECTION, message));
            }
            let mut wait_ns = CONNECT_WAIT_NS;
            while self.connecting.under_way < S::CONNECTING_AT_A_TIME && next < self.links.len() {
                let opened = self.try_open(next).map_err(|error| {
                    let message = format!("cannot connect to {}: {}", self.load.endpoint, explained(&error));
                    Failure::with_code(client_code::CONNECTION, message)
                })?;
                if !opened {
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
    fn try_open(&mut self, index: usize) -> std::io::Result<bool> {
        match self.connect(index) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn connect(&mut self, index: usize) -> std::io::Result<()> {
        let link = &mut self.links[index];
        let began_ns = now_ns();
        let socket = Socket::connect(&self.load.address)?;
        link.session.opened(&self.shared, began_ns);
        // Room to write shows that a TCP connection is made; a greeting of the client is sent then.
        link.awaits_room = !link.session.outgoing().is_empty();
        let interest = if link.awaits_room {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        self.poller.add(&socket, index as u64, interest)?;
        link.socket = Some(socket);
        link.state = LinkState::Connecting;
        Ok(())
    }

    /// Starts to connect during the run; a full queue, or a server that is away, is tried again later.
    pub(super) fn open(&mut self, index: usize) -> Result<(), Failure> {
        match self.try_open(index) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.links[index].state = LinkState::Closed;
                self.timers
                    .push(Reverse((now_ns() + FULL_QUEUE_PAUSE_NS, index as u32)));
                Ok(())
            }
            Err(error) => {
                let loss = Loss {
                    code: client_code::CONNECTION,
                    message: format!("cannot connect: {}", explained(&error)),
                    can_reconnect: !is_exhausted(&error),
                };
                self.lost(index, &loss)
            }
        }
    }

    /// A connection that is being made has come one step further.
    #[cold]
    pub(super) fn progressed(&mut self, now: u64) {
        self.connecting.progress_ns = now;
    }

    /// A connection is ready: for the first time, or again after a loss.
    #[cold]
    pub(super) fn ready(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        let link = &mut self.links[index];
        link.state = LinkState::Ready;
        if !self.tally.intervals.is_started() {
            self.connecting.progress_ns = now;
            self.connecting.under_way -= 1;
            self.connecting.ready += 1;
            return Ok(());
        }
        let begins_session = std::mem::take(&mut link.begins_session);
        let counts = &mut self.tally.intervals.recorder.counts;
        let count = if begins_session {
            &mut counts.new_sessions
        } else {
            &mut counts.reconnects
        };
        *count += 1;
        match link.session.resume(&mut self.shared, now) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(stop) => return self.stopped(index, stop),
        }
        if !self.keeps_slots() {
            self.links[index].idle_since_ns = now;
            let slots = std::iter::repeat_n(index as u32, self.slots as usize);
            self.idle.extend(slots);
        }
        Ok(())
    }

    /// A session cannot go on.
    #[cold]
    pub(super) fn stopped(&mut self, index: usize, stop: Stop) -> Result<(), Failure> {
        match stop {
            Stop::Lost(loss) => self.lost(index, &loss),
            Stop::Failed(failure) => Err(failure),
        }
    }

    /// A connection is gone: it is made again when losses are ignored, else the run ends.
    #[cold]
    pub(super) fn lost(&mut self, index: usize, loss: &Loss) -> Result<(), Failure> {
        let is_started = self.tally.intervals.is_started();
        let recorder = &mut self.tally.intervals.recorder;
        recorder.errors.record(loss.code, &loss.message);
        let ignored = &self.load.ignored_errors;
        let is_ignored = ignored.contains(loss.code)
            || (loss.code == client_code::CONNECTION && ignored.contains(client_code::SERVER_LOST));
        let link = &mut self.links[index];
        if !is_started || !is_ignored {
            recorder.counts.errors += 1;
            let hint = if is_started && loss.can_reconnect {
                "; --ignore-errors 2003,2013 would reconnect"
            } else {
                ""
            };
            let message = format!(
                "connection {} to {}: {}{hint}",
                link.number, self.load.endpoint, loss.message
            );
            return Err(Failure::with_code(loss.code, message));
        }
        recorder.counts.ignored_errors += 1;
        link.socket = None;
        link.state = LinkState::Closed;
        link.session.lost(&mut self.tally);
        if !self.keeps_slots() {
            self.idle.retain(|idle| *idle != index as u32);
        }
        self.timers.retain(|Reverse((_, waiting))| *waiting != index as u32);
        self.timers.push(Reverse((now_ns() + RECONNECT_PAUSE_NS, index as u32)));
        Ok(())
    }

    /// Ends a connection: sends the goodbye as far as the socket takes it, and drops the socket.
    pub(super) fn close(&mut self, index: usize) {
        let link = &mut self.links[index];
        link.session.say_goodbye();
        if let Some(mut socket) = link.socket.take() {
            // The server notices the closed socket too: a goodbye that does not fit is no loss.
            if let Ok(count) = socket.write(link.session.outgoing()) {
                link.session.sent(count);
            }
        }
    }

    /// Ends all connections after the last load.
    pub(super) fn disconnect(&mut self) {
        for index in 0..self.links.len() {
            if self.links[index].state == LinkState::Ready {
                self.close(index);
            }
            self.links[index].socket = None;
        }
    }
}
