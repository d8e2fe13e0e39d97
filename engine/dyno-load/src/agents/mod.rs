//! Load from several hosts in one run.
//!
//! The coordinator starts each agent by a command (ssh, ip netns exec, or dynoload itself) and exchanges JSON lines with it
//! over the command's standard input and output: nothing listens on a port. Agents run shares of the same workers that a run
//! on one host has, so that the operations do not depend on their number; they send every interval's histograms whole, and
//! the coordinator merges those: percentiles are never averaged.
//!
//! An agent ends when its input does. The clocks of hosts are independent of one another: the coordinator estimates the
//! offset of each, with a bound, before the load and after it.

mod coordinator;
mod peer;
mod protocol;
mod proxy;

use std::cell::Cell;
use std::io::{self, BufRead as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;

use dyno_core::clock::now_ns;
use dyno_loop::recorder::{ConnectingTimes, Recorder};
use dyno_loop::{Crew, End, Failure, Interval, IntervalId, LoadShape, Observer, Session, Share, SliceTimes, Timeline};
use serde::Serialize;

pub use coordinator::{AgentFacts, Coordinator, Proxies};
pub use peer::{Clock, Shippable};
pub use protocol::Job;
pub use proxy::AgentUsage;

use crate::error::{Error, Exit};
use crate::kv::{KvSession, KvSettings};
use crate::sql::script::ScriptSession;
use crate::sql::{SqlSession, SqlSettings, SqlWorkload};
use protocol::{Answer, Hello, Order, PROGRAM_VERSION, PROTOCOL_VERSION};

// The agent: receives commands from the coordinator on its standard input, and reports on its standard output.
//
// One thread reads, and replies to requests for the time at once; the main thread works. The end of the input, which is also
// the coordinator's death, ends everything.

/// Time to end in order after the coordinator has ended.
const GRACE: Duration = Duration::from_secs(2);
/// How often an agent that holds its connections checks whether it was interrupted.
const HOLD_LOOK: Duration = Duration::from_millis(500);

/// A job that can be done.
#[derive(Clone)]
pub enum JobSettings {
    /// SQL.
    Sql(Arc<SqlSettings>),
    /// Operations of memcached.
    Kv(Arc<KvSettings>),
}

/// Makes a job's settings, and checks from this host that it can be done.
pub type Accept<'a> = &'a dyn Fn(Job, Share) -> Result<JobSettings, Error>;

/// A message without a recorder.
type Plain = Answer<()>;

/// Sends one message. If the coordinator has ended, the reader finds the end of the input.
fn send<R: Serialize>(answer: &Answer<R>) -> io::Result<()> {
    // The line is made before the lock is taken: the other thread may have to send the time.
    let line = protocol::line(answer)?;
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Serves one coordinator.
///
/// # Errors
/// When nothing can be sent to the coordinator, or a message is not of the protocol.
pub fn serve(accept: Accept<'_>) -> Result<Exit, Error> {
    let interrupted = crate::host::interruption()?;
    let cancelled = Arc::new(AtomicBool::new(false));
    send(&Plain::Hello(Hello {
        protocol: PROTOCOL_VERSION,
        version: PROGRAM_VERSION.to_string(),
        host: crate::host::name(),
        cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32,
    }))?;
    let (to_main, orders) = channel();
    let reader = Reader {
        orders: to_main,
        interrupted: Arc::clone(&interrupted),
        cancelled: Arc::clone(&cancelled),
    };
    std::thread::Builder::new()
        .name("reader".into())
        .spawn(move || reader.run())?;
    let mut agent = Agent {
        orders,
        interrupted,
        cancelled,
        job: None,
    };
    agent.work(accept)
}

/// The thread that reads.
struct Reader {
    orders: Sender<Order>,
    interrupted: Arc<AtomicBool>,
    cancelled: Arc<AtomicBool>,
}

impl Reader {
    fn run(self) {
        for line in io::stdin().lock().split(b'\n') {
            let Ok(line) = line else { break };
            let is_handled = match serde_json::from_slice(&line) {
                Ok(Order::Ping) => send(&Plain::Pong { now_ns: now_ns() }).is_ok(),
                Ok(Order::Cancel) => {
                    self.end_load();
                    true
                }
                Ok(order) => self.orders.send(order).is_ok(),
                // The message is not shown: it may contain the password.
                Err(_) => {
                    let message = "received a message that this version does not understand".to_string();
                    let _ = send(&Plain::Failed(Failure::new(message)));
                    false
                }
            };
            if !is_handled {
                break;
            }
        }
        self.end_load();
        drop(self.orders);
        std::thread::sleep(GRACE);
        std::process::exit(i32::from(Exit::Interrupted as u8));
    }

    fn end_load(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.interrupted.store(true, Ordering::Relaxed);
    }
}

/// A job, as it was accepted.
struct Accepted {
    settings: JobSettings,
    share: Share,
    slices: bool,
}

/// The main thread.
struct Agent {
    orders: Receiver<Order>,
    /// Ends the load: set by a signal, or with `cancelled`.
    interrupted: Arc<AtomicBool>,
    /// Set when the coordinator ends the load.
    cancelled: Arc<AtomicBool>,
    job: Option<Accepted>,
}

impl Agent {
    fn work(&mut self, accept: Accept<'_>) -> Result<Exit, Error> {
        loop {
            let order = match self.orders.recv_timeout(Duration::from_millis(100)) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) if self.is_interrupted_here() => return Ok(Exit::Interrupted),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(Exit::Done),
            };
            match order {
                Order::Job { job, share } => {
                    let slices = job.slices;
                    match accept(*job, share) {
                        Ok(settings) => {
                            let priority = match &settings {
                                JobSettings::Sql(settings) => settings.load.priority,
                                JobSettings::Kv(settings) => settings.load.priority,
                            };
                            self.job = Some(Accepted {
                                settings,
                                share,
                                slices,
                            });
                            send(&Plain::Accepted {
                                priority,
                                niceness: crate::host::niceness(),
                            })?;
                        }
                        Err(error) => send(&Plain::Refused(error))?,
                    }
                }
                Order::Connect => {
                    let failed = match self.job.take() {
                        None => Some(Failure::new("received the command to connect without a job")),
                        Some(job) => match &job.settings {
                            JobSettings::Sql(settings) => self.load_sql(settings, &job)?,
                            JobSettings::Kv(settings) => self.load::<KvSession>(settings, &job)?,
                        },
                    };
                    if let Some(failure) = failed {
                        send(&Plain::Failed(failure))?;
                    }
                }
                Order::Ping | Order::Start { .. } | Order::Slice { .. } | Order::Cancel => {
                    let message = "received the start before its connections were ready";
                    send(&Plain::Failed(Failure::new(message)))?;
                }
            }
        }
    }

    fn is_interrupted_here(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) && !self.cancelled.load(Ordering::Relaxed)
    }

    /// The session of a script is not that of statements which are known before.
    fn load_sql(&self, settings: &Arc<SqlSettings>, job: &Accepted) -> Result<Option<Failure>, Error> {
        match settings.workload {
            SqlWorkload::Script(_) => self.load::<ScriptSession>(settings, job),
            _ => self.load::<SqlSession>(settings, job),
        }
    }

    /// Does the job; returns why it failed, where that is still to be reported.
    fn load<S: Session>(&self, settings: &Arc<S::Settings>, job: &Accepted) -> Result<Option<Failure>, Error>
    where
        S::Extra: Serialize,
    {
        if job.slices {
            return self.slices::<S>(settings, job.share).map(Some);
        }
        let late_ns = Cell::new(None);
        let mut before_load = |times: &ConnectingTimes| {
            let start_ns = self.wait_for_start(times)?;
            match now_ns().saturating_sub(start_ns) {
                0 => Some(start_ns),
                late => {
                    late_ns.set(Some(late));
                    None
                }
            }
        };
        let (mut sent, mut has_ended) = (Ok(()), false);
        let mut after_load = |end: &End| {
            if !self.is_interrupted_here() {
                sent = send(&Plain::Finished(*end));
                has_ended = true;
                self.wait_for_release();
            }
        };
        let outcome = dyno_loop::run_share::<S>(
            settings,
            job.share,
            &self.interrupted,
            &mut before_load,
            &mut after_load,
            &mut Shipper,
        )?;
        sent?;
        if let Some(late_ns) = late_ns.get() {
            return Ok(Some(Failure::new(format!(
                "the start arrived {:.0} ms late; the connection to this host is too slow or too irregular",
                late_ns as f64 / 1e6
            ))));
        }
        match outcome.failure {
            Some(failure) => Ok(Some(failure)),
            None if has_ended => Ok(None),
            None if self.is_interrupted_here() => Ok(Some(Failure::new("it was interrupted on its host"))),
            // Operations are left that did not end by the hard stop.
            None => send(&Plain::Finished(outcome.end)).map(|()| None).map_err(Error::from),
        }
    }

    /// Slices on connections that stay, until the input ends or one fails; returns why it ended.
    fn slices<S: Session>(&self, settings: &Arc<S::Settings>, share: Share) -> Result<Failure, Error>
    where
        S::Extra: Serialize,
    {
        let shape = LoadShape {
            threads: share.threads,
            ..S::load(settings).shape.clone()
        };
        let first = share.first_worker as usize;
        let start = |index, channels| dyno_loop::spawn::<S>(first + index, Arc::clone(settings), channels);
        let mut crew = match Crew::start(&shape, &start, None, &self.interrupted)? {
            Ok(crew) => crew,
            Err(not_ready) => return Ok(not_ready.failure.unwrap_or_else(interrupted)),
        };
        let mut all = Box::new(ConnectingTimes::default());
        all.merge(&crew.connecting);
        send(&Plain::Ready { times: all })?;
        let ended = loop {
            let (start_ns, times) = match self.next_slice() {
                Ok(Some(slice)) => slice,
                Ok(None) => break interrupted(),
                Err(failure) => break failure,
            };
            let timeline = Timeline::slice(start_ns, &times, shape.grace_ns);
            // A start that arrives late shortens the washout; the counted part begins in time, or not at all.
            if now_ns() > timeline.measure_ns {
                let late_ms = (now_ns() - start_ns) as f64 / 1e6;
                break Failure::new(format!(
                    "the start arrived {late_ms:.0} ms late; the connection to this host is too slow or too irregular"
                ));
            }
            let load = crew.load(timeline, &shape, &self.interrupted, &mut Shipper)?;
            if let Some(failure) = load.failure {
                break failure;
            }
            if load.interrupted {
                break interrupted();
            }
            for mark in &load.marks {
                send(&Plain::Mark {
                    edge: mark.edge,
                    at_ns: mark.at_ns,
                })?;
            }
            send(&Plain::Finished(load.end))?;
        };
        crew.call_off();
        Ok(ended)
    }

    /// The next slice; none at the end of the input.
    fn next_slice(&self) -> Result<Option<(u64, SliceTimes)>, Failure> {
        while !self.interrupted.load(Ordering::Relaxed) {
            match self.orders.recv_timeout(HOLD_LOOK) {
                Ok(Order::Slice {
                    start_ns,
                    stream,
                    washout_ns,
                    measure_ns,
                    rate_per_ks,
                    connections,
                }) => {
                    let times = SliceTimes {
                        stream,
                        washout_ns,
                        measure_ns,
                        rate_per_ks,
                        connections,
                    };
                    return Ok(Some((start_ns, times)));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Ok(_) => return Err(Failure::new("received a message that is not a slice while it held")),
            }
        }
        Ok(None)
    }

    /// Keeps the connections until the coordinator has read the server's counters: it then ends the input.
    fn wait_for_release(&self) {
        while !self.is_interrupted_here() {
            match self.orders.recv_timeout(HOLD_LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reports that all is ready; returns the start, or none when there will be none.
    fn wait_for_start(&self, times: &ConnectingTimes) -> Option<u64> {
        let mut all = Box::new(ConnectingTimes::default());
        all.merge(times);
        send(&Plain::Ready { times: all }).ok()?;
        while !self.interrupted.load(Ordering::Relaxed) {
            match self.orders.recv_timeout(Duration::from_millis(20)) {
                Ok(Order::Start { start_ns }) => return Some(start_ns),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

fn interrupted() -> Failure {
    Failure::new("it was interrupted on its host")
}

/// Sends each interval to the coordinator.
struct Shipper;

impl<E> Observer<E> for Shipper
where
    Recorder<E>: Serialize,
{
    fn interval(&mut self, interval: &Interval<'_, E>) -> io::Result<()> {
        send(&Answer::Interval {
            id: IntervalId {
                phase: interval.phase,
                index: interval.index,
            },
            recorder: interval.recorder,
            plan: interval.plan,
        })
    }
}
