//! A worker of the key-value workload: one thread, one epoll loop, its share of the connections and of the plan.
//!
//! A connection has `depth` places for operations. In a closed loop each place starts its next operation when its last has
//! ended; in an open loop a planned operation takes the place that has been free longest.

use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use dyno_core::clock::now_ns;
use dyno_core::prefetch::prefetch;
use dyno_kv::Event;

use super::client::{Client, Scratch, State};
use super::record::Command;
use super::settings::KvSettings;
use crate::recorder::client_code;
use crate::run::batch::{Batch, Batched};
use crate::run::poller::Poller;
use crate::run::{self, Channels, End, Failure, Feed, Intervals, Observer, Outcome, Phase, Think, Work};

/// Events taken from the kernel at a time.
const EVENTS: usize = 512;
/// Longest sleep, so that a stop by another worker is seen.
const LONGEST_WAIT_NS: u64 = 200_000_000;
/// With `spin`, the time before a planned operation that is burnt rather than slept.
const SPIN_NS: u64 = 50_000;
/// Connections of a worker that are being made at the same time; memcached's queue has 1,024 places.
const CONNECTING_AT_A_TIME: usize = 64;
/// Pause when the server's queue is full.
const FULL_QUEUE_PAUSE_NS: u64 = 1_000_000;

/// Runs the load.
///
/// # Errors
/// When a thread cannot be started, or the observer's output fails.
pub fn run(
    settings: &Arc<KvSettings>,
    interrupted: &AtomicBool,
    before_load: &mut dyn FnMut(),
    observer: &mut dyn Observer,
) -> io::Result<Outcome> {
    let start = |index: usize, channels: Channels| spawn(index, Arc::clone(settings), channels);
    run::run_workers(
        &settings.pace,
        &start,
        interrupted,
        &mut run::soon(before_load),
        observer,
    )
}

/// Starts a worker.
///
/// # Errors
/// When the kernel gives no thread.
pub fn spawn(index: usize, settings: Arc<KvSettings>, channels: Channels) -> io::Result<JoinHandle<()>> {
    run::worker_thread(index, settings.priority, channels, move |channels| {
        run::work(Worker::new(index, settings, channels)?);
        Ok(())
    })
}

/// The state of one worker.
pub(super) struct Worker {
    pub(super) settings: Arc<KvSettings>,
    pub(super) clients: Vec<Client>,
    pub(super) poller: Poller,
    pub(super) intervals: Intervals,
    pub(super) feed: Feed,
    pub(super) scratch: Scratch,
    /// A connection for each of its free places, the longest free first.
    pub(super) idle: VecDeque<u32>,
    /// Due time and connection, the earliest first: think times, and attempts to connect again.
    pub(super) timers: BinaryHeap<std::cmp::Reverse<(u64, u32)>>,
    pub(super) in_flight: u64,
    pub(super) end: End,
    /// Places that have done all their operations, where operations end the run.
    pub(super) retired: usize,
    ready: usize,
    connecting: usize,
    batch: Batch,
}

impl Worker {
    fn new(index: usize, settings: Arc<KvSettings>, channels: Channels) -> io::Result<Self> {
        let pace = &settings.pace;
        let clients: Vec<Client> = (index as u32..pace.connections)
            .step_by(pace.threads as usize)
            .map(|number| Client::new(number, settings.protocol, settings.depth))
            .collect();
        let feed = Feed::new(pace, index as u64);
        Ok(Self {
            poller: Poller::new(EVENTS)?,
            intervals: Intervals::new(pace.slowest, channels),
            scratch: Scratch::default(),
            idle: VecDeque::with_capacity(clients.len() * settings.depth as usize),
            timers: BinaryHeap::with_capacity(clients.len()),
            in_flight: 0,
            end: End::default(),
            retired: 0,
            ready: 0,
            connecting: 0,
            batch: Batch::new(feed.is_open_loop()),
            feed,
            clients,
            settings,
        })
    }

    /// Every place of a connection that is ready is free, or goes on thinking.
    fn make_ready(&mut self, start_ns: u64, held_ns: Option<u64>) {
        let hold_ns = held_ns.map_or(0, |held| start_ns.saturating_sub(held));
        let mut thinking = vec![0; self.clients.len()];
        let timers = std::mem::take(&mut self.timers).into_vec();
        for std::cmp::Reverse((due, index)) in timers {
            match self.clients[index as usize].state {
                State::Ready => {
                    thinking[index as usize] += 1;
                    self.timers.push(std::cmp::Reverse((due + hold_ns, index)));
                }
                State::Closed => self.timers.push(std::cmp::Reverse((due, index))),
                State::Greeting => {}
            }
        }
        self.idle.clear();
        for place in 0..self.settings.depth {
            for (index, client) in (0..).zip(&mut self.clients) {
                client.idle_since_ns = start_ns;
                if client.state == State::Ready && place >= thinking[index as usize] {
                    self.idle.push_back(index);
                }
            }
        }
    }

    fn make_connections(&mut self) -> Result<(), Failure> {
        let deadline = now_ns() + self.settings.connect_timeout_ns;
        let mut next = 0;
        while self.ready < self.clients.len() {
            if now_ns() > deadline {
                return Err(Failure::new(format!(
                    "only {} of {} connections were ready after {:.0} s; raise --connect-timeout, or the server's limit \
                     of connections (memcached -c)",
                    self.ready,
                    self.clients.len(),
                    self.settings.connect_timeout_ns as f64 / 1e9
                )));
            }
            let mut wait_ns = 100_000_000;
            while self.connecting < CONNECTING_AT_A_TIME && next < self.clients.len() {
                if !self.try_open(next)? {
                    wait_ns = FULL_QUEUE_PAUSE_NS;
                    break;
                }
                self.connecting += 1;
                next += 1;
            }
            let events = self.poller.wait(wait_ns)?;
            self.handle_events(events)?;
        }
        Ok(())
    }

    /// Starts to connect; false when the server's queue is full.
    pub(super) fn try_open(&mut self, index: usize) -> Result<bool, Failure> {
        match self.clients[index].open(&self.settings.address, &self.poller, index as u64) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => {
                let message = format!("cannot connect to {}: {error}", self.settings.endpoint);
                Err(Failure::with_code(client_code::CONNECTION, message))
            }
        }
    }

    /// A connection answered its greeting.
    pub(super) fn greeted(&mut self, index: usize, now: u64) -> Result<(), Failure> {
        self.clients[index].state = State::Ready;
        if !self.intervals.is_started() {
            self.connecting -= 1;
            self.ready += 1;
            return Ok(());
        }
        self.intervals.recorder.counts.reconnects += 1;
        self.clients[index].idle_since_ns = now;
        self.idle
            .extend(std::iter::repeat_n(index as u32, self.settings.depth as usize));
        Ok(())
    }

    /// Whether there are pauses in a closed loop.
    pub(super) fn thinks(&self) -> bool {
        self.settings.think != Think::No
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
        self.retired = 0;
        self.feed.restart();
        self.feed.enter(self.intervals.phase, &self.intervals.timeline);
        self.make_ready(self.intervals.timeline.start_ns, held_ns);
    }

    #[inline]
    fn is_done(&self) -> bool {
        let all_retired = self.retired >= self.clients.len() * self.settings.depth as usize;
        (self.intervals.phase == Phase::Drain || all_retired) && self.in_flight == 0
    }

    fn hand_over(&mut self) {
        if !self.feed.is_open_loop() && !self.thinks() {
            let recorder = &mut self.intervals.recorder;
            for command in Command::ALL.into_iter().filter(|command| command.is_whole_operation()) {
                if let Some(times) = recorder.kv.of(command) {
                    recorder.service.merge(times);
                }
            }
            recorder.response.merge(&recorder.service);
        }
        for client in &mut self.clients {
            let mut traffic = client.take_traffic();
            // There is neither compression nor TLS: what is on the wire is what was said.
            traffic.raw_sent_bytes = traffic.wire_sent_bytes;
            traffic.raw_received_bytes = traffic.wire_received_bytes;
            self.intervals.recorder.traffic.add(&traffic);
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

    #[inline]
    fn start_due(&mut self, now: u64) -> Result<(), Failure> {
        self.start_operations(now)
    }

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
        } else if self.timers.is_empty() {
            // Nothing but a reply, the boundary or a stop can be next: the time from before what was due was started will do.
            return until.saturating_sub(now).min(LONGEST_WAIT_NS);
        }
        let wait = until.saturating_sub(now_ns());
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
        if self.settings.operations.is_some() {
            self.settings.ended_ns.fetch_max(now_ns(), Ordering::Relaxed);
        }
        let measured = |client: &Client| client.flights.iter().filter(|flight| flight.measured).count() as u64;
        self.end.unfinished += self.clients.iter().map(measured).sum::<u64>();
        self.end = self.feed.account(self.end, self.intervals.phase, now);
        self.end
    }

    #[inline]
    fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn leave(&mut self) {
        self.clients.iter_mut().for_each(Client::close);
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
        loop {
            let client = &mut self.clients[index];
            let event = match client.connection.advance(&mut input) {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(error) => return self.lost(index, &super::client::Loss::Protocol(error)),
            };
            if client.state == State::Greeting {
                match event {
                    Event::Done(_) => self.greeted(index, now)?,
                    Event::Failed(error) => return Err(Failure::new(format!("the server does not serve us: {error}"))),
                    _ => {}
                }
                continue;
            }
            match event {
                Event::Done(done) => self.answered(index, now, &done)?,
                Event::Value { key, cas, data, .. } => {
                    super::operations::value_found(
                        &mut client.flights,
                        &self.settings.workload,
                        &mut self.intervals.recorder.kv.counts,
                        (key, cas, data),
                    );
                }
                Event::Failed(error) => self.refused(index, now, &error)?,
                Event::QuietFailed(_) => self.intervals.recorder.kv.counts.not_stored += 1,
                Event::Stat { .. } | Event::Version(_) => {}
            }
        }
    }
    #[inline]
    fn flush(&mut self, index: usize) -> Result<(), Failure> {
        match self.clients[index].flush(&self.poller, index as u64) {
            Ok(()) => Ok(()),
            Err(loss) => self.lost(index, &loss),
        }
    }
}
