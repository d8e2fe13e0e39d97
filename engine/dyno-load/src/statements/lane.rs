//! One of the servers that are compared: its session, and the CPU time of the thread that serves it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use dyno_core::clock::now_ns;
use dyno_mysql::blocking::{Client, Reply};
use dyno_mysql::session_state::CAPTURED_STATE;
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

use super::options::LaneSpec;
use crate::error::Error;
use crate::server::Facts;
use crate::sql::preflight::read_facts;
use crate::sql::server::{connect, failed};

/// What finds the thread of a session: it computes for some milliseconds.
const BUSY: &str = "SELECT BENCHMARK(2000000, 1 + 1)";
/// The least CPU time by which that thread is known, ns.
const LEAST_BUSY_NS: u64 = 2_000_000;
/// After a reply the thread still has some work before it sleeps, and its CPU time is known.
const UNTIL_ASLEEP: Duration = Duration::from_micros(50);

/// CPU time of one thread.
#[derive(Debug)]
struct ThreadClock {
    thread: u32,
    schedstat: File,
}

impl ThreadClock {
    fn of(pid: u32, thread: u32) -> Option<Self> {
        let schedstat = File::open(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        Some(Self { thread, schedstat })
    }

    /// Since the thread began, ns; exact while it sleeps.
    fn read_ns(&self) -> Option<u64> {
        let mut text = [0; 64];
        let length = self.schedstat.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length])
            .ok()?
            .split(' ')
            .next()?
            .parse()
            .ok()
    }
}

/// The CPU time of every thread of a process, ns.
fn threads_of(pid: u32) -> Vec<(u32, u64)> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let threads = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    threads
        .filter_map(|thread| Some((thread, ThreadClock::of(pid, thread)?.read_ns()?)))
        .collect()
}

/// A connected server.
pub struct Lane {
    /// Its name.
    pub name: String,
    /// What it is.
    pub facts: Facts,
    /// Its session.
    pub client: Client,
    clock: Option<ThreadClock>,
}

impl Lane {
    /// Connects; a statement may take so long.
    ///
    /// # Errors
    /// When the server is away, or refuses the account.
    pub fn connect(spec: &LaneSpec, longest: Duration) -> Result<Self, Error> {
        let options = spec.connection.options(true, Some(CAPTURED_STATE))?;
        let named = |error: Error| error.had_by(&spec.name);
        let mut questions = connect(&options).map_err(named)?;
        let facts = read_facts(&mut questions).map_err(named)?;
        // Beyond the server's own limit the session is lost.
        let patience = longest + Duration::from_secs(10);
        let mut client =
            Client::connect(&options, patience).map_err(|error| named(Error::Server(error.to_string())))?;
        let milliseconds = longest.as_millis();
        let limit = if facts.kind == "mariadb" {
            format!("SET SESSION max_statement_time = {:.3}", longest.as_secs_f64())
        } else {
            format!("SET SESSION max_execution_time = {milliseconds}")
        };
        // Versions without such a limit refuse it.
        let _ = client.exec(&limit);
        let clock = spec
            .pid
            .map(|pid| find_clock(&mut client, pid))
            .transpose()
            .map_err(named)?;
        Ok(Self {
            name: spec.name.clone(),
            facts,
            client,
            clock,
        })
    }

    /// Executes a statement; its reply, and the time from sending it to the end of the reply, ns.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn execute(&mut self, sql: &[u8]) -> Result<(Reply, u64), Error> {
        let begin_ns = now_ns();
        let reply = self.client.send(sql).map_err(|error| self.lost(&error))?;
        Ok((reply, now_ns() - begin_ns))
    }

    /// CPU time of the thread that serves the session, ns, once it sleeps; none where it is unknown.
    pub fn idle_cpu_ns(&self) -> Option<u64> {
        let clock = self.clock.as_ref()?;
        std::thread::sleep(UNTIL_ASLEEP);
        clock.read_ns()
    }

    /// A statement of this program's own.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn done(&mut self, sql: &str) -> Result<(), Error> {
        self.client
            .exec(sql)
            .map(drop)
            .map_err(|error| failed(sql, &error).had_by(&self.name))
    }

    /// The error of a lost connection.
    pub fn lost(&self, error: &dyno_mysql::Error) -> Error {
        Error::Server(format!("{}: {error}", self.name))
    }
}

/// Puts this thread and those that serve the sessions on one CPU, the last one that all of them may use; which, or none
/// where they have none in common, or a thread is unknown.
///
/// They run in turn, never at the same time. Where the scheduler places them, a short statement takes twice the CPU time
/// on another CPU than its client's: the caches are cold, and the wake-up is an interrupt.
pub fn share_cpu(lanes: &[Lane]) -> Option<usize> {
    let clocks: Option<Vec<&ThreadClock>> = lanes.iter().map(|lane| lane.clock.as_ref()).collect();
    let mut threads = vec![Pid::from_raw(0)];
    threads.extend(clocks?.iter().map(|clock| Pid::from_raw(clock.thread as i32)));
    let allowed: Vec<CpuSet> = threads
        .iter()
        .map(|thread| sched_getaffinity(*thread).ok())
        .collect::<Option<_>>()?;
    let may_use = |cpu: &usize| allowed.iter().all(|set| set.is_set(*cpu).unwrap_or(false));
    let cpu = (0..CpuSet::count()).rev().find(may_use)?;
    let mut one = CpuSet::new();
    one.set(cpu).ok()?;
    threads
        .iter()
        .all(|thread| sched_setaffinity(*thread, &one).is_ok())
        .then_some(cpu)
}

/// The clock of the thread that serves a session: the one that computed.
fn find_clock(client: &mut Client, pid: u32) -> Result<ThreadClock, Error> {
    let unknown = || {
        Error::Server(format!(
            "no thread of process {pid} is known as that of its session: --pid must be the server's own process, and its \
             thread_handling one-thread-per-connection"
        ))
    };
    // Twice: the first time the thread may only begin.
    for _ in 0..2 {
        let before = threads_of(pid);
        client.query(BUSY).map_err(|error| failed(BUSY, &error))?;
        std::thread::sleep(UNTIL_ASLEEP);
        let grown = threads_of(pid).into_iter().map(|(thread, ns)| {
            let known = before.iter().find(|(other, _)| *other == thread);
            (ns.saturating_sub(known.map_or(0, |(_, ns)| *ns)), thread)
        });
        if let Some((_, thread)) = grown.max().filter(|(ns, _)| *ns >= LEAST_BUSY_NS) {
            return ThreadClock::of(pid, thread).ok_or_else(unknown);
        }
    }
    Err(unknown())
}
