//! Connections of sessions: made when they are due and there is a place, and ended.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_core::local_ports::explained;
use dyno_loop::recorder::client_code;
use dyno_loop::transport::{Interest, Socket};
use dyno_mysql::{Connection, Options};

use super::{Link, State, Worker, FULL_QUEUE_PAUSE_NS};

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
