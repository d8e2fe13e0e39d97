//! A worker: one thread, one epoll loop, its share of the connections and of the plan. Shares nothing while it runs.

use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::Arc;
use std::time::Duration;

use dyno_core::clock::now_ns;
use dyno_core::prefetch::prefetch;

use super::batch::{Batch, Batched};
use super::client::{self, Client, Reply, State};
use super::connecting::Connecting;
use super::failure::Failure;
use super::feed::Feed;
use super::poller::Poller;
use super::settings::Settings;
use super::timeline::{IntervalId, Phase, Timeline};
use super::transactions::acknowledgement_failed;
use crate::recorder::{ConnectingTimes, Recorder, ThreadUsage, UsageMeter};
use crate::tpcc::Acknowledgements;

/// Events taken from the kernel at a time.
const EVENTS: usize = 512;
/// Longest sleep, so that a stop by another worker is seen.
const LONGEST_WAIT_NS: u64 = 200_000_000;
/// With `spin`, the time before a planned operation that is burnt rather than slept.
const SPIN_NS: u64 = 50_000;

/// What a worker tells.
#[derive(Debug)]
pub enum Report {
    /// All its connections are ready; how long the parts of making them took.
    Ready(Box<ConnectingTimes>),
    /// One interval.
    Interval {
        /// Which.
        id: IntervalId,
        /// Number of the worker.
        worker: usize,
        /// What happened.
        recorder: Box<Recorder>,
    },
    /// The worker is done.
    Finished(End),
    /// The run cannot go on.
    Failed(Failure),
}

/// How a worker's part ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct End {
    /// Transactions under way at the end of the measurement.
    pub in_flight_at_stop: u64,
    /// Measured transactions whose end was not seen by the hard stop.
    pub unfinished: u64,
    /// Planned transactions of the measurement that never started.
    pub not_started: u64,
    /// Transactions the plan had for this worker's measurement; 0 in a closed loop.
    pub planned: u64,
}

/// A worker's ends of the channels.
#[derive(Debug)]
pub struct Channels {
    /// The worker's place among those that report to the same collector.
    pub place: usize,
    /// To the collector.
    pub reports: SyncSender<Report>,
    /// The timeline, once all workers are ready; closed when the run is off.
    pub start: Receiver<Timeline>,
    /// Empty recorders coming back.
    pub spare: Receiver<Box<Recorder>>,
    /// Set when the run is to end at once.
    pub cancelled: Arc<AtomicBool>,
}

/// The state of one worker.
pub struct Worker {
    pub(super) settings: Arc<Settings>,
    pub(super) clients: Vec<Client>,
    pub(super) poller: Poller,
    pub(super) slots: Vec<usize>,
    pub(super) texts: Vec<Option<String>>,
    pub(super) recorder: Box<Recorder>,
    pub(super) idle: VecDeque<u32>,
    /// Due time and connection, the earliest first: think times, and attempts to connect again.
    pub(super) timers: BinaryHeap<std::cmp::Reverse<(u64, u32)>>,
    pub(super) in_flight: u64,
    pub(super) phase: Phase,
    pub(super) connecting: Connecting,
    pub(super) feed: Feed,
    /// Where committed New-Orders are noted, when asked for.
    pub(super) acknowledgements: Option<Acknowledgements>,
    channels: Channels,
    timeline: Timeline,
    interval: IntervalId,
    boundary_ns: u64,
    meter: UsageMeter,
    usage: ThreadUsage,
    batch: Batch,
    end: End,
}

impl Worker {
    /// A worker with the connections `index`, `index + threads`, …; to be made on its own thread.
    ///
    /// # Errors
    /// When the kernel gives no epoll instance.
    pub fn new(index: usize, settings: Arc<Settings>, channels: Channels) -> io::Result<Self> {
        let threads = settings.threads;
        let clients: Vec<Client> = (index as u32..settings.context.connections)
            .step_by(threads as usize)
            .map(|number| Client::new(number, &settings))
            .collect();
        let (slots, texts) = client::slots(&settings.context, settings.prepared);
        let feed = Feed::new(&settings.pace(), index as u64);
        Ok(Self {
            poller: Poller::new(EVENTS)?,
            slots,
            texts,
            recorder: Box::new(Recorder::new(settings.slowest)),
            idle: VecDeque::with_capacity(clients.len()),
            timers: BinaryHeap::with_capacity(clients.len()),
            in_flight: 0,
            phase: Phase::Warmup,
            connecting: Connecting::default(),
            acknowledgements: settings
                .acknowledged
                .as_deref()
                .map(Acknowledgements::open)
                .transpose()?,
            channels,
            timeline: Timeline::new(0, &settings.pace()),
            interval: IntervalId {
                phase: Phase::Warmup,
                index: 0,
            },
            boundary_ns: u64::MAX,
            meter: UsageMeter::of_this_thread(),
            usage: ThreadUsage::default(),
            batch: Batch::new(feed.is_open_loop()),
            feed,
            end: End::default(),
            clients,
            settings,
        })
    }

    /// Connects, waits for the start, works until the end, and reports how it went.
    pub fn run(mut self) {
        let ended = self.connect_then_work();
        let noted = self.acknowledgements.as_mut().map_or(Ok(()), Acknowledgements::flush);
        let report = match ended.and_then(|end| noted.map(|()| end).map_err(acknowledgement_failed)) {
            Ok(end) => Report::Finished(end),
            Err(failure) => {
                self.hand_over_interval();
                Report::Failed(failure)
            }
        };
        // The collector may be gone already, when another worker failed.
        let _ = self.channels.reports.send(report);
    }

    fn connect_then_work(&mut self) -> Result<End, Failure> {
        self.connect_all()?;
        let times = Box::new(std::mem::take(&mut self.recorder.connecting));
        let _ = self.channels.reports.send(Report::Ready(times));
        let Ok(timeline) = self.channels.start.recv() else {
            return Ok(End::default());
        };
        // All workers begin at the same moment, and nothing is asked before the first interval.
        std::thread::sleep(Duration::from_nanos(timeline.start_ns.saturating_sub(now_ns())));
        self.begin(timeline);
        while self.phase != Phase::Drain || self.in_flight > 0 {
            let now = now_ns();
            if now >= self.boundary_ns && !self.cross_boundary(now)? {
                break;
            }
            if self.channels.cancelled.load(Ordering::Relaxed) {
                break;
            }
            self.start_due(now)?;
            let wait_ns = self.wait_ns(now);
            let events = self.poller.wait(wait_ns)?;
            self.handle_events(events)?;
        }
        self.finish();
        Ok(self.end)
    }

    fn begin(&mut self, timeline: Timeline) {
        self.timeline = timeline;
        // Of all that was before the first interval only the connections' handshakes count.
        let handshakes = std::mem::take(&mut self.recorder.handshakes);
        self.recorder.clear();
        self.recorder.handshakes = handshakes;
        self.usage = self.meter.read();
        self.interval = timeline.interval_at(timeline.start_ns);
        self.phase = self.interval.phase;
        self.boundary_ns = timeline.interval_bounds(self.interval).1;
        self.feed.enter(self.phase, &timeline);
        self.make_all_idle(timeline.start_ns);
    }

    /// Whether the load has begun.
    pub(super) fn is_started(&self) -> bool {
        self.boundary_ns != u64::MAX
    }

    fn make_all_idle(&mut self, start_ns: u64) {
        self.idle.clear();
        for index in 0..self.clients.len() as u32 {
            self.clients[index as usize].idle_since_ns = start_ns;
            self.idle.push_back(index);
        }
    }

    /// Hands the finished interval over; false when the hard stop is reached.
    #[cold]
    fn cross_boundary(&mut self, now: u64) -> Result<bool, Failure> {
        if self.phase == Phase::Drain {
            return Ok(false);
        }
        if let Some(file) = &mut self.acknowledgements {
            file.flush().map_err(acknowledgement_failed)?;
        }
        self.hand_over_interval();
        self.interval = self.timeline.interval_at(now);
        self.boundary_ns = self.timeline.interval_bounds(self.interval).1;
        if self.interval.phase == self.phase {
            return Ok(true);
        }
        // The feed ends its phase by the clock, even where this thread was late enough to skip a whole one.
        if self.interval.phase == Phase::Drain {
            self.end.in_flight_at_stop = self.in_flight;
            self.end.planned = self.feed.planned();
        } else {
            self.feed.enter(self.interval.phase, &self.timeline);
        }
        self.phase = self.interval.phase;
        Ok(now < self.timeline.hard_stop_ns)
    }

    fn hand_over_interval(&mut self) {
        let usage = self.meter.read();
        self.recorder.usage = usage.since(&self.usage);
        self.usage = usage;
        for client in &mut self.clients {
            let counters = client.take_counters();
            self.recorder.traffic.raw_sent_bytes += counters.raw_bytes_out;
            self.recorder.traffic.raw_received_bytes += counters.raw_bytes_in;
            self.recorder.traffic.wire_sent_bytes += counters.wire_bytes_out;
            self.recorder.traffic.wire_received_bytes += counters.wire_bytes_in;
        }
        let slowest = self.settings.slowest;
        let spare = self
            .channels
            .spare
            .try_recv()
            .unwrap_or_else(|_| Box::new(Recorder::new(slowest)));
        let recorder = std::mem::replace(&mut self.recorder, spare);
        let report = Report::Interval {
            id: self.interval,
            worker: self.channels.place,
            recorder,
        };
        let _ = self.channels.reports.send(report);
    }

    fn finish(&mut self) {
        self.hand_over_interval();
        let left_behind = |client: &&Client| client.active && client.measured;
        self.end.unfinished = self.clients.iter().filter(left_behind).count() as u64;
        self.end.not_started = self.feed.not_started();
        for client in &mut self.clients {
            match client.state {
                State::Idle | State::Thinking => client.quit(),
                _ => client.close(),
            }
        }
    }

    /// How long the loop may sleep; `now` is from before what was due was started.
    fn wait_ns(&mut self, now: u64) -> u64 {
        let mut until = self.boundary_ns;
        if let Some(std::cmp::Reverse((due, _))) = self.timers.peek() {
            until = until.min(*due);
        }
        let mut planned = false;
        if !self.idle.is_empty() {
            if let Some(due) = self.feed.next_release() {
                planned = due < until;
                until = until.min(due);
            }
        }
        let now = if planned { now_ns() } else { now };
        let wait = until.saturating_sub(now);
        if planned && self.settings.spin {
            return if wait <= SPIN_NS {
                0
            } else {
                (wait - SPIN_NS).min(LONGEST_WAIT_NS)
            };
        }
        wait.min(LONGEST_WAIT_NS)
    }

    #[cold]
    fn other_reply(&mut self, index: usize, now: u64, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::Ready => {
                // A clock of its own: since the answer was read it may have cost TLS's arithmetic.
                let now = now_ns();
                self.note_parts(index, now);
                self.logged_in(index, now)
            }
            Reply::Prepared(statement) => self.prepared(index, Some(statement), now),
            Reply::Failed(error) => match self.clients[index].state {
                State::Preparing(_) => self.prepare_failed(index, &error, now),
                _ => self.statement_failed(index, &error, now),
            },
            Reply::Done(_) => Ok(()),
        }
    }
}

impl Batched for Worker {
    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    #[inline]
    fn event(&self, event: usize) -> (usize, bool) {
        (self.poller.token(event) as usize, self.poller.is_writable(event))
    }

    #[inline]
    fn fetch_ahead(&self, index: usize) {
        prefetch(&self.clients[index]);
    }

    #[inline]
    fn receive(&mut self, index: usize, room: &mut [u8]) -> Result<usize, Failure> {
        match self.clients[index].receive(room) {
            Ok(count) => Ok(count),
            Err(loss) => self.lost(index, &loss).map(|()| 0),
        }
    }

    #[inline]
    fn take_answers(&mut self, index: usize, now: u64, mut input: &[u8]) -> Result<(), Failure> {
        let connecting = self.clients[index].state == State::LoggingIn;
        loop {
            match self.clients[index].reply(&mut input) {
                Ok(Some(Reply::Done(done))) if self.clients[index].state == State::Busy => {
                    self.statement_done(index, now, &done)?;
                }
                Ok(Some(reply)) => self.other_reply(index, now, reply)?,
                Ok(None) => break,
                Err(loss) => return self.lost(index, &loss),
            }
        }
        if connecting {
            self.note_parts(index, now_ns());
        }
        Ok(())
    }

    #[inline]
    fn flush(&mut self, index: usize) -> Result<(), Failure> {
        match self.clients[index].flush(&self.poller, index as u64) {
            Ok(()) => Ok(()),
            Err(loss) => self.lost(index, &loss),
        }
    }
}
