//! A worker: one thread, one epoll loop, its share of the connections and of the plan. Shares nothing while it runs.

use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_core::prefetch::prefetch;

use super::batch::{Batch, Batched};
use super::client::{self, Client, Reply, State};
use super::connecting::Connecting;
use super::crew::{Channels, End};
use super::failure::Failure;
use super::feed::Feed;
use super::intervals::Intervals;
use super::poller::Poller;
use super::settings::Settings;
use super::timeline::Phase;
use super::transactions::acknowledgement_failed;
use super::work::Work;
use crate::tpcc::Acknowledgements;

/// Events taken from the kernel at a time.
const EVENTS: usize = 512;
/// Longest sleep, so that a stop by another worker is seen.
const LONGEST_WAIT_NS: u64 = 200_000_000;
/// With `spin`, the time before a planned operation that is burnt rather than slept.
const SPIN_NS: u64 = 50_000;

/// The state of one worker.
pub struct Worker {
    pub(super) settings: Arc<Settings>,
    pub(super) clients: Vec<Client>,
    pub(super) poller: Poller,
    pub(super) slots: Vec<usize>,
    pub(super) texts: Vec<Option<String>>,
    pub(super) intervals: Intervals,
    pub(super) idle: VecDeque<u32>,
    /// Due time and connection, the earliest first: think times, and attempts to connect again.
    pub(super) timers: BinaryHeap<std::cmp::Reverse<(u64, u32)>>,
    pub(super) in_flight: u64,
    pub(super) connecting: Connecting,
    pub(super) feed: Feed,
    /// Where committed New-Orders are noted, when asked for.
    pub(super) acknowledgements: Option<Acknowledgements>,
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
            intervals: Intervals::new(settings.slowest, channels),
            idle: VecDeque::with_capacity(clients.len()),
            timers: BinaryHeap::with_capacity(clients.len()),
            in_flight: 0,
            connecting: Connecting::default(),
            acknowledgements: settings
                .acknowledged
                .as_deref()
                .map(Acknowledgements::open)
                .transpose()?,
            batch: Batch::new(feed.is_open_loop()),
            feed,
            end: End::default(),
            clients,
            settings,
        })
    }

    /// Those that are connected are free, or go on thinking; those that are being made again follow when they are there.
    fn make_ready(&mut self, start_ns: u64, held_ns: Option<u64>) {
        let hold_ns = held_ns.map_or(0, |held| start_ns.saturating_sub(held));
        let timers = std::mem::take(&mut self.timers).into_vec();
        for std::cmp::Reverse((due, index)) in timers {
            match self.clients[index as usize].state {
                State::Thinking => self.timers.push(std::cmp::Reverse((due + hold_ns, index))),
                State::Closed => self.timers.push(std::cmp::Reverse((due, index))),
                _ => {}
            }
        }
        self.idle.clear();
        let mut absent = Vec::new();
        for (index, client) in (0..).zip(&mut self.clients) {
            client.idle_since_ns = start_ns;
            match client.state {
                State::Idle => self.idle.push_back(index),
                State::Thinking => {}
                _ => absent.push(index),
            }
        }
        if self.feed.is_open_loop() {
            // What a connection takes before it is there waits for it.
            self.idle.extend(absent);
        }
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

impl Work for Worker {
    #[inline]
    fn intervals(&mut self) -> &mut Intervals {
        &mut self.intervals
    }

    #[inline]
    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    fn connect_all(&mut self) -> Result<(), Failure> {
        self.make_connections()
    }

    fn begin(&mut self, held_ns: Option<u64>) {
        self.end = End::default();
        self.feed.restart();
        self.feed.enter(self.intervals.phase, &self.intervals.timeline);
        self.make_ready(self.intervals.timeline.start_ns, held_ns);
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.intervals.phase == Phase::Drain && self.in_flight == 0
    }

    fn hand_over(&mut self) {
        for client in &mut self.clients {
            let counters = client.take_counters();
            let traffic = &mut self.intervals.recorder.traffic;
            traffic.raw_sent_bytes += counters.raw_bytes_out;
            traffic.raw_received_bytes += counters.raw_bytes_in;
            traffic.wire_sent_bytes += counters.wire_bytes_out;
            traffic.wire_received_bytes += counters.wire_bytes_in;
        }
        self.intervals.hand_over();
    }

    fn enter_phase(&mut self, phase: Phase) {
        // The feed ends its phase by the clock, even where this thread was late.
        if phase == Phase::Drain {
            self.end.in_flight_at_stop = self.in_flight;
            self.end.planned = self.feed.planned(u64::MAX);
        } else {
            self.feed.enter(phase, &self.intervals.timeline);
        }
    }

    fn flush_files(&mut self) -> Result<(), Failure> {
        match &mut self.acknowledgements {
            Some(file) => file.flush().map_err(acknowledgement_failed),
            None => Ok(()),
        }
    }

    #[inline]
    fn start_due(&mut self, now: u64) -> Result<(), Failure> {
        self.start_transactions(now)
    }

    /// `now` is from before what was due was started.
    fn wait_ns(&mut self, now: u64) -> u64 {
        let mut until = self.intervals.boundary_ns;
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

    fn end(&mut self, now: u64) -> End {
        let left_behind = |client: &&Client| client.active && client.measured;
        self.end.unfinished = self.clients.iter().filter(left_behind).count() as u64;
        self.end = self.feed.account(self.end, self.intervals.phase, now);
        self.end
    }

    #[inline]
    fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn leave(&mut self) {
        for client in &mut self.clients {
            match client.state {
                State::Idle | State::Thinking => client.quit(),
                _ => client.close(),
            }
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
