//! The agent: does what the coordinator says on its standard input, and tells on its standard output how it goes.
//!
//! One thread reads, and answers questions for the time at once; the main thread works. The end of the input, which is also
//! the coordinator's death, ends everything.

use std::cell::Cell;
use std::io::{self, BufRead as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;

use dyno_core::clock::now_ns;
use dyno_loop::recorder::ConnectingTimes;
use dyno_loop::{Failure, Interval, IntervalId, Observer, Share};

use super::protocol::{self, Answer, Hello, Job, Order, PROGRAM_VERSION, PROTOCOL_VERSION};
use crate::error::{Error, Exit};
use crate::sql::{SqlRecord, SqlRecorder, SqlSession, SqlSettings};

/// What an agent whose coordinator is gone gets to end in order.
const GRACE: Duration = Duration::from_secs(2);

/// Makes a job's settings, and checks from this host that it can be done.
pub type Accept<'a> = &'a dyn Fn(Job, Share) -> Result<Arc<SqlSettings>, Error>;

/// Says one thing. A coordinator that does not hear any more is gone, and the reader notices.
fn say(answer: &Answer<&SqlRecorder>) -> io::Result<()> {
    // The line is made before the lock is taken: the other thread may have to tell the time.
    let line = protocol::line(answer)?;
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Serves one coordinator.
///
/// # Errors
/// When the coordinator cannot be spoken with, or says what is not of the protocol.
pub fn serve(accept: Accept<'_>) -> Result<Exit, Error> {
    let interrupted = crate::host::interruption()?;
    let cancelled = Arc::new(AtomicBool::new(false));
    say(&Answer::Hello(Hello {
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
            let heard = match serde_json::from_slice(&line) {
                Ok(Order::Ping) => say(&Answer::Pong { now_ns: now_ns() }).is_ok(),
                Ok(Order::Cancel) => {
                    self.end_load();
                    true
                }
                Ok(order) => self.orders.send(order).is_ok(),
                // What was said is not shown: it may have the password.
                Err(_) => {
                    let message = "received a message that this version does not understand".to_string();
                    let _ = say(&Answer::Failed(Failure::new(message)));
                    false
                }
            };
            if !heard {
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

/// The main thread.
struct Agent {
    orders: Receiver<Order>,
    /// Ends the load: set by a signal, or with `cancelled`.
    interrupted: Arc<AtomicBool>,
    /// Set when it is the coordinator who wants the end.
    cancelled: Arc<AtomicBool>,
    job: Option<(Arc<SqlSettings>, Share)>,
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
                Order::Job { job, share } => match accept(*job, share) {
                    Ok(settings) => {
                        let priority = settings.load.priority;
                        self.job = Some((settings, share));
                        say(&Answer::Accepted {
                            priority,
                            niceness: crate::host::niceness(),
                        })?;
                    }
                    Err(error) => say(&Answer::Refused(error))?,
                },
                Order::Connect => {
                    let answer = self.load()?;
                    say(&answer)?;
                }
                Order::Ping | Order::Start { .. } | Order::Cancel => {
                    let message = "received the start before its connections were ready";
                    say(&Answer::Failed(Failure::new(message)))?;
                }
            }
        }
    }

    fn is_interrupted_here(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) && !self.cancelled.load(Ordering::Relaxed)
    }

    fn load(&mut self) -> Result<Answer<&'static SqlRecorder>, Error> {
        let Some((settings, share)) = self.job.take() else {
            return Ok(Answer::Failed(Failure::new(
                "received the command to connect without a job",
            )));
        };
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
        let outcome =
            dyno_loop::run_share::<SqlSession>(&settings, share, &self.interrupted, &mut before_load, &mut Shipper)?;
        let failed = |failure| Ok(Answer::Failed(failure));
        if let Some(late_ns) = late_ns.get() {
            return failed(Failure::new(format!(
                "the start arrived {:.0} ms late; the connection to this host is too slow or too irregular",
                late_ns as f64 / 1e6
            )));
        }
        match outcome.failure {
            Some(failure) => failed(failure),
            None if self.is_interrupted_here() => failed(Failure::new("it was interrupted on its host")),
            None => Ok(Answer::Finished(outcome.end)),
        }
    }

    /// Says that all is ready; gives the start, or none when there will be none.
    fn wait_for_start(&self, times: &ConnectingTimes) -> Option<u64> {
        let mut all = Box::new(ConnectingTimes::default());
        all.merge(times);
        say(&Answer::Ready { times: all }).ok()?;
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

/// Sends each interval to the coordinator.
struct Shipper;

impl Observer<SqlRecord> for Shipper {
    fn interval(&mut self, interval: &Interval<'_, SqlRecord>) -> io::Result<()> {
        say(&Answer::Interval {
            id: IntervalId {
                phase: interval.phase,
                index: interval.index,
            },
            recorder: interval.recorder,
        })
    }
}
