//! One connection to a memcached server: its protocol state, and the operations in flight on it.

use std::io;
use std::sync::Arc;

use dyno_core::queue::Queue;
use dyno_kv::{Connection, Done, Error, Event, ServerError, Status, Store};
use dyno_loop::arrivals::NoTerminals;
use dyno_loop::recorder::{client_code, Traffic};
use dyno_loop::{Failure, LoadSettings, Loss, Operation, Session, SlotState, Step, Stop, Tally};

use super::flights::{count, value_found, Flight, Requests};
use super::keys::Window;
use super::record::{Command, KvRecord};
use super::{KvSettings, Workload};

/// Quiet requests of a closed loop between two that have a reply.
const QUIET_AT_A_TIME: u32 = 64;

/// The binary protocol's statuses stand for the words of text and meta in the counts of errors.
const UNKNOWN_COMMAND: u16 = 0x81;
const INVALID_ARGUMENTS: u16 = 0x04;
const OUT_OF_MEMORY: u16 = 0x82;
const INTERNAL_ERROR: u16 = 0x84;

/// What the connections of one worker share.
#[derive(Debug)]
pub struct WorkerState {
    settings: Arc<KvSettings>,
    requests: Requests,
}

/// One connection.
#[derive(Debug)]
pub struct KvSession {
    /// Its number in the whole run.
    number: u32,
    /// Whether the server has answered the greeting: the question for its version, which shows that it serves us.
    is_greeted: bool,
    /// Commands without an answer, the oldest first.
    flights: Queue<Flight>,
    /// Its keys, where connections have keys of their own.
    window: Window,
    /// Quiet commands since the last that has a reply.
    quiet: u32,
    /// Number of the last operation that was started.
    last_number: u64,
    /// Bytes since they were last taken.
    traffic: Traffic,
    connection: Connection,
}

impl KvSession {
    /// The end of a reply: of the oldest command that has one, and of the quiet ones before it.
    #[inline]
    fn answered(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<KvRecord>,
        now: u64,
        done: &Done,
    ) -> Result<Option<Step>, Stop> {
        let workload = &shared.settings.workload;
        let Some(mut flight) = self.take_flight(workload, tally, now) else {
            return Ok(None);
        };
        count(tally, workload, &flight, now, done);
        if flight.command == Command::Gets && done.hits > 0 {
            flight.command = Command::Cas;
            flight.sent_ns = now;
            let (store, number) = (Store::Cas(flight.cas), flight.operation.number);
            shared
                .requests
                .store(&mut self.connection, workload, store, (flight.key, number), false)
                .map_err(|error| unsendable(&error))?;
            self.flights.push_back(flight);
            return Ok(None);
        }
        complete(tally, &flight, now);
        Ok(Some(Step::Free {
            number: flight.operation.number,
            at_ns: now,
        }))
    }

    /// The flight that a reply belongs to; quiet ones before it are completed with it.
    #[inline]
    fn take_flight(&mut self, workload: &Workload, tally: &mut Tally<KvRecord>, now: u64) -> Option<Flight> {
        loop {
            let flight = self.flights.pop_front()?;
            if !flight.quiet {
                return Some(flight);
            }
            let done = Done {
                status: Status::Success,
                hits: 0,
                keys: 0,
            };
            count(tally, workload, &flight, now, &done);
            complete(tally, &flight, now);
        }
    }

    /// The server refused a command: that costs the operation when the error is ignored, else the run.
    #[cold]
    fn refused(
        &mut self,
        shared: &WorkerState,
        tally: &mut Tally<KvRecord>,
        now: u64,
        error: &ServerError,
    ) -> Result<Option<Step>, Stop> {
        let code = code_of(error);
        tally.recorder().errors.record(code, &error.message);
        let Some(flight) = self.take_flight(&shared.settings.workload, tally, now) else {
            return Ok(None);
        };
        tally.refused(flight.operation.measured);
        let recorder = tally.recorder();
        if !shared.settings.load.ignored_errors.contains(code) {
            recorder.counts.errors += 1;
            let message = format!(
                "{} (command {}); --ignore-errors {code} would continue with the next operation",
                error.message,
                flight.command.name()
            );
            return Err(Failure::with_code(code, message).into());
        }
        recorder.counts.ignored_errors += 1;
        tally.in_flight -= 1;
        Ok(Some(Step::Free {
            number: flight.operation.number,
            at_ns: now,
        }))
    }
}

impl Session for KvSession {
    type Settings = KvSettings;
    type Shared = WorkerState;
    type Extra = KvRecord;
    type Terminals = NoTerminals;

    const OPERATION: &'static str = "operation";
    // memcached's queue has 1,024 places.
    const CONNECTING_AT_A_TIME: usize = 64;
    const CONNECT_HINT: &'static str = "raise the server's limit of connections (memcached -c)";
    const RESUMES: bool = false;

    fn load(settings: &KvSettings) -> &LoadSettings {
        &settings.load
    }

    fn terminals(_settings: &KvSettings) -> Option<NoTerminals> {
        None
    }

    fn slots(settings: &KvSettings) -> u32 {
        settings.depth
    }

    fn share(settings: Arc<KvSettings>) -> io::Result<WorkerState> {
        Ok(WorkerState {
            settings,
            requests: Requests::default(),
        })
    }

    fn new(shared: &WorkerState, number: u32) -> Self {
        Self {
            number,
            is_greeted: false,
            flights: Queue::with_capacity(shared.settings.depth as usize + 1),
            window: Window::default(),
            quiet: 0,
            last_number: 0,
            traffic: Traffic::default(),
            connection: Connection::new(shared.settings.protocol),
        }
    }

    fn opened(&mut self, _shared: &WorkerState, _now_ns: u64) {
        self.connection = Connection::new(self.connection.protocol());
        self.connection.version();
        self.is_greeted = false;
        self.quiet = 0;
    }

    #[inline]
    fn start(&mut self, shared: &mut WorkerState, operation: Operation, _is_ready: bool) -> Result<SlotState, Stop> {
        let settings = &shared.settings;
        let place = (u64::from(self.number), u64::from(settings.load.shape.connections));
        let request = settings.workload.operation(operation.number, place, &mut self.window);
        let quiet = shared
            .requests
            .begin(&mut self.connection, &settings.workload, &request, operation.number)
            .map_err(|error| unsendable(&error))?;
        self.last_number = operation.number;
        self.flights.push_back(Flight {
            operation,
            key: request.key,
            sent_ns: operation.started_ns,
            cas: 0,
            command: request.command,
            quiet,
            verify: request.verify,
        });
        if !quiet {
            self.quiet = 0;
            return Ok(SlotState::Busy);
        }
        self.quiet += 1;
        Ok(SlotState::Free {
            may_follow: self.quiet < QUIET_AT_A_TIME,
        })
    }

    fn request_reply(&mut self, now_ns: u64) {
        self.quiet = 0;
        self.connection.noop();
        self.flights.push_back(Flight::barrier(self.last_number, now_ns));
    }

    #[inline]
    fn advance(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<KvRecord>,
        input: &mut &[u8],
        now: u64,
    ) -> Result<Step, Stop> {
        loop {
            let event = match self.connection.advance(input) {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(Step::Pending),
                Err(error) => return Err(loss(&error).into()),
            };
            if !self.is_greeted {
                match event {
                    Event::Done(_) => {
                        self.is_greeted = true;
                        return Ok(Step::Ready);
                    }
                    Event::Failed(error) => {
                        return Err(Failure::new(format!("the server refused the connection: {error}")).into());
                    }
                    _ => continue,
                }
            }
            let step = match event {
                Event::Done(done) => self.answered(shared, tally, now, &done)?,
                Event::Value { key, cas, data, .. } => {
                    let counts = &mut tally.recorder().extra.counts;
                    value_found(&mut self.flights, &shared.settings.workload, counts, (key, cas, data));
                    None
                }
                Event::Failed(error) => self.refused(shared, tally, now, &error)?,
                Event::QuietFailed(_) => {
                    tally.recorder().extra.counts.not_stored += 1;
                    None
                }
                Event::Stat { .. } | Event::Version(_) => None,
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    fn lost(&mut self, tally: &mut Tally<KvRecord>) {
        let operations = self.flights.iter().filter(|flight| flight.command != Command::Barrier);
        tally.recorder().extra.counts.lost += operations.count() as u64;
        tally.given_up(self.in_flight(true), self.in_flight(false));
        tally.in_flight -= self.flights.len() as u64;
        self.flights.clear();
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(&Operation)) {
        let operations = self.flights.iter().filter(|flight| flight.command != Command::Barrier);
        operations.for_each(|flight| each(&flight.operation));
    }

    #[inline]
    fn outgoing(&self) -> &[u8] {
        self.connection.outgoing()
    }

    #[inline]
    fn sent(&mut self, count: usize) {
        self.traffic.wire_sent_bytes += count as u64;
        self.connection.sent(count);
    }

    #[inline]
    fn received(&mut self, count: usize) {
        self.traffic.wire_received_bytes += count as u64;
    }

    fn end_of_input(&mut self) -> Loss {
        let error = self.connection.end_of_input();
        loss(&error.unwrap_or(Error::Closed { outstanding: 0 }))
    }

    fn take_traffic(&mut self) -> Traffic {
        let traffic = std::mem::take(&mut self.traffic);
        // There is neither compression nor TLS: the bytes on the wire are those of the protocol.
        Traffic {
            raw_sent_bytes: traffic.wire_sent_bytes,
            raw_received_bytes: traffic.wire_received_bytes,
            compressed_sent_bytes: traffic.wire_sent_bytes,
            compressed_received_bytes: traffic.wire_received_bytes,
            ..traffic
        }
    }
}

/// Counts a whole operation; a barrier is none.
#[inline]
fn complete(tally: &mut Tally<KvRecord>, flight: &Flight, now: u64) {
    if flight.command == Command::Barrier {
        tally.in_flight -= 1;
    } else {
        tally.completed(&flight.operation, now, flight.command.is_whole_operation());
    }
}

/// A loss by an error of the protocol; codes as for SQL.
#[cold]
fn loss(error: &Error) -> Loss {
    let code = match error {
        Error::Closed { .. } => client_code::SERVER_LOST,
        _ => client_code::MALFORMED_PACKET,
    };
    Loss::new(code, error.to_string())
}

/// A request that the protocol cannot carry.
#[cold]
fn unsendable(error: &Error) -> Stop {
    Failure::new(error.to_string()).into()
}

/// The number under which a refusal is counted.
fn code_of(error: &ServerError) -> u16 {
    let message = &error.message;
    match error.status {
        Some(status) => status,
        None if message.starts_with("SERVER_ERROR out of memory") => OUT_OF_MEMORY,
        None if message.starts_with("SERVER_ERROR") => INTERNAL_ERROR,
        None if message.starts_with("CLIENT_ERROR") => INVALID_ARGUMENTS,
        None => UNKNOWN_COMMAND,
    }
}
