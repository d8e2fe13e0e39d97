//! The coordinator: starts the agents, has them check the job, gives them one start, and merges what they send.

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use dyno_core::clock::now_ns;
use dyno_loop::gauges::Gauges;
use dyno_loop::recorder::ConnectingTimes;
use dyno_loop::{
    Channels, End, LoadSettings, LoadShape, Observer, Outcome, PlanAccount, Priority, Rest, Share, START_DELAY_NS,
};
use serde::Serialize;

use super::peer::{out_of_turn, Answer, Clock, Peer, Shippable};
use super::protocol::{Hello, Job, Order, PROGRAM_VERSION, PROTOCOL_VERSION};
use super::proxy::{AgentUsage, Proxy, ProxyEnd};
use crate::error::Error;

/// Time for an agent to check a job.
const PATIENCE_NS: u64 = 60_000_000_000;
/// From the last agent's readiness to the first statement, beside what the way to the agents takes.
const AGENTS_DELAY_NS: u64 = 1_000_000_000;

/// An agent in the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentFacts {
    /// The command that started it.
    pub command: String,
    /// Name of its host.
    pub host: String,
    /// CPUs that it may use.
    pub cpus: u32,
    /// Its worker threads.
    pub threads: u32,
    /// The priority that they ran at.
    pub priority: Priority,
    /// The niceness that they ran at.
    pub niceness: i32,
    /// What is to be added to the coordinator's clock for its clock.
    pub clock_offset_us: f64,
    /// How wrong that can be at most, at the start.
    pub clock_error_us: f64,
    /// How much the offset had changed at the end; absent where it was not measured then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_drift_us: Option<f64>,
    /// What its workers used.
    #[serde(flatten)]
    pub usage: AgentUsage,
}

/// An agent that is there.
struct Agent {
    peer: Peer,
    hello: Hello,
    clock: Clock,
    priority: Priority,
    niceness: i32,
}

/// All agents of a run.
pub struct Coordinator<E> {
    agents: Vec<Agent>,
    threads_each: u32,
    interrupted: Arc<AtomicBool>,
    recorded: PhantomData<E>,
}

impl<E: Shippable> Coordinator<E> {
    /// Starts the agents and measures the offsets of their clocks.
    ///
    /// # Errors
    /// When a command cannot be started, does not start an agent, or one of another version; when `interrupted` is set.
    pub fn start(commands: &[String], timeout: Duration, interrupted: &Arc<AtomicBool>) -> Result<Self, Error> {
        let peers = commands
            .iter()
            .map(|command| Peer::start(command))
            .collect::<Result<Vec<_>, _>>()?;
        let agents = peers
            .into_iter()
            .map(|peer| greet::<E>(peer, timeout, interrupted))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            agents,
            threads_each: 0,
            interrupted: Arc::clone(interrupted),
            recorded: PhantomData,
        })
    }

    /// How many they are.
    pub fn count(&self) -> u32 {
        self.agents.len() as u32
    }

    /// Worker threads of all of them.
    pub fn threads(&self) -> u32 {
        self.threads_each * self.count()
    }

    /// CPUs of the one that has fewest.
    pub fn least_cpus(&self) -> u32 {
        self.agents.iter().map(|agent| agent.hello.cpus).min().unwrap_or(1)
    }

    /// Gives each its share of the job; they look whether it can be done from where they are.
    ///
    /// # Errors
    /// The first error of an agent, with its name.
    pub fn offer(&mut self, threads_each: u32, job: &Job) -> Result<(), Error> {
        self.threads_each = threads_each;
        let deadline_ns = now_ns() + PATIENCE_NS;
        for (number, agent) in (0..).zip(&mut self.agents) {
            let share = Share {
                first_worker: number * threads_each,
                threads: threads_each,
            };
            let order = Order::Job {
                job: Box::new(job.clone()),
                share,
            };
            let sent = agent.peer.send(&order, deadline_ns);
            sent.map_err(|problem| lost(&agent.peer, &problem, &self.interrupted))?;
        }
        for agent in &mut self.agents {
            let reply = agent.peer.expect::<E>(deadline_ns, &self.interrupted);
            match reply.map_err(|problem| lost(&agent.peer, &problem, &self.interrupted))? {
                Answer::Accepted { priority, niceness } => (agent.priority, agent.niceness) = (priority, niceness),
                Answer::Refused(error) => return Err(error.had_by(&agent.peer.name())),
                other => return Err(lost(&agent.peer, &out_of_turn(&other), &self.interrupted)),
            }
        }
        Ok(())
    }

    /// Runs the load on the agents; they are gone when it returns.
    ///
    /// `at_rest` is called when every connection of every agent is ready, and when the load of all has ended; see
    /// [`dyno_loop::run`].
    ///
    /// # Errors
    /// When a thread cannot be started, or the observer's output fails.
    pub fn run(
        self,
        load: &LoadSettings,
        at_rest: &mut dyn FnMut(Rest),
        observer: &mut dyn Observer<E>,
    ) -> io::Result<(Outcome<E>, Vec<AgentFacts>)> {
        let interrupted = Arc::clone(&self.interrupted);
        let mut facts: Vec<AgentFacts> = self.agents.iter().map(|agent| self.facts(agent)).collect();
        let delay_ns = AGENTS_DELAY_NS + self.way_ns();
        let proxies = self.proxies(load);
        let start = |index: usize, channels| proxies.start(index, channels);
        let at_rest = RefCell::new(at_rest);
        let mut before = |_: &ConnectingTimes| {
            (at_rest.borrow_mut())(Rest::BeforeLoad);
            Some(now_ns() + delay_ns)
        };
        let mut after = |_: &End| (at_rest.borrow_mut())(Rest::AfterLoad);
        let outcome = dyno_loop::run_workers(&proxies.shape, &start, &interrupted, &mut before, &mut after, observer)?;
        for end in proxies.incoming_ends.try_iter() {
            facts[end.index].clock_drift_us = end.drift_us;
            facts[end.index].usage = end.usage;
        }
        Ok((outcome, facts))
    }

    /// What a start needs to reach every agent in time.
    pub fn way_ns(&self) -> u64 {
        let longest_trip_ns = self.agents.iter().map(|agent| agent.clock.error_ns * 2).max();
        START_DELAY_NS + 4 * longest_trip_ns.unwrap_or(0)
    }

    /// The agents as workers of one load.
    pub fn proxies(self, load: &LoadSettings) -> Proxies {
        let (ends, incoming_ends) = channel();
        Proxies {
            // To the collector each agent is one worker.
            shape: LoadShape {
                threads: self.count(),
                ..load.shape.clone()
            },
            connect_timeout_ns: load.connect_timeout_ns,
            agents: RefCell::new(self.agents.into_iter().map(Some).collect()),
            ends,
            incoming_ends,
        }
    }

    fn facts(&self, agent: &Agent) -> AgentFacts {
        AgentFacts {
            command: agent.peer.command().to_string(),
            host: agent.hello.host.clone(),
            cpus: agent.hello.cpus,
            threads: self.threads_each,
            priority: agent.priority,
            niceness: agent.niceness,
            clock_offset_us: agent.clock.offset_ns as f64 / 1e3,
            clock_error_us: agent.clock.error_ns as f64 / 1e3,
            clock_drift_us: None,
            usage: AgentUsage::default(),
        }
    }
}

/// Agents that are to be started as workers.
pub struct Proxies {
    /// The load's times, with one worker for each agent.
    pub shape: LoadShape,
    connect_timeout_ns: u64,
    agents: RefCell<Vec<Option<Agent>>>,
    ends: Sender<ProxyEnd>,
    incoming_ends: Receiver<ProxyEnd>,
}

impl Proxies {
    /// Starts the thread that communicates with one agent.
    ///
    /// # Errors
    /// When the kernel refuses another thread.
    pub fn start<E: Shippable>(&self, index: usize, mut channels: Channels<E>) -> io::Result<JoinHandle<()>> {
        let agent = self.agents.borrow_mut()[index].take();
        let agent = agent.ok_or_else(|| io::Error::other("an agent was started twice"))?;
        let proxy = Proxy {
            peer: agent.peer,
            clock: agent.clock,
            shape: self.shape.clone(),
            connect_timeout_ns: self.connect_timeout_ns,
            gauges: channels.watch.take().map(Gauges::new),
            channels,
            usage: AgentUsage::default(),
            plan: PlanAccount::default(),
            ends: self.ends.clone(),
        };
        std::thread::Builder::new()
            .name(format!("agent-{index}"))
            .spawn(move || proxy.run())
    }
}

/// An agent that cannot be spoken with.
fn lost(peer: &Peer, problem: &str, interrupted: &AtomicBool) -> Error {
    let message = format!("{} {problem}", peer.name());
    if interrupted.load(Ordering::Relaxed) {
        Error::Interrupted(message)
    } else {
        Error::Host(message)
    }
}

fn greet<E: Shippable>(mut peer: Peer, timeout: Duration, interrupted: &AtomicBool) -> Result<Agent, Error> {
    let deadline_ns = now_ns() + timeout.as_nanos() as u64;
    // It must reply to a ping too: a program that repeats its input is detected at once.
    let sent = peer.send(&Order::Ping, deadline_ns);
    sent.map_err(|problem| lost(&peer, &problem, interrupted))?;
    let hello = match first_answer::<E>(&mut peer, timeout, deadline_ns, interrupted)? {
        Answer::Hello(hello) => hello,
        other => return Err(lost(&peer, &out_of_turn(&other), interrupted)),
    };
    if hello.version != PROGRAM_VERSION || hello.protocol != PROTOCOL_VERSION {
        return Err(Error::Host(format!(
            "{} on {} is dynoload {} (protocol {}), this is {PROGRAM_VERSION} (protocol {PROTOCOL_VERSION}): put the same \
             program on both hosts",
            peer.name(),
            hello.host,
            hello.version,
            hello.protocol
        )));
    }
    match first_answer::<E>(&mut peer, timeout, deadline_ns, interrupted)? {
        Answer::Pong { .. } => {}
        other => return Err(lost(&peer, &out_of_turn(&other), interrupted)),
    }
    let deadline_ns = now_ns() + timeout.as_nanos() as u64;
    let clock = Clock::measure::<E>(&mut peer, deadline_ns, interrupted)
        .map_err(|problem| lost(&peer, &problem, interrupted))?;
    Ok(Agent {
        peer,
        hello,
        clock,
        priority: Priority::Normal,
        niceness: 0,
    })
}

/// The first message of a program that has just been started.
fn first_answer<E: Shippable>(
    peer: &mut Peer,
    timeout: Duration,
    deadline_ns: u64,
    interrupted: &AtomicBool,
) -> Result<Answer<E>, Error> {
    peer.expect(deadline_ns, interrupted).map_err(|problem| {
        let seconds = timeout.as_secs_f64();
        let problem = match now_ns() >= deadline_ns {
            false => problem,
            true => format!(
                "{problem} within {seconds} s; does the command end in `dynoload agent`? Where it only takes longer to \
                 start, raise --connect-timeout"
            ),
        };
        lost(peer, &problem, interrupted)
    })
}
