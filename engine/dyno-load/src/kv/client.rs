//! One connection of a worker: its socket, its protocol state, and the operations under way on it.

use std::io::{self, ErrorKind};

use dyno_core::queue::Queue;
use dyno_kv::{Connection, Detail, Error, Item, Protocol, Store};

use super::keys::Window;
use super::record::Command;
use super::workload::{Operation, Workload};
use crate::recorder::{client_code, Traffic};
use crate::run::poller::{Interest, Poller};
use crate::run::socket::{Address, Socket};

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Without a socket.
    Closed,
    /// Connecting; the server's version is asked for to see that it serves us.
    Greeting,
    /// Ready for operations.
    Ready,
}

/// An operation under way.
#[derive(Debug, Clone, Copy)]
pub struct Flight {
    /// Its number.
    pub number: u64,
    /// The number of its key.
    pub key: u64,
    /// When it was due.
    pub intended_ns: u64,
    /// When its first command was sent.
    pub started_ns: u64,
    /// When the current command was sent.
    pub sent_ns: u64,
    /// The cas value that gets found.
    pub cas: u64,
    /// The current command.
    pub command: Command,
    /// Whether the command has no reply of its own: the next reply on the connection ends it.
    pub quiet: bool,
    /// Whether the operation belongs to the measurement (in an open loop, by its intended time).
    pub measured: bool,
    /// Whether values found are looked at.
    pub verify: bool,
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    /// Its number in the whole run.
    pub number: u32,
    /// What it is doing.
    pub state: State,
    /// What it asked for and has no answer to, the oldest first.
    pub flights: Queue<Flight>,
    /// Its keys, where connections have keys of their own.
    pub window: Window,
    /// Since when it has had room for another operation.
    pub idle_since_ns: u64,
    /// Quiet commands since the last that has a reply.
    pub quiet: u32,
    /// Bytes since they were last taken.
    pub traffic: Traffic,
    /// Protocol state.
    pub connection: Connection,
    socket: Option<Socket>,
    awaits_room: bool,
}

/// Room that a worker's connections share to make keys and values in.
#[derive(Debug, Default)]
pub struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
    ends: Vec<usize>,
}

impl Client {
    /// A connection without a socket.
    pub fn new(number: u32, protocol: Protocol, depth: u32) -> Self {
        Self {
            number,
            state: State::Closed,
            flights: Queue::with_capacity(depth as usize + 1),
            window: Window::default(),
            idle_since_ns: 0,
            quiet: 0,
            traffic: Traffic::default(),
            connection: Connection::new(protocol),
            socket: None,
            awaits_room: false,
        }
    }

    /// Starts to connect under a token.
    ///
    /// # Errors
    /// When the kernel refuses; `WouldBlock` when a Unix socket's queue is full.
    pub fn open(&mut self, address: &Address, poller: &Poller, token: u64) -> io::Result<()> {
        let socket = Socket::connect(address)?;
        // Room to write is the sign that a TCP connection is made; the greeting goes then.
        poller.add(&socket, token, Interest::ReadWrite)?;
        self.awaits_room = true;
        self.socket = Some(socket);
        self.connection = Connection::new(self.connection.protocol());
        self.connection.version();
        self.state = State::Greeting;
        self.quiet = 0;
        Ok(())
    }

    /// Drops the socket; the kernel forgets its place in the poller with it.
    pub fn close(&mut self) {
        self.socket = None;
        self.state = State::Closed;
    }

    /// Reads once; the number of bytes, 0 when there was nothing.
    ///
    /// # Errors
    /// When the server closed the connection, or the socket failed.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Loss> {
        let Some(socket) = &mut self.socket else { return Ok(0) };
        match socket.read(buffer) {
            Ok(0) => Err(Loss::Protocol(
                self.connection
                    .end_of_input()
                    .unwrap_or(Error::Closed { outstanding: 0 }),
            )),
            Ok(count) => {
                self.traffic.wire_received_bytes += count as u64;
                Ok(count)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(Loss::Socket(error)),
        }
    }

    /// Writes what is to be sent, and waits for room where there is none.
    ///
    /// # Errors
    /// When the socket failed.
    #[inline]
    pub fn flush(&mut self, poller: &Poller, token: u64) -> Result<(), Loss> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        while !self.connection.outgoing().is_empty() {
            match socket.write(self.connection.outgoing()) {
                Ok(count) => {
                    self.traffic.wire_sent_bytes += count as u64;
                    self.connection.sent(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.awaits_room {
                        self.awaits_room = true;
                        poller
                            .modify(socket, token, Interest::ReadWrite)
                            .map_err(Loss::Socket)?;
                    }
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Loss::Socket(error)),
            }
        }
        if self.awaits_room {
            self.awaits_room = false;
            poller.modify(socket, token, Interest::Read).map_err(Loss::Socket)?;
        }
        Ok(())
    }

    /// Puts the first command of an operation into the output; true when it is quiet.
    ///
    /// # Errors
    /// When the protocol cannot carry it.
    #[inline]
    pub fn ask(
        &mut self,
        workload: &Workload,
        operation: &Operation,
        number: u64,
        scratch: &mut Scratch,
    ) -> Result<bool, Error> {
        let detail = if operation.verify {
            Detail::Deliver
        } else {
            Detail::Skip
        };
        scratch.key.clear();
        match operation.command {
            Command::Get => {
                workload.keys.write(operation.key, &mut scratch.key);
                self.connection.get(&scratch.key, false, detail)?;
            }
            Command::Gets => {
                workload.keys.write(operation.key, &mut scratch.key);
                self.connection.get(&scratch.key, true, Detail::Deliver)?;
            }
            Command::Set => {
                let quiet = workload.quiet_sets;
                self.store(Store::Set, workload, operation.key, number, quiet, scratch)?;
                return Ok(quiet);
            }
            Command::MultiGet => {
                workload.multi_get(number, &mut scratch.key, &mut scratch.ends);
                let keys = scratch.ends.iter().scan(0, |start, end| {
                    let key = &scratch.key[*start..*end];
                    *start = *end;
                    Some(key)
                });
                self.connection.multi_get(keys, detail)?;
            }
            Command::Increment => {
                workload.write_counter(operation.key, &mut scratch.key);
                self.connection
                    .arithmetic(dyno_kv::Arithmetic::Increment, &scratch.key, 1, false)?;
            }
            Command::Delete => {
                workload.keys.write(operation.key, &mut scratch.key);
                self.connection.delete(&scratch.key, false)?;
            }
            Command::Cas | Command::Barrier => self.connection.noop(),
        }
        Ok(false)
    }

    /// Puts a store of the key's value in this version into the output.
    ///
    /// # Errors
    /// When the protocol cannot carry it.
    pub fn store(
        &mut self,
        store: Store,
        workload: &Workload,
        key: u64,
        version: u64,
        quiet: bool,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        scratch.key.clear();
        workload.keys.write(key, &mut scratch.key);
        workload.values.write(key, version, &mut scratch.value);
        let item = Item {
            key: &scratch.key,
            flags: 0,
            ttl_s: workload.ttl_s,
            value: &scratch.value,
        };
        self.connection.store(store, &item, quiet)
    }

    /// Bytes since the last call.
    pub fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }
}

/// Why a connection is gone.
#[derive(Debug)]
pub enum Loss {
    /// The protocol or the server ended it.
    Protocol(Error),
    /// The socket failed.
    Socket(io::Error),
}

impl Loss {
    /// Code and message, for the counts; codes as for SQL.
    pub fn describe(&self) -> (u16, String) {
        match self {
            Self::Protocol(error @ Error::Closed { .. }) => (client_code::SERVER_LOST, error.to_string()),
            Self::Protocol(error) => (client_code::MALFORMED_PACKET, error.to_string()),
            Self::Socket(error) => (client_code::SERVER_LOST, format!("the connection failed: {error}")),
        }
    }
}
