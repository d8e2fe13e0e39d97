//! A worker: one thread, one epoll loop, its share of the connections and of the arrivals. Shares nothing while it runs.
//!
//! A connection has one or several slots for operations. In a closed loop each slot starts its next operation when its
//! last has ended; in an open loop a planned operation takes the slot that has been free longest. A recorded operation
//! has a connection of its own.

mod connecting;
mod events;
mod operations;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use dyno_core::clock::now_ns;

use super::arrivals::Arrivals;
use super::report::{Channels, Edge, End, PlanAccount, Report};
use super::session::Session;
use super::settings::{LoadSettings, Think};
use super::tally::{PhaseCounts, Tally};
use super::timeline::Phase;
use super::transport::{Batch, Poller, Socket};
use crate::recorder::errors::Failure;
use crate::tally::Intervals;

/// Events taken from the kernel at a time.
const EVENTS: usize = 512;
/// Longest sleep, so that a stop by another worker is noticed.
const LONGEST_WAIT_NS: u64 = 200_000_000;
/// With `spin`, the time before a planned operation during which the worker spins instead of sleeping.
const SPIN_NS: u64 = 50_000;

/// Whether a connection can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// Without a socket.
    Closed,
    /// Being made.
    Connecting,
    /// Ready for operations.
    Ready,
}

/// One connection of a worker.
struct Link<S> {
    session: S,
    socket: Option<Socket>,
    /// Since when a slot has been free.
    idle_since_ns: u64,
    /// Its number in the whole run.
    number: u32,
    state: LinkState,
    /// Whether epoll reports when there is room to write.
    awaits_room: bool,
    /// Whether it is being made because a recorded session begins.
    begins_session: bool,
}

/// How far the first connecting has come.
#[derive(Debug, Default)]
struct Connecting {
    under_way: usize,
    ready: usize,
    /// When a connection last made progress.
    progress_ns: u64,
}

/// The state of one worker.
pub struct Worker<S: Session> {
    load: LoadSettings,
    shared: S::Shared,
    links: Vec<Link<S>>,
    poller: Poller,
    tally: Tally<S::Extra>,
    /// A connection for each of its free slots, the longest free first.
    idle: VecDeque<u32>,
    /// Due time and connection, the earliest first: think times, and attempts to connect again.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    arrivals: Arrivals<S::Terminals>,
    connecting: Connecting,
    batch: Batch,
    slots: u32,
    /// Slots that have done all their operations, where a number of operations ends the run.
    retired: usize,
    connects_each_time: bool,
}

impl<S: Session> Worker<S> {
    /// A worker with the connections `index`, `index + threads`, …; to be made on its own thread.
    ///
    /// # Errors
    /// When the kernel refuses an epoll instance, or a file cannot be opened.
    pub fn new(index: usize, settings: Arc<S::Settings>, channels: Channels<S::Extra>) -> io::Result<Self> {
        let load = S::load(&settings).clone();
        let (slots, connects_each_time) = (S::slots(&settings), S::connects_each_time(&settings));
        let arrivals = Arrivals::new(
            &load.shape,
            S::terminals(&settings),
            S::recording(&settings),
            index as u64,
        );
        let shared = S::share(settings)?;
        let links: Vec<Link<S>> = (index as u32..load.shape.connections)
            .step_by(load.shape.threads as usize)
            .map(|number| Link {
                session: S::new(&shared, number),
                socket: None,
                idle_since_ns: 0,
                number,
                state: LinkState::Closed,
                awaits_room: false,
                begins_session: false,
            })
            .collect();
        let is_timed = arrivals.is_timed();
        Ok(Self {
            poller: Poller::new(EVENTS)?,
            tally: Tally {
                intervals: Intervals::new(load.shape.slowest, channels),
                in_flight: 0,
                end: End::default(),
                phase: PhaseCounts::default(),
                is_timed,
                has_intended_times: is_timed || load.think != Think::No,
            },
            idle: VecDeque::with_capacity(links.len() * slots as usize),
            timers: BinaryHeap::with_capacity(links.len()),
            connecting: Connecting::default(),
            batch: Batch::new(is_timed),
            retired: 0,
            slots,
            connects_each_time,
            arrivals,
            links,
            shared,
            load,
        })
    }

    /// Works until there is no further load, and reports how each went.
    pub fn work(mut self) {
        if let Err(failure) = self.connect_then_load() {
            let now = now_ns();
            let plan = self.plan_account(now).map(PlanAccount::closed);
            let end = self.end(now);
            self.hand_over(plan);
            self.tally.intervals.report(Report::Failed { failure, end });
        }
    }

    fn connect_then_load(&mut self) -> Result<(), Failure> {
        self.connect_all()?;
        self.tally.intervals.report_ready();
        let mut held_ns = None;
        while let Some(timeline) = self.tally.intervals.next_timeline() {
            if held_ns.is_some() {
                self.receive_held_back()?;
            }
            self.tally.intervals.begin(timeline);
            self.begin(held_ns);
            let (end, last_ns) = self.run_load()?;
            held_ns = Some(last_ns);
            self.tally.intervals.report(Report::Finished(end));
        }
        self.disconnect();
        Ok(())
    }

    /// Receives what came while the load was on hold: connections that the server has closed, and those ready again.
    fn receive_held_back(&mut self) -> Result<(), Failure> {
        loop {
            match self.poller.wait(0)? {
                0 => return Ok(()),
                events => self.handle_events(events)?,
            }
        }
    }

    /// Prepares the connections for a load that begins now; think times go on as if there had been no hold.
    fn begin(&mut self, held_ns: Option<u64>) {
        self.tally.end = End::default();
        self.tally.phase = PhaseCounts::default();
        self.retired = 0;
        self.arrivals.restart();
        self.arrivals
            .enter(self.tally.intervals.phase, &self.tally.intervals.timeline);
        self.free_slots(self.tally.intervals.timeline.start_ns, held_ns);
    }

    /// Every slot of a connection that is ready is free, or goes on thinking.
    fn free_slots(&mut self, start_ns: u64, held_ns: Option<u64>) {
        let hold_ns = held_ns.map_or(0, |held| start_ns.saturating_sub(held));
        let loaded = self.tally.intervals.timeline.connections.unwrap_or(u32::MAX);
        let mut thinking = vec![0; self.links.len()];
        for Reverse((due, index)) in std::mem::take(&mut self.timers).into_vec() {
            match self.links[index as usize].state {
                LinkState::Ready if self.links[index as usize].number >= loaded => {}
                LinkState::Ready => {
                    thinking[index as usize] += 1;
                    self.timers.push(Reverse((due + hold_ns, index)));
                }
                LinkState::Closed => self.timers.push(Reverse((due, index))),
                LinkState::Connecting => {}
            }
        }
        self.idle.clear();
        for slot in 0..self.slots {
            for (index, link) in (0..).zip(&mut self.links) {
                link.idle_since_ns = start_ns;
                if link.state == LinkState::Ready && link.number < loaded && slot >= thinking[index as usize] {
                    self.idle.push_back(index);
                }
            }
        }
        if self.keeps_slots() {
            let absent = (0..)
                .zip(&self.links)
                .filter(|(_, link)| link.state != LinkState::Ready);
            self.idle.extend(absent.map(|(index, _)| index));
        }
    }

    /// Whether a connection that is being made takes operations, which then wait for it.
    fn keeps_slots(&self) -> bool {
        S::RESUMES && self.tally.is_timed
    }

    /// One load; how it ended, and when the last answer was read.
    fn run_load(&mut self) -> Result<(End, u64), Failure> {
        let mut before_ns = now_ns();
        while !self.is_done() {
            let now = now_ns();
            let pause_ns = now.saturating_sub(before_ns + LONGEST_WAIT_NS);
            self.tally.end.longest_pause_ns = self.tally.end.longest_pause_ns.max(pause_ns);
            before_ns = now;
            if now >= self.tally.intervals.boundary_ns && (!self.cross_boundary(now)? || self.is_done()) {
                break;
            }
            if self.tally.intervals.is_cancelled() {
                break;
            }
            self.start_due(now)?;
            let wait_ns = self.wait_ns(now);
            let events = self.poller.wait(wait_ns)?;
            self.handle_events(events)?;
        }
        let timeline = self.tally.intervals.timeline;
        if timeline.is_slice && self.tally.in_flight > 0 && !self.tally.intervals.is_cancelled() {
            return Err(Failure::new(format!(
                "{} {}s did not end within {:.1} s of the slice's end; the server hangs, or --grace is too short",
                self.tally.in_flight,
                S::OPERATION,
                (timeline.hard_stop_ns - timeline.stop_ns) as f64 / 1e9
            )));
        }
        let last_ns = now_ns();
        self.tally.intervals.mark(Edge::Hold, last_ns);
        let plan = self.plan_account(last_ns).map(PlanAccount::closed);
        let end = self.end(last_ns);
        if self.tally.intervals.phase == Phase::Drain {
            self.record_waits(last_ns);
        }
        self.hand_over(plan);
        S::interval_ended(&mut self.shared)?;
        Ok((end, last_ns))
    }

    /// Whether nothing is left to wait for.
    #[inline]
    fn is_done(&self) -> bool {
        if self.tally.in_flight > 0 {
            return false;
        }
        let all_retired = || self.load.limit.is_some() && self.retired >= self.links.len() * self.slots as usize;
        self.tally.intervals.phase == Phase::Drain || all_retired()
    }

    /// Hands the finished interval over; false when the hard stop is reached.
    #[cold]
    fn cross_boundary(&mut self, now: u64) -> Result<bool, Failure> {
        let before = self.tally.intervals.phase;
        if before == Phase::Drain {
            return Ok(false);
        }
        self.tally.intervals.mark_boundary(now);
        S::interval_ended(&mut self.shared)?;
        let plan = self.plan_account(now);
        self.hand_over(plan);
        self.tally.intervals.enter(now);
        let phase = self.tally.intervals.phase;
        if phase == before {
            return Ok(true);
        }
        if before == Phase::Warmup && phase == Phase::Drain {
            // This thread was late enough to skip the whole measurement; its schedule is still to be made up for.
            self.enter_phase(Phase::Measure);
        }
        self.enter_phase(phase);
        Ok(now < self.tally.intervals.timeline.hard_stop_ns)
    }

    fn enter_phase(&mut self, phase: Phase) {
        // Arrivals end their phase by the clock, even where this thread was late.
        if phase == Phase::Drain {
            self.tally.end.in_flight_at_stop = self.tally.in_flight;
            self.tally.end.planned = self.arrivals.planned(u64::MAX);
        } else {
            self.tally.phase = PhaseCounts::default();
            self.arrivals.enter(phase, &self.tally.intervals.timeline);
        }
    }

    /// What has become of the phase's plan by now; none in a closed loop, and before the load.
    fn plan_account(&mut self, now: u64) -> Option<PlanAccount> {
        if !self.tally.is_timed || !self.tally.intervals.is_started() {
            return None;
        }
        let measured = self.tally.intervals.phase != Phase::Warmup;
        let (phase, counts) = (self.tally.phase, self.tally.intervals.recorder.counts);
        Some(PlanAccount {
            planned: self.arrivals.planned(now),
            ended: phase.ended + counts.transactions,
            dropped_late: phase.dropped_late + counts.dropped_late,
            unfinished: phase.unfinished,
            in_flight: self.links.iter().map(|link| link.session.in_flight(measured)).sum(),
            not_started: self.arrivals.not_started(now),
        })
    }

    fn hand_over(&mut self, plan: Option<PlanAccount>) {
        self.tally.complete_latencies();
        for link in &mut self.links {
            let traffic = link.session.take_traffic();
            self.tally.recorder().traffic.add(&traffic);
        }
        self.tally.count_interval();
        self.tally.intervals.hand_over(plan);
    }

    /// How long the loop may sleep; `now` is from before what was due was started.
    fn wait_ns(&mut self, now: u64) -> u64 {
        let mut until = self.tally.intervals.boundary_ns;
        let mut is_due = false;
        if let Some(Reverse((due, _))) = self.timers.peek() {
            is_due = *due < until;
            until = until.min(*due);
        }
        let mut is_planned = false;
        if self.arrivals.is_recorded() || !self.idle.is_empty() {
            if let Some(due) = self.arrivals.next_release() {
                is_planned = due < until;
                until = until.min(due);
            }
        }
        // Where only a reply, the boundary or a stop can be next, the earlier time is good enough.
        let now = if is_planned || is_due { now_ns() } else { now };
        let wait = until.saturating_sub(now);
        if is_planned && self.load.spin {
            return if wait <= SPIN_NS {
                0
            } else {
                (wait - SPIN_NS).min(LONGEST_WAIT_NS)
            };
        }
        wait.min(LONGEST_WAIT_NS)
    }

    /// What is still under way at the hard stop has waited until now.
    fn record_waits(&mut self, now: u64) {
        for link in &self.links {
            link.session.each_in_flight(&mut |operation| {
                // In a closed loop one that has hung since the warm-up is of the measurement too.
                if operation.measured || !self.tally.is_timed {
                    self.tally.waited(operation, now);
                }
            });
        }
    }

    /// How the load ended, at `now`.
    fn end(&mut self, now: u64) -> End {
        if let Some(limit) = &self.load.limit {
            limit.ended_ns.fetch_max(now_ns(), Ordering::Relaxed);
        }
        let is_timed = self.tally.is_timed;
        let of_link = |link: &Link<S>| {
            let of_warmup = if is_timed { 0 } else { link.session.in_flight(false) };
            link.session.in_flight(true) + of_warmup
        };
        self.tally.end.unfinished += self.links.iter().map(of_link).sum::<u64>();
        self.tally.end = self.arrivals.account(self.tally.end, self.tally.intervals.phase, now);
        self.tally.end
    }
}
