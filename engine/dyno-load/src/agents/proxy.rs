//! One agent in the coordinator's run: to the collector a worker as others, on a thread that communicates with the agent.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use dyno_core::clock::now_ns;
use dyno_loop::gauges::{Gauges, Reading};
use dyno_loop::recorder::{Recorder, ThreadUsage};
use dyno_loop::{Channels, Edge, End, Failure, LoadShape, Mark, Phase, PlanAccount, Report, Timeline};
use serde::Serialize;

use super::peer::{out_of_turn, Answer, Clock, Peer, Shippable, LOOK_NS};
use super::protocol::Order;

/// What an agent gets beyond the time that its own limits allow.
const PATIENCE_NS: u64 = 2_000_000_000;
/// The same after an interruption: what it has measured is worth the wait on a busy host.
const INTERRUPTED_NS: u64 = 10_000_000_000;
/// Least time that an agent has for all its connections.
const ALL_CONNECTIONS_NS: u64 = 60_000_000_000;
/// How long an agent may be silent beyond the end of an interval.
const SILENCE_NS: u64 = 10_000_000_000;
/// So much before a limit of a slice nothing else is waited for.
const CLOSE_NS: u64 = 2_000_000;
/// Time for measuring the clock after the load.
const CLOCK_NS: u64 = 1_000_000_000;

/// The coordinator's side of one agent.
pub struct Proxy<E> {
    /// Its process.
    pub peer: Peer,
    /// Its clock.
    pub clock: Clock,
    /// The run's times.
    pub shape: LoadShape,
    /// Time for each of its connections to be ready.
    pub connect_timeout_ns: u64,
    /// What is read of this host at the limits of a slice's counted part; none for all agents but one.
    pub gauges: Option<Gauges>,
    /// To the collector and back.
    pub channels: Channels<E>,
    /// What its workers have used so far.
    pub usage: AgentUsage,
    /// The measurement's plan at the end of the last interval that the agent has sent.
    pub plan: PlanAccount,
    /// Where to report its end.
    pub ends: Sender<ProxyEnd>,
}

/// CPU time of one agent's workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct AgentUsage {
    /// In user mode, over the whole load.
    pub cpu_user_s: f64,
    /// In the kernel, over the whole load.
    pub cpu_system_s: f64,
    /// Highest CPU use of the busiest thread in one interval of the measurement, percent of one CPU.
    pub busiest_worker_pct: f64,
}

impl AgentUsage {
    /// Adds one interval's.
    pub fn add(&mut self, phase: Phase, usage: &ThreadUsage) {
        self.cpu_user_s += usage.user_us as f64 / 1e6;
        self.cpu_system_s += usage.system_us as f64 / 1e6;
        if phase == Phase::Measure {
            self.busiest_worker_pct = self.busiest_worker_pct.max(usage.busiest_cpu_ppm as f64 / 1e4);
        }
    }
}

/// What is known of an agent when its load has ended.
#[derive(Debug)]
pub struct ProxyEnd {
    /// Which agent.
    pub index: usize,
    /// The change of its clock's offset, in µs; absent where it is unavailable.
    pub drift_us: Option<f64>,
    /// What its workers used.
    pub usage: AgentUsage,
}

impl<E: Shippable> Proxy<E> {
    /// Communicates with the agent until its end; the process is gone when it returns.
    pub fn run(mut self) {
        let ended = self.connect_then_collect();
        let finished = matches!(ended, Ok(Some(_)));
        let report = match ended {
            // No load was begun, or every slice has reported its own end.
            Ok(None) => return,
            Ok(end) => Report::Finished(end.unwrap_or_default()),
            Err(failure) => Report::Failed {
                failure: Failure {
                    code: failure.code,
                    message: format!("{} {}", self.peer.name(), failure.message),
                },
                end: self.last_end(),
            },
        };
        // The collector may be gone already, when another agent failed.
        let _ = self.channels.reports.send(report);
        let drift_us = if finished { self.drift_us() } else { None };
        let (index, usage) = (self.channels.worker_index, self.usage);
        let _ = self.ends.send(ProxyEnd { index, drift_us, usage });
        if finished {
            // The agent ends with this value: its connections stay until the load is dismissed.
            let _ = self.channels.start.recv();
        }
    }

    /// None when the run is off before it has begun.
    fn connect_then_collect(&mut self) -> Result<Option<End>, Failure> {
        self.send(&Order::Connect)?;
        // Each connection has its own time on the agent; all of them together end at some time, too.
        let deadline_ns = now_ns() + self.connect_timeout_ns.max(ALL_CONNECTIONS_NS) + PATIENCE_NS * 2;
        loop {
            if self.channels.cancelled.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if now_ns() > deadline_ns {
                return Err(Failure::new(
                    "has not made its connections in time; raise --connect-timeout",
                ));
            }
            match self.peer.receive::<E>(LOOK_NS).map_err(Failure::new)? {
                None => {}
                Some(Answer::Ready { times }) => {
                    let _ = self.channels.reports.send(Report::Ready(times));
                    break;
                }
                Some(Answer::Failed(failure)) => return Err(had(failure)),
                Some(other) => return Err(Failure::new(out_of_turn(&other))),
            }
        }
        loop {
            let Ok(timeline) = self.channels.start.recv() else {
                return Ok(None);
            };
            let start_ns = self.clock.theirs(timeline.start_ns);
            if !timeline.is_slice {
                self.send(&Order::Start { start_ns })?;
                return self.collect(timeline).map(Some);
            }
            self.send(&Order::Slice {
                start_ns,
                stream: timeline.stream,
                washout_ns: timeline.measure_ns - timeline.start_ns,
                measure_ns: timeline.stop_ns - timeline.measure_ns,
                rate_per_ks: timeline.rate_per_ks,
                connections: timeline.connections,
            })?;
            let end = self.collect(timeline)?;
            let _ = self.channels.reports.send(Report::Finished(end));
        }
    }

    /// The end of an agent that has failed, from the last interval that it has sent.
    fn last_end(&self) -> End {
        let plan = self.plan.closed();
        End {
            in_flight_at_stop: 0,
            longest_pause_ns: 0,
            refused: 0,
            unfinished: plan.unfinished,
            not_started: plan.not_started,
            planned: plan.planned,
        }
    }

    fn collect(&mut self, timeline: Timeline) -> Result<End, Failure> {
        self.plan = PlanAccount::default();
        let mut received_ns = timeline.start_ns;
        let mut cancelled_ns = None;
        let mut limits = Limits::of(&timeline);
        loop {
            let now = now_ns();
            limits.read(now, self.gauges.as_mut());
            if cancelled_ns.is_none() && self.channels.cancelled.load(Ordering::Relaxed) {
                self.send(&Order::Cancel)?;
                cancelled_ns = Some(now);
            }
            if let Some(problem) = self.overdue(now, &timeline, received_ns, cancelled_ns) {
                return Err(Failure::new(problem));
            }
            match self.peer.receive::<E>(limits.wait_ns(now)).map_err(Failure::new)? {
                None => continue,
                Some(Answer::Mark { edge, at_ns }) => {
                    let mark = Mark {
                        edge,
                        at_ns: self.clock.ours(at_ns),
                        reading: limits.take(edge),
                    };
                    let _ = self.channels.reports.send(Report::Mark(mark));
                }
                Some(Answer::Interval { id, recorder, plan }) => {
                    self.usage.add(id.phase, &recorder.usage);
                    self.plan = plan.filter(|_| id.phase != Phase::Warmup).unwrap_or_default();
                    let report = Report::Interval {
                        id,
                        worker: self.channels.worker_index,
                        recorder: self.ours(&recorder),
                        plan,
                    };
                    let _ = self.channels.reports.send(report);
                }
                Some(Answer::Finished(end)) => return Ok(end),
                Some(Answer::Failed(failure)) => return Err(had(failure)),
                Some(other) => return Err(Failure::new(out_of_turn(&other))),
            }
            received_ns = now_ns();
        }
    }

    /// The error of an agent from which a message is overdue.
    fn overdue(&self, now: u64, timeline: &Timeline, received_ns: u64, cancelled_ns: Option<u64>) -> Option<String> {
        if cancelled_ns.is_some_and(|sent_ns| now > sent_ns + INTERRUPTED_NS) {
            return Some("did not end when requested".into());
        }
        if now > timeline.hard_stop_ns + PATIENCE_NS {
            return Some("did not end by the hard stop".into());
        }
        let silent_ns = now.saturating_sub(received_ns);
        (now < timeline.stop_ns && silent_ns > self.shape.interval_ns + SILENCE_NS).then(|| {
            format!(
                "has sent nothing for {:.0} s: it hangs, or the connection to it is broken",
                silent_ns as f64 / 1e9
            )
        })
    }

    /// What an agent recorded as a recorder of this side: with its shape, and times on our clock.
    fn ours(&self, theirs: &Recorder<E>) -> Box<Recorder<E>> {
        // Those that come back are not needed: what arrives is new each time.
        while self.channels.spare.try_recv().is_ok() {}
        let mut recorder = Box::new(Recorder::new(self.shape.slowest));
        recorder.merge(theirs);
        recorder.slowest.set_back(self.clock.offset_ns);
        recorder
    }

    fn send(&mut self, order: &Order) -> Result<(), Failure> {
        self.peer.send(order, now_ns() + PATIENCE_NS).map_err(Failure::new)
    }

    fn drift_us(&mut self) -> Option<f64> {
        let clock = Clock::measure::<E>(&mut self.peer, now_ns() + CLOCK_NS, &self.channels.cancelled).ok()?;
        Some((clock.offset_ns - self.clock.offset_ns) as f64 / 1e3)
    }
}

/// The limits of a slice's counted part, where this host is read while the agents load.
struct Limits {
    edges: [(Edge, u64); 2],
    next: usize,
    readings: [Option<Reading>; 2],
}

impl Limits {
    /// Beyond the end where the load has none.
    fn of(timeline: &Timeline) -> Self {
        Self {
            edges: [(Edge::Measure, timeline.measure_ns), (Edge::Stop, timeline.stop_ns)],
            next: if timeline.is_slice { 0 } else { 2 },
            readings: [None; 2],
        }
    }

    /// Reads when a limit has come; what is left of the last milliseconds is slept, for poll(2) counts in these.
    fn read(&mut self, now: u64, gauges: Option<&mut Gauges>) {
        let Some((_, at_ns)) = self.edges.get(self.next).copied() else {
            return;
        };
        if now + CLOSE_NS < at_ns {
            return;
        }
        let Some(gauges) = gauges else {
            self.next += usize::from(now >= at_ns);
            return;
        };
        std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now)));
        self.readings[self.next] = Some(gauges.read());
        self.next += 1;
    }

    /// How long to wait for the agent.
    fn wait_ns(&self, now: u64) -> u64 {
        let until_ns = self.edges.get(self.next).map_or(u64::MAX, |(_, at_ns)| {
            at_ns.saturating_sub(now).saturating_sub(CLOSE_NS / 2)
        });
        until_ns.clamp(1, LOOK_NS)
    }

    /// The reading of a limit, once.
    fn take(&mut self, edge: Edge) -> Option<Reading> {
        let index = self.edges.iter().position(|(own, _)| *own == edge)?;
        self.readings[index].take()
    }
}

/// A failure that an agent reports: its message stands by itself after the agent's name.
fn had(failure: Failure) -> Failure {
    Failure {
        code: failure.code,
        message: format!("failed: {}", failure.message),
    }
}
