//! Connections of sessions, made when they are due and there is a place; bytes to the server and from it, and what the
//! answers mean.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_core::local_ports::explained;
use dyno_loop::recorder::client_code;
use dyno_loop::transport::{Interest, Socket};
use dyno_mysql::{Connection, Error, Event, Options};

use super::super::outcome::add_row;
use super::{Link, State, Worker, FULL_QUEUE_PAUSE_NS, READ_BYTES};

impl Worker<'_> {
    /// Connects, if there is a place.
    pub(super) fn enter(&mut self, index: usize, now: u64) {
        if self.open >= self.most_open {
            self.live[index].state = State::Queued;
            self.queued.push_back(index);
            return;
        }
        self.open += 1;
        self.connect(index, now);
    }

    pub(super) fn connect(&mut self, index: usize, now: u64) {
        let schema = self.live[index].schema.clone();
        let socket = match Socket::connect(&self.shared.address) {
            Ok(socket) => socket,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.open -= 1;
                self.live[index].state = State::Closed;
                self.timers.push(Reverse((now + FULL_QUEUE_PAUSE_NS, index)));
                return;
            }
            Err(error) => return self.connecting_failed(index, client_code::CONNECTION, explained(&error)),
        };
        let options = self.options.entry(schema).or_insert_with_key(|schema| {
            Arc::new(Options {
                database: schema.clone(),
                ..self.shared.options.clone()
            })
        });
        let connection = Connection::new(Arc::clone(options));
        if let Err(error) = self.poller.add(&socket, index as u64, Interest::Read) {
            return self.connecting_failed(index, client_code::CONNECTION, error.to_string());
        }
        let deadline_ns = now + self.shared.options.connect_timeout.as_nanos() as u64;
        let live = &mut self.live[index];
        live.link = Some(Link {
            socket,
            connection,
            interest: Interest::Read,
        });
        live.state = State::Connecting(deadline_ns);
        self.timers.push(Reverse((deadline_ns, index)));
    }

    pub(super) fn connecting_failed(&mut self, index: usize, code: u16, message: String) {
        self.record.refused.entry(code).or_insert((0, message)).0 += 1;
        self.record.not_sent.not_connected += self.remaining(index);
        self.progress_ns = now_ns();
        self.end(index);
    }

    /// The session has ended, in order or not: the next one takes its place.
    fn end(&mut self, index: usize) {
        let live = &mut self.live[index];
        live.link = None;
        live.state = State::Ended;
        self.ended += 1;
        self.open -= 1;
        if let Some(next) = self.queued.pop_front() {
            self.live[next].state = State::Closed;
            self.timers.push(Reverse((now_ns(), next)));
        }
    }

    pub(super) fn quit(&mut self, index: usize) {
        if let Some(link) = &mut self.live[index].link {
            // A connection that takes no goodbye is closed without.
            if link.connection.quit().is_ok() {
                let _ = link.socket.write(link.connection.outgoing());
            }
        }
        self.end(index);
    }
}

/// What an answer means.
enum Answer {
    Pending,
    Ready,
    Done,
    Failed(u16, String),
    Lost(u16, String),
}

impl Worker<'_> {
    /// Writes what there is room for.
    pub(super) fn flush(&mut self, index: usize) {
        let Some(link) = &mut self.live[index].link else {
            return;
        };
        let failure = loop {
            let outgoing = link.connection.outgoing();
            if outgoing.is_empty() {
                break None;
            }
            match link.socket.write(outgoing) {
                Ok(count) => link.connection.sent(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        let wanted = if link.connection.outgoing().is_empty() {
            Interest::Read
        } else {
            Interest::ReadWrite
        };
        let failure = failure.or_else(|| {
            if wanted == link.interest {
                return None;
            }
            link.interest = wanted;
            self.poller.modify(&link.socket, index as u64, wanted).err()
        });
        if let Some(error) = failure {
            self.lost(index, client_code::SERVER_LOST, &error.to_string());
        }
    }

    /// Reads what is there.
    pub(super) fn receive(&mut self, index: usize) {
        loop {
            let Some(link) = &mut self.live[index].link else {
                return;
            };
            let count = match link.socket.read(&mut self.buffer) {
                Ok(0) => {
                    let error = link.connection.end_of_input();
                    let message = error.map_or("the server closed the connection".into(), |error| error.to_string());
                    return self.lost(index, client_code::SERVER_LOST, &message);
                }
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return self.lost(index, client_code::SERVER_LOST, &error.to_string()),
            };
            let now = now_ns();
            self.progress_ns = now;
            let buffer = std::mem::take(&mut self.buffer);
            self.take_in(index, &buffer[..count], now);
            self.buffer = buffer;
            if count < READ_BYTES {
                return;
            }
        }
    }

    fn take_in(&mut self, index: usize, bytes: &[u8], now: u64) {
        let mut input = bytes;
        loop {
            match self.answer(index, &mut input) {
                Answer::Pending => break,
                Answer::Ready => {
                    self.record.connections += 1;
                    self.live[index].state = State::Idle;
                    self.live[index].free_ns = self.live[index].free_ns.max(now);
                    self.go_on(index, now);
                }
                Answer::Done => self.step_ended(index, now, 0, ""),
                Answer::Failed(code, message) => self.step_ended(index, now, code, &message),
                Answer::Lost(code, message) => return self.lost(index, code, &message),
            }
        }
        self.flush(index);
    }

    fn answer(&mut self, index: usize, input: &mut &[u8]) -> Answer {
        let live = &mut self.live[index];
        let Some(link) = &mut live.link else {
            return Answer::Pending;
        };
        loop {
            return match link.connection.advance(input) {
                Ok(None) => Answer::Pending,
                Ok(Some(Event::Ready)) => Answer::Ready,
                Ok(Some(Event::Row(row))) => {
                    add_row(&mut live.current.checksum, &mut live.current.order, row.payload());
                    continue;
                }
                Ok(Some(Event::Done(done))) => {
                    live.current.rows += done.rows;
                    live.current.affected_rows += done.affected_rows;
                    if done.more_results {
                        continue;
                    }
                    Answer::Done
                }
                Ok(Some(Event::Failed(error))) => Answer::Failed(error.code, error.message),
                Ok(Some(Event::Columns(_) | Event::Prepared(_))) => continue,
                Err(Error::Server(error)) => Answer::Lost(error.code, error.message),
                Err(Error::Closed(_)) => {
                    Answer::Lost(client_code::SERVER_LOST, "the server closed the connection".into())
                }
                Err(error) => Answer::Lost(client_code::MALFORMED_PACKET, error.to_string()),
            };
        }
    }
}
