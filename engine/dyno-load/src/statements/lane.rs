//! The options, and one of the servers that are compared: its session, and the CPU time of the thread that serves it.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser};
use dyno_core::clock::now_ns;
use dyno_mysql::blocking::{Client, Reply};
use dyno_mysql::CAPTURED_STATE;
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

use crate::error::Error;
use crate::parse::{positive_duration, within};
use crate::server::Facts;
use crate::spec::ConnectionSpec;
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
    /// Connects; a statement may take so long. The character set is utf8mb4 unless another is set.
    ///
    /// # Errors
    /// When the server is away, or refuses the account.
    pub fn connect(spec: &LaneSpec, longest: Duration, set_names: Option<&String>) -> Result<Self, Error> {
        let mut options = spec.connection.options(true, Some(CAPTURED_STATE))?;
        options.init_statements.extend(set_names.cloned());
        let named = |error: Error| error.had_by(&spec.name);
        let mut questions = connect(&options).map_err(named)?;
        let facts = read_facts(&mut questions).map_err(named)?;
        // What the server's own limit does not end (MySQL's is of SELECT alone) is killed a little later; a session that is
        // silent for as long again, as one that rolls back may be, is lost.
        let patience = longest.max(Duration::from_secs(9)) + Duration::from_secs(1);
        let mut client =
            Client::connect(&options, patience).map_err(|error| named(Error::Server(error.to_string())))?;
        client.kill_what_is_late();
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

/// The options of `statements`.
#[derive(Debug, Args)]
pub struct StatementsRun {
    /// Capture, made with `dynoload capture`
    pub capture: PathBuf,
    /// A server: its name, then the options of its connection, as in "new --socket=/run/new.sock --user=bench --pid=4711".
    /// The first one is what the others are compared with
    #[arg(long = "server", value_name = "SERVER", required = true, value_parser = LaneSpec::parse_from_text)]
    pub servers: Vec<LaneSpec>,
    /// How long, the first execution of each included; statements are repeated for half of it at least
    #[arg(long, default_value = "60s", value_parser = positive_duration)]
    pub duration: Duration,
    /// Longest time of one statement
    #[arg(long, default_value = "30s", value_parser = positive_duration)]
    pub longest: Duration,
    /// The most frequent statements only, as many as this
    #[arg(long, default_value_t = 1000, value_parser = within::<1, 100_000>)]
    pub most: u32,
    /// Different literals of each statement, the most frequent first
    #[arg(long, default_value_t = 8, value_parser = within::<1, 1000>)]
    pub texts: u32,
    /// Only statements that read
    #[arg(long)]
    pub read_only: bool,
    /// Seed of the orders
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the records go, as JSON lines; - for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub json: PathBuf,
}

/// A server, as `--server` names it.
#[derive(Debug, Clone, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct LaneSpec {
    /// Its name in the output
    pub name: String,
    /// Its process, for the CPU time of each statement
    #[arg(long)]
    pub pid: Option<u32>,
    /// How to connect to it.
    #[command(flatten)]
    pub connection: ConnectionSpec,
}

impl LaneSpec {
    /// Which server it is.
    pub fn place(&self) -> (Option<&Path>, &str, u16) {
        let at = &self.connection;
        (at.socket.as_deref(), &at.host, at.port)
    }

    /// A name, and options as in a shell: `new --socket=/run/new.sock --user=bench --pid=4711`.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn parse_from_text(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or_else(|| format!("'{text}' has quotes that do not end"))?;
        Self::try_parse_from(words.into_iter().map(OsString::from)).map_err(|error| error.to_string())
    }
}
