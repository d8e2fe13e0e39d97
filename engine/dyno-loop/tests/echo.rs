//! The loop with a protocol of eight bytes: a request is a number, and its reply is the same number.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dyno_core::histogram::Histogram;
use dyno_core::schedule::{ArrivalSchedule, Arrivals};
use dyno_loop::arrivals::TerminalCycle;
use dyno_loop::recorder::{client_code, Extra, Traffic};
use dyno_loop::{
    Address, IgnoredErrors, Interval, LoadSettings, LoadShape, Loss, Observer, Operation, OperationLimit, Outcome,
    Overload, Rest, Session, SlotState, Step, Stop, Tally,
};

const MILLISECOND: u64 = 1_000_000;

/// An echo server; each connection ends after `replies` replies, where that is given. Ends with the test's process.
fn start_server(replies: Option<usize>) -> SocketAddr {
    start_counting_server(replies, Arc::default())
}

/// The same; `open` is the number of its connections.
fn start_counting_server(replies: Option<usize>, open: Arc<AtomicUsize>) -> SocketAddr {
    start_slow_server(replies, open, Duration::ZERO)
}

/// The same; each reply takes `delay`.
fn start_slow_server(replies: Option<usize>, open: Arc<AtomicUsize>, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let open = Arc::clone(&open);
            open.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut request = [0; 8];
                for _ in 0..replies.unwrap_or(usize::MAX) {
                    let is_read = stream.read_exact(&mut request).is_ok();
                    std::thread::sleep(delay);
                    if !is_read || stream.write_all(&request).is_err() {
                        open.fetch_sub(1, Ordering::SeqCst);
                        return;
                    }
                }
                // Requests left unread would turn the end of the connection into a reset.
                let _ = stream.shutdown(Shutdown::Write);
                while stream.read(&mut request).is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

/// Terminals that are all due at the start, and again `pause_ns` after each operation.
#[derive(Debug, Clone, Copy)]
struct Cycle {
    terminals: u32,
    pause_ns: u64,
}

impl TerminalCycle for Cycle {
    fn terminals(&self) -> u32 {
        self.terminals
    }

    fn first_due_ns(&self, _: u64) -> u64 {
        0
    }

    fn key_ns(&self, _: u64) -> u64 {
        0
    }

    fn think_ns(&self, _: u64) -> u64 {
        self.pause_ns
    }
}

struct Settings {
    load: LoadSettings,
    cycle: Option<Cycle>,
    slots: u32,
    /// The numbers of completed operations.
    completed: Mutex<Vec<u64>>,
}

/// Operations lost with their connection.
#[derive(Debug, Default)]
struct Losses(u64);

impl Extra for Losses {
    type Sums = u64;

    fn add_to(&self, sums: &mut u64) {
        *sums += self.0;
    }

    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }

    fn merge_latencies(&mut self, _: &Self) {}

    fn clear(&mut self) {
        self.0 = 0;
    }
}

struct EchoSession {
    output: Vec<u8>,
    input: Vec<u8>,
    operations: VecDeque<Operation>,
    is_ready: bool,
}

impl EchoSession {
    fn send(&mut self, number: u64) {
        self.output.extend_from_slice(&number.to_le_bytes());
    }
}

impl Session for EchoSession {
    type Settings = Settings;
    type Shared = Arc<Settings>;
    type Extra = Losses;
    type Terminals = Cycle;

    const OPERATION: &'static str = "echo";
    const CONNECTING_AT_A_TIME: usize = 2;
    const CONNECT_HINT: &'static str = "look at the echo server";
    const RESUMES: bool = false;

    fn load(settings: &Settings) -> &LoadSettings {
        &settings.load
    }

    fn terminals(settings: &Settings) -> Option<Cycle> {
        settings.cycle
    }

    fn slots(settings: &Settings) -> u32 {
        settings.slots
    }

    fn share(settings: Arc<Settings>) -> io::Result<Arc<Settings>> {
        Ok(settings)
    }

    fn new(_: &Arc<Settings>, _: u32) -> Self {
        Self {
            output: Vec::new(),
            input: Vec::new(),
            operations: VecDeque::new(),
            is_ready: false,
        }
    }

    fn opened(&mut self, _: &Arc<Settings>, _: u64) {
        (self.output, self.input, self.is_ready) = (Vec::new(), Vec::new(), false);
        self.send(u64::MAX);
    }

    fn start(&mut self, _: &mut Arc<Settings>, operation: Operation, _: bool) -> Result<SlotState, Stop> {
        self.send(operation.number);
        self.operations.push_back(operation);
        Ok(SlotState::Busy)
    }

    fn advance(
        &mut self,
        shared: &mut Arc<Settings>,
        tally: &mut Tally<Losses>,
        input: &mut &[u8],
        now: u64,
    ) -> Result<Step, Stop> {
        self.input.extend_from_slice(input);
        *input = &[];
        if self.input.len() < 8 {
            return Ok(Step::Pending);
        }
        let reply: Vec<u8> = self.input.drain(..8).collect();
        let number = u64::from_le_bytes(reply.try_into().unwrap());
        if !self.is_ready {
            assert_eq!(number, u64::MAX);
            self.is_ready = true;
            return Ok(Step::Ready);
        }
        let operation = self.operations.pop_front().unwrap();
        assert_eq!(operation.number, number, "replies come in the order of the requests");
        tally.completed(&operation, now, false);
        shared.completed.lock().unwrap().push(number);
        Ok(Step::Free { number, at_ns: now })
    }

    fn lost(&mut self, tally: &mut Tally<Losses>) {
        tally.recorder().extra.0 += self.operations.len() as u64;
        tally.given_up(self.in_flight(true), self.in_flight(false));
        tally.in_flight -= self.operations.len() as u64;
        self.operations.clear();
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(&Operation)) {
        self.operations.iter().for_each(each);
    }

    fn outgoing(&self) -> &[u8] {
        &self.output
    }

    fn sent(&mut self, count: usize) {
        self.output.drain(..count);
    }

    fn end_of_input(&mut self) -> Loss {
        Loss::new(client_code::SERVER_LOST, "the echo ended")
    }

    fn take_traffic(&mut self) -> Traffic {
        Traffic::default()
    }
}

struct Nobody;

impl<E> Observer<E> for Nobody {
    fn interval(&mut self, _: &Interval<'_, E>) -> io::Result<()> {
        Ok(())
    }
}

fn settings(address: SocketAddr, slots: u32, duration_ns: u64) -> Settings {
    let shape = LoadShape {
        threads: 2,
        connections: 5,
        warmup_ns: 0,
        duration_ns,
        grace_ns: 2_000 * MILLISECOND,
        interval_ns: 100 * MILLISECOND,
        schedule: None,
        catch_up: None,
        slowest: 3,
        has_terminals: false,
    };
    Settings {
        load: LoadSettings::new(shape, address.to_string(), Address::Tcp(address)),
        cycle: None,
        slots,
        completed: Mutex::default(),
    }
}

/// The server ends each connection, and that is no error to ignore.
fn settings_that_fail() -> Settings {
    settings(start_server(Some(40)), 1, 10_000 * MILLISECOND)
}

fn run(settings: Settings) -> (Outcome<Losses>, Vec<u64>) {
    let settings = Arc::new(settings);
    let interrupted = AtomicBool::new(false);
    let outcome = dyno_loop::run::<EchoSession>(&settings, &interrupted, &mut |_| (), &mut Nobody).unwrap();
    assert_eq!(outcome.failure, None);
    let mut completed = std::mem::take(&mut *settings.completed.lock().unwrap());
    completed.sort_unstable();
    (outcome, completed)
}

#[test]
fn a_number_of_operations_ends_the_run_and_each_is_done_once() {
    let mut settings = settings(start_server(None), 3, 60_000 * MILLISECOND);
    settings.load.limit = Some(OperationLimit::new(1_234));
    let (outcome, completed) = run(settings);
    assert_eq!(completed, (0..1_234).collect::<Vec<_>>());
    let totals = outcome.totals.unwrap();
    let measured = &totals.measured;
    assert_eq!(measured.counts.transactions, 1_234);
    let counts = [&measured.service, &measured.response, &measured.lag].map(Histogram::count);
    assert_eq!(
        counts,
        [1_234, 1_234, 0],
        "in a closed loop both latencies are the same, and there is no lag"
    );
    assert_eq!(measured.slowest.entries().len(), 3);
}

#[test]
fn the_moments_of_rest_have_every_connection_open_and_no_operation_in_progress() {
    let open = Arc::new(AtomicUsize::new(0));
    let settings = Arc::new(settings(
        start_counting_server(None, Arc::clone(&open)),
        2,
        100 * MILLISECOND,
    ));
    let mut seen = Vec::new();
    let mut at_rest = |rest| {
        let completed = settings.completed.lock().unwrap().len();
        seen.push((rest, open.load(Ordering::SeqCst), completed));
    };
    let interrupted = AtomicBool::new(false);
    dyno_loop::run::<EchoSession>(&settings, &interrupted, &mut at_rest, &mut Nobody).unwrap();
    let completed = settings.completed.lock().unwrap().len();
    assert!(completed > 0);
    assert_eq!(seen, [(Rest::BeforeLoad, 5, 0), (Rest::AfterLoad, 5, completed)]);
    // A load that fails has no second moment: the server may hang.
    let settings = Arc::new(settings_that_fail());
    let mut seen = Vec::new();
    dyno_loop::run::<EchoSession>(&settings, &interrupted, &mut |rest| seen.push(rest), &mut Nobody).unwrap();
    assert_eq!(seen, [Rest::BeforeLoad]);
}

#[test]
fn every_planned_operation_is_done_or_accounted_for() {
    let mut settings = settings(start_server(None), 1, 500 * MILLISECOND);
    let schedule = ArrivalSchedule::parse("2000", Arrivals::Poisson, 7).unwrap();
    settings.load.shape.schedule = Some(Arc::new(schedule));
    settings.load.overload = Overload::DropLate {
        limit_ns: 50 * MILLISECOND,
    };
    let (outcome, completed) = run(settings);
    let totals = outcome.totals.unwrap();
    let (end, counts) = (outcome.end, totals.measured.counts);
    assert!((800..1_200).contains(&end.planned), "{end:?}");
    let done = counts.transactions + totals.ended_after_stop;
    assert_eq!(done, completed.len() as u64);
    assert_eq!(
        end.planned,
        done + counts.dropped_late + end.unfinished + end.not_started,
        "{end:?} {counts:?}"
    );
    assert_eq!(totals.measured.response.count(), done);
    assert_eq!(totals.measured.lag.count(), done);
}

#[test]
fn a_terminal_whose_operation_is_dropped_goes_on_with_its_next() {
    let server = start_slow_server(None, Arc::default(), Duration::from_millis(5));
    let mut settings = settings(server, 1, 1_000 * MILLISECOND);
    settings.load.shape.has_terminals = true;
    settings.cycle = Some(Cycle {
        terminals: 100,
        pause_ns: 20 * MILLISECOND,
    });
    settings.load.overload = Overload::DropLate {
        limit_ns: 10 * MILLISECOND,
    };
    let (outcome, completed) = run(settings);
    let totals = outcome.totals.unwrap();
    let (end, counts) = (outcome.end, totals.measured.counts);
    // Five connections serve at most 1,000 a second, the terminals are due up to 5,000 times.
    assert!(counts.dropped_late > 200, "{counts:?}");
    let done = counts.transactions + totals.ended_after_stop;
    assert_eq!(done, completed.len() as u64);
    assert_eq!(
        end.planned,
        done + counts.dropped_late + end.unfinished + end.not_started,
        "{end:?} {counts:?}"
    );
}

#[test]
fn lost_connections_are_made_again_and_their_operations_are_counted() {
    let mut settings = settings(start_server(Some(40)), 4, 400 * MILLISECOND);
    settings.load.ignored_errors = IgnoredErrors::Codes(vec![client_code::SERVER_LOST]);
    let (outcome, completed) = run(settings);
    let totals = outcome.totals.unwrap();
    let counts = totals.all;
    assert!(
        counts.reconnects >= 5 && counts.ignored_errors >= counts.reconnects,
        "{counts:?}"
    );
    assert!(totals.sums > 0, "operations are lost with their connection");
    assert_eq!(counts.transactions, completed.len() as u64);
    assert_eq!(counts.errors, 0);
}

#[test]
fn a_loss_that_is_not_ignored_ends_the_run_with_the_connection_s_name() {
    let settings = Arc::new(settings_that_fail());
    let address = &settings.load.endpoint;
    let interrupted = AtomicBool::new(false);
    let outcome = dyno_loop::run::<EchoSession>(&settings, &interrupted, &mut |_| (), &mut Nobody).unwrap();
    let failure = outcome.failure.unwrap();
    assert_eq!(failure.code, Some(client_code::SERVER_LOST));
    assert!(
        failure.message.contains(&format!("to {address}: the echo ended")),
        "{failure}"
    );
}
