//! One connection to a MySQL or MariaDB server: its protocol state, and the transaction it is in.

mod connecting;
mod transactions;

use std::io;
use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_core::queue::Queue;
use dyno_loop::arrivals::Recording;
use dyno_loop::recorder::{client_code, Part, Traffic};
use dyno_loop::{Failure, LoadSettings, Loss, Operation, Session, SlotState, Step, Stop, Tally};
use dyno_mysql::{Connection, Counters, Done, Error, Event, ServerError, Statement};

use super::captured::CapturedWork;
use super::definition::StatementKind;
use super::file::FileWork;
use super::oltp::Transaction;
use super::record::SqlRecord;
use super::settings::{SqlSettings, SqlWorkload};
use super::tpcc::{Acknowledgements, Execution, Id, TpccConfig};

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not connected, or without a transaction.
    Idle,
    /// Connecting, and logging in.
    LoggingIn,
    /// Preparing the statement of this slot.
    Preparing(usize),
    /// In a transaction.
    Busy,
}

/// An answer of the server, without its rows.
#[derive(Debug)]
enum Reply {
    /// Logged in.
    Ready,
    /// A statement succeeded.
    Done(Done),
    /// A statement is prepared.
    Prepared(Statement),
    /// A statement failed.
    Failed(ServerError),
}

/// The transaction that a connection is in, or was in last.
#[derive(Debug)]
enum Work {
    Oltp(Transaction),
    Tpcc(Box<TpccWork>),
    File(Box<FileWork>),
    Captured(CapturedWork),
}

/// A transaction of TPC-C, whose rows are read.
#[derive(Debug, Default)]
struct TpccWork {
    execution: Execution,
    /// Statements whose answers are outstanding.
    sent: Queue<Id>,
}

/// What the connections of one worker share.
#[derive(Debug)]
pub struct WorkerState {
    settings: Arc<SqlSettings>,
    /// For each statement of the workload the number of its first slot.
    slots: Vec<usize>,
    /// For each slot the text to prepare; none where the statement is sent as text.
    texts: Vec<Option<String>>,
    /// Where committed New-Orders are written, if requested.
    acknowledgements: Option<Acknowledgements>,
}

/// One connection.
#[derive(Debug)]
pub struct SqlSession {
    state: State,
    work: Work,
    operation: Operation,
    /// Whether the transaction is in progress, be it on a connection that is being made again.
    active: bool,
    /// Whether one of its statements has failed: the rest of the answers means nothing.
    failing: bool,
    /// What the current statement is.
    kind: StatementKind,
    /// When the current statement was sent.
    statement_ns: u64,
    /// The connection's number in the whole run.
    number: u32,
    connection: Connection,
    statements: Vec<Option<Statement>>,
    cold: Box<Cold>,
}

/// What no operation touches: kept apart from what each one does.
#[derive(Debug)]
struct Cold {
    /// The part of the connection's counters that was taken already.
    counted: Counters,
    /// Counters of earlier connections that were not taken yet.
    earlier: Counters,
    /// The part of connecting that is in progress, and since when.
    part: (Part, u64),
}

impl SqlSession {
    /// The next answer in the bytes received; `None` when they are used up.
    #[inline]
    fn reply(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, Loss> {
        loop {
            return match self.connection.advance(input) {
                Ok(Some(Event::Done(done))) => Ok(Some(Reply::Done(done))),
                Ok(Some(Event::Ready)) => Ok(Some(Reply::Ready)),
                Ok(Some(Event::Prepared(statement))) => Ok(Some(Reply::Prepared(statement))),
                Ok(Some(Event::Failed(error))) => Ok(Some(Reply::Failed(error))),
                Ok(Some(Event::Columns(_))) => continue,
                Ok(Some(Event::Row(row))) => {
                    if let Work::Tpcc(work) = &mut self.work {
                        if let Some(id) = work.sent.front() {
                            work.execution.row(*id, &row).map_err(|error| loss(&error))?;
                        }
                    }
                    continue;
                }
                Ok(None) => Ok(None),
                Err(error) => Err(loss(&error)),
            };
        }
    }

    #[cold]
    fn other_reply(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        now: u64,
        reply: Reply,
    ) -> Result<Option<Step>, Stop> {
        match reply {
            Reply::Ready => {
                // A clock of its own: since the answer was read it may have cost TLS's arithmetic.
                let now = now_ns();
                self.record_part(tally, now);
                self.logged_in(shared, tally, now)
            }
            Reply::Prepared(statement) => self.prepared(shared, tally, Some(statement), now),
            Reply::Failed(error) => match self.state {
                State::Preparing(_) => self.prepare_failed(shared, tally, &error, now),
                _ => self.statement_failed(shared, tally, &error, now).map(|()| None),
            },
            Reply::Done(_) => Ok(None),
        }
    }
}

impl Session for SqlSession {
    type Settings = SqlSettings;
    type Shared = WorkerState;
    type Extra = SqlRecord;
    type Terminals = TpccConfig;

    const OPERATION: &'static str = "transaction";
    // Servers queue 50 to 150 (`back_log`).
    const CONNECTING_AT_A_TIME: usize = 16;
    const CONNECT_HINT: &'static str = "look at the server's log";
    const RESUMES: bool = true;

    fn load(settings: &SqlSettings) -> &LoadSettings {
        &settings.load
    }

    fn terminals(settings: &SqlSettings) -> Option<TpccConfig> {
        settings
            .workload
            .tpcc()
            .filter(|config| config.key_and_think_times)
            .cloned()
    }

    fn recording(settings: &SqlSettings) -> Option<Arc<Recording>> {
        match &settings.workload {
            SqlWorkload::Captured(context) => context.recording(),
            _ => None,
        }
    }

    fn needs_new_connection(&self, shared: &WorkerState, number: u64) -> bool {
        match (&self.work, &shared.settings.workload) {
            (Work::Captured(work), SqlWorkload::Captured(context)) => work.is_of_another_session(context, number),
            _ => false,
        }
    }

    fn connects_each_time(settings: &SqlSettings) -> bool {
        settings.connects_each_time()
    }

    fn share(settings: Arc<SqlSettings>) -> io::Result<WorkerState> {
        let (slots, texts) = slots(&settings);
        let acknowledgements = settings.acknowledged.as_deref().map(Acknowledgements::open);
        Ok(WorkerState {
            slots,
            texts,
            acknowledgements: acknowledgements.transpose()?,
            settings,
        })
    }

    fn new(shared: &WorkerState, number: u32) -> Self {
        Self {
            state: State::Idle,
            work: match &shared.settings.workload {
                SqlWorkload::Oltp(context) => Work::Oltp(Transaction::start(context, 0)),
                // A script has a session of its own.
                SqlWorkload::File(_) => Work::File(Box::default()),
                SqlWorkload::Captured(_) => Work::Captured(CapturedWork::default()),
                SqlWorkload::Tpcc(_) | SqlWorkload::Script(_) => Work::Tpcc(Box::default()),
            },
            operation: Operation::default(),
            active: false,
            failing: false,
            kind: StatementKind::Connect,
            statement_ns: 0,
            number,
            connection: Connection::new(Arc::clone(&shared.settings.options)),
            statements: Vec::new(),
            cold: Box::new(Cold {
                counted: Counters::default(),
                earlier: Counters::default(),
                part: (Part::Greeting, 0),
            }),
        }
    }

    fn opened(&mut self, shared: &WorkerState, now_ns: u64) {
        self.cold.part = (Part::Greeting, now_ns);
        self.cold.earlier = self.take_counters();
        self.connection = Connection::new(Arc::clone(&shared.settings.options));
        self.cold.counted = Counters::default();
        self.statements.clear();
        if let Work::Tpcc(work) = &mut self.work {
            work.sent.clear();
        }
        self.failing = false;
        self.state = State::LoggingIn;
    }

    #[inline]
    fn start(&mut self, shared: &mut WorkerState, operation: Operation, is_ready: bool) -> Result<SlotState, Stop> {
        self.begin(shared, operation);
        if is_ready {
            self.state = State::Busy;
            self.send_next(shared, operation.started_ns)?;
        }
        Ok(SlotState::Busy)
    }

    #[inline]
    fn advance(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        input: &mut &[u8],
        now: u64,
    ) -> Result<Step, Stop> {
        loop {
            match self.reply(input)? {
                Some(Reply::Done(done)) if self.state == State::Busy => {
                    if self.statement_done(shared, tally, now, &done)? {
                        return self.transaction_done(shared, tally, now);
                    }
                }
                Some(reply) => {
                    if let Some(step) = self.other_reply(shared, tally, now, reply)? {
                        return Ok(step);
                    }
                }
                None => break,
            }
        }
        if self.state == State::LoggingIn {
            self.record_part(tally, now_ns());
        }
        Ok(Step::Pending)
    }

    #[cold]
    fn resume(&mut self, shared: &mut WorkerState, now: u64) -> Result<bool, Stop> {
        if !self.active {
            return Ok(false);
        }
        self.state = State::Busy;
        self.restart(shared, false);
        self.send_next(shared, now)?;
        Ok(true)
    }

    fn lost(&mut self, _tally: &mut Tally<SqlRecord>) {
        self.state = State::Idle;
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(&Operation)) {
        if self.active {
            each(&self.operation);
        }
    }

    #[inline]
    fn outgoing(&self) -> &[u8] {
        self.connection.outgoing()
    }

    #[inline]
    fn sent(&mut self, count: usize) {
        self.connection.sent(count);
    }

    fn end_of_input(&mut self) -> Loss {
        let error = self.connection.end_of_input();
        loss(&error.unwrap_or(Error::Closed("while it was idle")))
    }

    fn say_goodbye(&mut self) {
        // A connection that is no longer usable needs no goodbye.
        let _ = self.connection.quit();
    }

    fn take_traffic(&mut self) -> Traffic {
        let counters = self.take_counters();
        Traffic {
            raw_sent_bytes: counters.raw_bytes_out,
            raw_received_bytes: counters.raw_bytes_in,
            compressed_sent_bytes: counters.compressed_bytes_out,
            compressed_received_bytes: counters.compressed_bytes_in,
            wire_sent_bytes: counters.wire_bytes_out,
            wire_received_bytes: counters.wire_bytes_in,
        }
    }

    fn interval_ended(shared: &mut WorkerState) -> Result<(), Failure> {
        match &mut shared.acknowledgements {
            Some(file) => file.flush().map_err(|error| acknowledgement_failed(&error)),
            None => Ok(()),
        }
    }
}

impl SqlSession {
    /// Bytes of this connection, and of those before it, since the last call.
    fn take_counters(&mut self) -> Counters {
        let now = *self.connection.counters();
        let since = now.since(&self.cold.counted).plus(&self.cold.earlier);
        self.cold.counted = now;
        self.cold.earlier = Counters::default();
        since
    }
}

/// A loss by an error of the protocol, or one that the server sent.
#[cold]
fn loss(error: &Error) -> Loss {
    match error {
        Error::Server(server) => Loss::new(server.code, server.to_string()),
        Error::Closed(_) => Loss::new(client_code::SERVER_LOST, error.to_string()),
        _ => Loss::new(client_code::MALFORMED_PACKET, error.to_string()),
    }
}

/// The file of acknowledged orders cannot be written.
#[cold]
fn acknowledgement_failed(error: &io::Error) -> Failure {
    Failure::new(format!("--acknowledged: the file cannot be written: {error}"))
}

/// For each statement of the workload the number of its first slot, and for each slot the text to prepare.
fn slots(settings: &SqlSettings) -> (Vec<usize>, Vec<Option<String>>) {
    let workload = &settings.workload;
    let mut firsts = Vec::new();
    let mut texts = Vec::new();
    for statement in &workload.definition().statements {
        firsts.push(texts.len());
        let tables = if statement.per_table { workload.tables() } else { 1 };
        let text = |table| (settings.prepared && !statement.always_text).then(|| statement.text(table));
        texts.extend((1..=tables).map(text));
    }
    (firsts, texts)
}
