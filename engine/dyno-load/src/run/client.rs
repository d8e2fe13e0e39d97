//! One connection of a worker: its socket, its protocol state, and the transaction it is in.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_core::queue::Queue;
use dyno_mysql::{Connection, Counters, Detail, Done, Error, Event, ServerError, Statement, TlsInfo, Value};

use super::poller::{Interest, Poller};
use super::settings::Settings;
use super::socket::{Address, Socket};
use crate::recorder::Part;
use crate::tpcc::{Execution, Id, Next};
use crate::workload::{text, Context, StatementKind, Transaction};

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Without a socket.
    Closed,
    /// Connecting, and logging in.
    LoggingIn,
    /// Preparing the statement of this slot.
    Preparing(usize),
    /// Free.
    Idle,
    /// In a transaction.
    Busy,
    /// Between transactions, until its timer.
    Thinking,
}

/// An answer of the server, without its rows.
#[derive(Debug)]
pub enum Reply {
    /// Logged in.
    Ready,
    /// A statement succeeded.
    Done(Done),
    /// A statement is prepared.
    Prepared(Statement),
    /// A statement failed.
    Failed(ServerError),
}

/// Why a connection is gone.
#[derive(Debug)]
pub enum Loss {
    /// The protocol or the server ended it.
    Protocol(Error),
    /// The socket failed.
    Socket(io::Error),
    /// A row that the workload counts on is not there.
    Missing(&'static str),
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    /// Its number in the whole run.
    pub number: u32,
    /// What it is doing.
    pub state: State,
    /// The transaction it is in, or was in last.
    pub transaction: Transaction,
    /// The same for TPC-C; none in the OLTP workloads.
    pub execution: Option<Box<Execution>>,
    /// Statements of TPC-C whose answers are outstanding.
    sent: Queue<Id>,
    /// Whether one of them has failed: the rest of the answers means nothing.
    pub failing: bool,
    /// Whether the transaction is under way, be it on a connection that is being made again.
    pub active: bool,
    /// Whether that transaction belongs to the measurement (in an open loop, by its intended time).
    pub measured: bool,
    /// When the transaction was due.
    pub intended_ns: u64,
    /// When its first statement was sent.
    pub started_ns: u64,
    /// When the current statement was sent.
    pub statement_ns: u64,
    /// What the current statement is.
    pub kind: StatementKind,
    /// Since when the connection has been free.
    pub idle_since_ns: u64,
    socket: Option<Socket>,
    connection: Connection,
    statements: Vec<Option<Statement>>,
    awaits_room: bool,
    rare: Box<Rare>,
}

/// What no operation touches: kept out of the way of what each one does.
#[derive(Debug)]
struct Rare {
    /// What was taken already of this connection's counters.
    counted: Counters,
    /// What connections before this one carried and nobody has taken yet.
    earlier: Counters,
    /// The part of connecting that is under way, and since when.
    part: (Part, u64),
}

impl Client {
    /// A connection without a socket.
    pub fn new(number: u32, settings: &Settings) -> Self {
        Self {
            number,
            state: State::Closed,
            transaction: Transaction::start(&settings.context, 0),
            execution: settings.context.tpcc.is_some().then(Box::default),
            sent: Queue::default(),
            failing: false,
            active: false,
            measured: false,
            intended_ns: 0,
            started_ns: 0,
            statement_ns: 0,
            kind: StatementKind::Connect,
            idle_since_ns: 0,
            socket: None,
            connection: Connection::new(Arc::clone(&settings.options)),
            statements: Vec::new(),
            awaits_room: false,
            rare: Box::new(Rare {
                counted: Counters::default(),
                earlier: Counters::default(),
                part: (Part::Greeting, 0),
            }),
        }
    }

    /// Starts to connect under a token.
    ///
    /// # Errors
    /// When the kernel refuses; `WouldBlock` when a Unix socket's queue is full.
    pub fn open(&mut self, address: &Address, poller: &Poller, token: u64, settings: &Settings) -> io::Result<()> {
        self.rare.part = (Part::Greeting, now_ns());
        let socket = Socket::connect(address)?;
        poller.add(&socket, token, Interest::Read)?;
        self.socket = Some(socket);
        self.rare.earlier = self.take_counters();
        self.connection = Connection::new(Arc::clone(&settings.options));
        self.rare.counted = Counters::default();
        self.statements.clear();
        self.sent.clear();
        self.failing = false;
        self.awaits_room = false;
        self.state = State::LoggingIn;
        Ok(())
    }

    /// The part of connecting that has ended since the last call, and how long it took.
    pub fn ended_part(&mut self, now: u64) -> Option<(Part, u64)> {
        let (part, since) = self.rare.part;
        let current = Part::of(self.connection.phase());
        if current == part {
            return None;
        }
        self.rare.part = (current, now);
        Some((part, now.saturating_sub(since)))
    }

    /// How long the statements took with which the connection was made ready.
    pub fn statements_ns(&self, now: u64) -> u64 {
        now.saturating_sub(self.rare.part.1)
    }

    /// Drops the socket; the kernel forgets its place in the poller with it.
    pub fn close(&mut self) {
        self.socket = None;
        self.state = State::Closed;
    }

    /// Says goodbye as far as the socket takes it, and drops the socket.
    pub fn quit(&mut self) {
        if self.connection.quit().is_ok() {
            if let Some(socket) = &mut self.socket {
                // The server notices the closed socket too: a goodbye that does not fit is no loss.
                if let Ok(count) = socket.write(self.connection.outgoing()) {
                    self.connection.sent(count);
                }
            }
        }
        self.close();
    }

    /// Reads once; the number of bytes, 0 when there was nothing.
    ///
    /// # Errors
    /// When the server closed the connection, or the socket failed.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Loss> {
        let Some(socket) = &mut self.socket else { return Ok(0) };
        match socket.read(buffer) {
            Ok(0) => {
                let error = self
                    .connection
                    .end_of_input()
                    .unwrap_or(Error::Closed("while it was idle"));
                Err(Loss::Protocol(error))
            }
            Ok(count) => Ok(count),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(Loss::Socket(error)),
        }
    }

    /// The next answer in the bytes received; `None` when they are used up.
    ///
    /// # Errors
    /// When the connection is of no more use.
    #[inline]
    pub fn reply(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, Loss> {
        loop {
            return match self.connection.advance(input) {
                Ok(Some(Event::Done(done))) => Ok(Some(Reply::Done(done))),
                Ok(Some(Event::Ready)) => Ok(Some(Reply::Ready)),
                Ok(Some(Event::Prepared(statement))) => Ok(Some(Reply::Prepared(statement))),
                Ok(Some(Event::Failed(error))) => Ok(Some(Reply::Failed(error))),
                Ok(Some(Event::Columns(_))) => continue,
                Ok(Some(Event::Row(row))) => {
                    if let (Some(execution), Some(id)) = (&mut self.execution, self.sent.front()) {
                        execution.row(*id, &row).map_err(Loss::Protocol)?;
                    }
                    continue;
                }
                Ok(None) => Ok(None),
                Err(error) => Err(Loss::Protocol(error)),
            };
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
                Ok(count) => self.connection.sent(count),
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

    /// Asks the server to prepare the statement of a slot; false when there is no such slot.
    ///
    /// # Errors
    /// When the connection is of no more use.
    pub fn prepare(&mut self, slot: usize, texts: &[Option<String>]) -> Result<bool, Loss> {
        let Some(text) = texts.get(slot) else { return Ok(false) };
        self.state = State::Preparing(slot);
        let detail = if self.execution.is_some() {
            Detail::Rows
        } else {
            Detail::Skip
        };
        match text {
            Some(text) => self
                .connection
                .prepare(text.as_bytes(), detail)
                .map_err(Loss::Protocol)?,
            None => {
                self.statements.push(None);
                return self.prepare(slot + 1, texts);
            }
        }
        Ok(true)
    }

    /// Keeps a prepared statement; `None` for one that the server cannot prepare, which then goes as text.
    pub fn keep(&mut self, statement: Option<Statement>) {
        self.statements.push(statement);
    }

    /// Puts the next statement of the transaction into the output; false when the transaction is complete.
    ///
    /// # Errors
    /// When the connection is of no more use.
    #[inline]
    pub fn send_next(&mut self, context: &Context, slots: &[usize]) -> Result<bool, Loss> {
        if context.tpcc.is_some() {
            return self.send_next_of_tpcc(context);
        }
        let Some(call) = self.transaction.call(context) else {
            return Ok(false);
        };
        let statement = &context.definition.statements[call.statement];
        self.kind = statement.kind;
        let (connection, statements) = (&mut self.connection, &mut self.statements);
        self.transaction
            .advance(context, self.number, |request| {
                let offset = if statement.per_table {
                    request.table as usize - 1
                } else {
                    0
                };
                let slot = slots[request.statement] + offset;
                match statements.get_mut(slot) {
                    Some(Some(prepared)) => connection.execute(prepared, request.values, Detail::Skip),
                    _ => connection.query_with(Detail::Skip, |out| {
                        text::render(out, &statement.template, request.table, request.values);
                    }),
                }
            })
            .map_err(Loss::Protocol)?;
        Ok(true)
    }

    /// The same for TPC-C, whose statements have one slot each, and whose rows are read.
    #[inline]
    fn send_next_of_tpcc(&mut self, context: &Context) -> Result<bool, Loss> {
        let Some(execution) = &mut self.execution else {
            return Ok(false);
        };
        let pipelining = context.tpcc.as_ref().is_some_and(|plan| plan.pipelining);
        let (connection, statements, sent) = (&mut self.connection, &mut self.statements, &mut self.sent);
        loop {
            let outstanding = sent.len();
            if outstanding > 0 && !pipelining {
                return Ok(true);
            }
            let send = |id: Id, values: &[Value<'_>]| {
                sent.push_back(id);
                match statements.get_mut(id as usize) {
                    Some(Some(prepared)) => connection.execute(prepared, values, Detail::Rows),
                    _ => connection.query_with(Detail::Rows, |out| {
                        text::render(out, &context.definition.statements[id as usize].template, 0, values);
                    }),
                }
            };
            match execution.advance(outstanding, send) {
                Ok(Next::Sent(result)) => result.map_err(Loss::Protocol)?,
                Ok(Next::Wait) => return Ok(true),
                Ok(Next::End) => return Ok(false),
                Err(row) => return Err(Loss::Missing(row)),
            }
        }
    }

    /// A statement has its answer: what it was, and whether others of its transaction have none yet.
    #[inline]
    pub fn answered(&mut self, context: &Context) -> (StatementKind, bool) {
        if let Some(id) = self.sent.pop_front() {
            self.kind = context.definition.statements[id as usize].kind;
        }
        (self.kind, !self.sent.is_empty())
    }

    /// Makes ready for operation `number`.
    pub fn begin(&mut self, context: &Context, number: u64) {
        self.transaction = Transaction::start(context, number);
        if let (Some(execution), Some(plan)) = (&mut self.execution, &context.tpcc) {
            execution.begin(plan, number);
        }
    }

    /// Back to the first statement; `undo` says whether the server still holds what failed.
    pub fn restart(&mut self, context: &Context, undo: bool) {
        match &mut self.execution {
            Some(execution) => execution.retry(undo),
            None => self.transaction.restart(context),
        }
    }

    /// What passed over this connection, and those before it, since the last call.
    pub fn take_counters(&mut self) -> Counters {
        let now = *self.connection.counters();
        let since = now.since(&self.rare.counted).plus(&self.rare.earlier);
        self.rare.counted = now;
        self.rare.earlier = Counters::default();
        since
    }

    /// What TLS came to; none in plain text.
    pub fn tls(&self) -> Option<TlsInfo> {
        self.connection.tls()
    }
}

impl Loss {
    /// Code and message, for the counts.
    pub fn describe(&self) -> (u16, String) {
        use crate::recorder::client_code;
        match self {
            Self::Protocol(Error::Server(error)) => (error.code, error.to_string()),
            Self::Protocol(error @ Error::Closed(_)) => (client_code::SERVER_LOST, error.to_string()),
            Self::Protocol(error) => (client_code::MALFORMED_PACKET, error.to_string()),
            Self::Missing(row) => (
                client_code::UNEXPECTED_DATA,
                format!("{row} is not there: the tables are not those of `dynoload tpcc prepare`"),
            ),
            Self::Socket(error) => (client_code::SERVER_LOST, format!("the connection failed: {error}")),
        }
    }
}

/// For each statement of the workload the number of its first slot, and for each slot the text to prepare.
pub fn slots(context: &Context, prepared: bool) -> (Vec<usize>, Vec<Option<String>>) {
    let mut firsts = Vec::new();
    let mut texts = Vec::new();
    for statement in &context.definition.statements {
        firsts.push(texts.len());
        let tables = if statement.per_table { context.options.tables } else { 1 };
        let text = |table| (prepared && !statement.always_text).then(|| statement.text(table));
        texts.extend((1..=tables).map(text));
    }
    (firsts, texts)
}
