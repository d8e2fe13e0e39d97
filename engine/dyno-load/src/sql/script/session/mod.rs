//! One connection that a script's coroutine drives.

mod answers;
mod requests;

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_loop::arrivals::NoTerminals;
use dyno_loop::recorder::{client_code, Part, Traffic};
use dyno_loop::{LoadSettings, Loss, Operation, Session, SlotState, Step, Stop, Tally};
use dyno_mysql::{Connection, Counters, Done, Error, Event, Phase, ServerError, Statement};
use smallvec::SmallVec;

use super::blocking::{BlockingConnections, Elsewhere};
use super::machine::{Machine, ScriptThread};
use super::request::{Answer, Parameter, Refusal};
use super::rows::StoredRows;
use super::template::Template;
use crate::sql::definition::StatementKind;
use crate::sql::record::SqlRecord;
use crate::sql::settings::{SqlSettings, SqlWorkload};

/// The number of the connection that the load loop serves; the script's others are blocking ones.
const OWN: usize = 1;
/// Events without a statement that may follow one another before the server is asked for a sign of life.
const QUIET_AT_A_TIME: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not connected, or between two events.
    Idle,
    /// Connecting, and logging in.
    LoggingIn,
    /// In thread_init().
    Starting,
    /// In an event.
    Busy,
    /// After events without a statement: a COM_PING is under way.
    Barrier,
}

/// What the connections of one worker share.
#[derive(Debug)]
pub struct WorkerState {
    settings: Arc<SqlSettings>,
    machine: Rc<Machine>,
}

/// A statement that the script has prepared.
#[derive(Debug)]
struct Prepared {
    sql: Template,
    kind: StatementKind,
    /// None where it goes as text.
    statement: Option<Statement>,
    /// The connection that it was prepared on.
    generation: u32,
    goes_as_text: bool,
}

/// What the answer that is awaited is for.
#[derive(Debug)]
enum Awaited {
    /// A statement.
    Statement,
    /// A new prepared statement.
    Prepare(usize),
    /// One that was prepared on a connection that is lost; its execution follows.
    PrepareAgain(usize, SmallVec<[Parameter; 4]>),
}

/// How far a script went.
#[derive(Debug, PartialEq, Eq)]
enum Went {
    /// A statement is in the output.
    Sent,
    /// thread_init() is over.
    Ready,
    /// The event is over.
    Over,
}

/// One connection.
#[derive(Debug)]
pub struct ScriptSession {
    state: State,
    operation: Operation,
    /// Whether the script waits for its next event.
    is_between: bool,
    /// Whether the event is in progress, be it on a connection that is being made again.
    active: bool,
    awaited: Awaited,
    kind: StatementKind,
    statement_ns: u64,
    number: u32,
    /// The error of the server that the script was last given.
    last_error: Option<u16>,
    connection: Connection,
    rows: StoredRows,
    statements: Vec<Prepared>,
    /// How often the connection was made.
    generation: u32,
    thread: Option<ScriptThread>,
    machine: Rc<Machine>,
    settings: Arc<SqlSettings>,
    /// Events without a statement, each with its end, that are not counted yet.
    quiet: Vec<(Operation, u64)>,
    /// Whether the script has called connect(), and whether it has closed that connection since.
    is_taken: bool,
    is_closed: bool,
    others: BlockingConnections,
    /// What other connections of the script did, not yet recorded.
    elsewhere: Elsewhere,
    counted: Counters,
    earlier: Counters,
    part: (Part, u64),
}

/// An answer of the server, without its rows.
enum Received {
    Ready,
    Done(Done),
    Prepared(Statement),
    Failed(ServerError),
}

impl ScriptSession {
    #[inline]
    fn received_next(&mut self, input: &mut &[u8]) -> Result<Option<Received>, Loss> {
        loop {
            return match self.connection.advance(input) {
                Ok(Some(Event::Row(row))) => {
                    self.rows.push(&row).map_err(|error| loss(&error))?;
                    continue;
                }
                Ok(Some(Event::Done(done))) => Ok(Some(Received::Done(done))),
                Ok(Some(Event::Columns(_))) => continue,
                Ok(Some(Event::Ready)) => Ok(Some(Received::Ready)),
                Ok(Some(Event::Prepared(statement))) => Ok(Some(Received::Prepared(statement))),
                Ok(Some(Event::Failed(error))) => Ok(Some(Received::Failed(error))),
                Ok(None) => Ok(None),
                Err(error) => Err(loss(&error)),
            };
        }
    }

    /// Records the part of connecting that has ended since the last call, if any.
    #[cold]
    fn record_part(&mut self, tally: &mut Tally<SqlRecord>, now: u64) {
        let current = match self.connection.phase() {
            Phase::Greeting => Part::Greeting,
            Phase::Tls => Part::Tls,
            Phase::Authentication => Part::Authentication,
            Phase::Initialisation | Phase::Ready => Part::Statements,
        };
        let (part, since) = self.part;
        if current != part {
            self.part = (current, now);
            tally.recorder().connecting.record(part, now.saturating_sub(since));
        }
    }

    fn take_counters(&mut self) -> Counters {
        let now = *self.connection.counters();
        let since = now.since(&self.counted).plus(&self.earlier);
        self.counted = now;
        self.earlier = Counters::default();
        since
    }
}

impl Session for ScriptSession {
    type Settings = SqlSettings;
    type Shared = WorkerState;
    type Extra = SqlRecord;
    type Terminals = NoTerminals;

    const OPERATION: &'static str = "event";
    const CONNECTING_AT_A_TIME: usize = 16;
    const CONNECT_HINT: &'static str = "look at the server's log";
    const RESUMES: bool = true;

    fn load(settings: &SqlSettings) -> &LoadSettings {
        &settings.load
    }

    fn terminals(_settings: &SqlSettings) -> Option<NoTerminals> {
        None
    }

    fn share(settings: Arc<SqlSettings>) -> io::Result<WorkerState> {
        let SqlWorkload::Script(context) = &settings.workload else {
            return Err(io::Error::other("the workload is no script"));
        };
        let machine = Machine::new(context).map_err(io::Error::other)?;
        Ok(WorkerState {
            machine: Rc::new(machine),
            settings,
        })
    }

    fn new(shared: &WorkerState, number: u32) -> Self {
        let options = Arc::clone(&shared.settings.options);
        Self {
            state: State::Idle,
            operation: Operation::default(),
            is_between: false,
            active: false,
            awaited: Awaited::Statement,
            kind: StatementKind::Other,
            statement_ns: 0,
            number,
            last_error: None,
            connection: Connection::new(Arc::clone(&options)),
            rows: StoredRows::default(),
            statements: Vec::new(),
            generation: 0,
            thread: None,
            machine: Rc::clone(&shared.machine),
            settings: Arc::clone(&shared.settings),
            quiet: Vec::new(),
            is_taken: false,
            is_closed: false,
            others: BlockingConnections::new(options, shared.settings.prepared, OWN + 1),
            elsewhere: Elsewhere::default(),
            counted: Counters::default(),
            earlier: Counters::default(),
            part: (Part::Greeting, 0),
        }
    }

    fn opened(&mut self, shared: &WorkerState, now_ns: u64) {
        self.part = (Part::Greeting, now_ns);
        self.earlier = self.take_counters();
        self.connection = Connection::new(Arc::clone(&shared.settings.options));
        self.counted = Counters::default();
        self.generation += 1;
        self.state = State::LoggingIn;
    }

    #[inline]
    fn start(
        &mut self,
        _shared: &mut WorkerState,
        mut operation: Operation,
        is_ready: bool,
    ) -> Result<SlotState, Stop> {
        if let Some((_, ended_ns)) = self.quiet.last() {
            // It follows at once on an event without a statement.
            operation.started_ns = *ended_ns;
            operation.intended_ns = operation.intended_ns.max(*ended_ns);
        }
        self.operation = operation;
        self.active = true;
        if let Some(thread) = &mut self.thread {
            self.machine.begin_event(thread, operation.number);
        }
        if !is_ready {
            return Ok(SlotState::Busy);
        }
        self.state = State::Busy;
        self.machine.waited();
        match self.go_on(Answer::Goes(true))? {
            Went::Sent | Went::Ready => Ok(SlotState::Busy),
            Went::Over => {
                self.state = State::Idle;
                self.active = false;
                self.quiet.push((operation, now_ns()));
                Ok(SlotState::Free {
                    may_follow: self.quiet.len() < QUIET_AT_A_TIME,
                })
            }
        }
    }

    fn request_reply(&mut self, _now_ns: u64) {
        self.state = State::Barrier;
        // A connection that cannot be written to is found lost when it is read.
        let _ = self.connection.ping();
    }

    #[inline]
    fn advance(
        &mut self,
        _shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        input: &mut &[u8],
        now: u64,
    ) -> Result<Step, Stop> {
        while let Some(received) = self.received_next(input)? {
            self.machine.waited();
            let step = match received {
                Received::Done(done) => self.done(tally, &done, now)?,
                Received::Prepared(statement) => self.prepared(tally, Some(statement), now)?,
                Received::Failed(error) => self.refused(tally, &error, now)?,
                Received::Ready => {
                    let now = now_ns();
                    self.record_part(tally, now);
                    self.logged_in(tally, now)?
                }
            };
            self.count_others(tally);
            if let Some(step) = step {
                return Ok(step);
            }
        }
        if self.state == State::LoggingIn {
            self.record_part(tally, now_ns());
        }
        Ok(Step::Pending)
    }

    #[cold]
    fn resume(&mut self, _shared: &mut WorkerState, now: u64) -> Result<bool, Stop> {
        if !self.quiet.is_empty() && !self.active {
            self.request_reply(now);
            return Ok(true);
        }
        if !self.active {
            return Ok(false);
        }
        self.state = State::Busy;
        self.machine.waited();
        let answer = if self.is_between {
            Answer::Goes(true)
        } else {
            Answer::Refused(Refusal {
                number: client_code::SERVER_LOST,
                state: "HY000".into(),
                message: "the connection was lost during a statement, and made again".into(),
                ignorable: true,
            })
        };
        match self.go_on(answer)? {
            Went::Sent | Went::Ready => Ok(true),
            // An event without a statement ends with a reply, as others do.
            Went::Over => {
                self.request_reply(now);
                Ok(true)
            }
        }
    }

    fn lost(&mut self, _tally: &mut Tally<SqlRecord>) {
        self.state = State::Idle;
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(&Operation)) {
        if self.active {
            each(&self.operation);
        }
        self.quiet.iter().for_each(|(operation, _)| each(operation));
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
        self.finish_thread();
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
