//! How a load runs, whatever the protocol: resolved once, then frozen.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use dyno_core::schedule::ArrivalSchedule;
use rustix::process::{getpriority_process, setpriority_process};

use super::transport::Address;
use crate::recorder::errors::Failure;

/// Which errors only restart, or cost, their operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredErrors {
    /// Every error of the server.
    All,
    /// These codes.
    Codes(Vec<u16>),
}

impl IgnoredErrors {
    /// Whether this code is ignored.
    pub fn contains(&self, code: u16) -> bool {
        match self {
            Self::All => true,
            Self::Codes(codes) => codes.contains(&code),
        }
    }
}

/// The pause between the operations of one connection in a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    /// None.
    No,
    /// Always the same.
    Constant {
        /// Its length.
        pause_ns: u64,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean_ns: u64,
    },
}

/// The times of a load and how it is divided among workers.
#[derive(Debug, Clone)]
pub struct LoadShape {
    /// Worker threads.
    pub threads: u32,
    /// Connections.
    pub connections: u32,
    /// Time before the measurement.
    pub warmup_ns: u64,
    /// Time of the measurement.
    pub duration_ns: u64,
    /// Time after the measurement for operations in flight to end.
    pub grace_ns: u64,
    /// Length of an interval.
    pub interval_ns: u64,
    /// When operations arrive in an open loop; none in a closed loop.
    pub schedule: Option<Arc<ArrivalSchedule>>,
    /// Late operations are made up for at most this many times as fast as scheduled; none: without a limit.
    pub catch_up: Option<f64>,
    /// How many of the slowest operations to keep.
    pub slowest: usize,
    /// Whether operations are due at the key and think times of terminals, or at recorded times.
    pub has_terminals: bool,
}

impl LoadShape {
    /// Whether operations are due at times of their own, and wait for a free connection.
    pub fn is_timed(&self) -> bool {
        self.schedule.is_some() || self.has_terminals
    }
}

/// A number of operations that ends the run before its time; closed loop only.
#[derive(Debug, Clone)]
pub struct OperationLimit {
    /// Operations in all.
    pub operations: u64,
    /// When the last worker received its last reply; 0 before.
    pub ended_ns: Arc<AtomicU64>,
}

impl OperationLimit {
    /// A limit of this many operations.
    pub fn new(operations: u64) -> Self {
        Self {
            operations,
            ended_ns: Arc::default(),
        }
    }
}

/// How one load runs.
#[derive(Debug, Clone)]
pub struct LoadSettings {
    /// Times and shares.
    pub shape: LoadShape,
    /// The server as the user named it, for messages.
    pub endpoint: String,
    /// Where the server listens.
    pub address: Address,
    /// What happens to planned operations that are late.
    pub overload: Overload,
    /// The pause in a closed loop.
    pub think: Think,
    /// Seed of the pauses.
    pub seed: u64,
    /// Errors that do not end the run.
    pub ignored_errors: IgnoredErrors,
    /// Priority of the workers' threads.
    pub priority: Priority,
    /// Whether a worker spins for the last 50 µs before a planned time.
    pub spin: bool,
    /// Time for each connection to be ready.
    pub connect_timeout_ns: u64,
    /// Operations after which the run ends.
    pub limit: Option<OperationLimit>,
}

impl LoadSettings {
    /// A closed loop without limits, at normal priority; to be changed field by field.
    pub fn new(shape: LoadShape, endpoint: impl Into<String>, address: Address) -> Self {
        Self {
            shape,
            endpoint: endpoint.into(),
            address,
            overload: Overload::Queue,
            think: Think::No,
            seed: 1,
            ignored_errors: IgnoredErrors::Codes(Vec::new()),
            priority: Priority::Normal,
            spin: false,
            connect_timeout_ns: 30_000_000_000,
            limit: None,
        }
    }
}

/// The policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overload {
    /// They wait as long as it takes; their response time shows it.
    Queue,
    /// They are dropped, and counted, once they are later than this.
    DropLate {
        /// Longest wait.
        limit_ns: u64,
    },
    /// The run ends with an error once one is later than this.
    Abort {
        /// Longest wait.
        limit_ns: u64,
    },
}

impl Overload {
    /// Whether an operation that would start `late_ns` after its time is dropped.
    #[inline]
    pub fn drops(self, late_ns: u64) -> bool {
        match self {
            Self::Queue => false,
            Self::DropLate { limit_ns } | Self::Abort { limit_ns } => late_ns > limit_ns,
        }
    }

    /// The failure that a dropped operation is; none where dropping is the policy. `operation` is the workload's word.
    #[cold]
    pub fn failure(self, late_ns: u64, operation: &str) -> Option<Failure> {
        let Self::Abort { limit_ns } = self else { return None };
        Some(Failure::new(format!(
            "the server does not keep up: a planned {operation} was {:.1} ms late, the limit is {:.1} ms; lower --rate, or \
             choose --overload queue",
            late_ns as f64 / 1e6,
            limit_ns as f64 / 1e6
        )))
    }
}

/// At which priority the workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// The one that the program was started with.
    Normal,
    /// At niceness -5, so that the many threads of a server on the same machine do not delay them.
    Raised,
    /// In real time (SCHED_FIFO): what falls due is sent when it falls due, whatever the server's threads do.
    Realtime,
}

/// The niceness that a load runs at where it may. Measured on two CPUs, read-only: at 0 the server idles 7 to 14 % of the
/// time, waiting for the load; at -10 and 16 connections the load wakes up for each answer and costs a third more.
const RAISED_NICENESS: i32 = -5;

/// The least priority in real time: before all threads that share the CPUs by time, after all others.
const LEAST_REAL_TIME: libc::c_int = 1;

/// Raises the niceness of this thread and of all it starts unless they are to run at the normal one, where that is
/// allowed (root, or CAP_SYS_NICE); to be called before any thread is started.
///
/// On one machine a load of few threads competes with a server of many: at the same priority it waits for a CPU while
/// the server has nothing to do, and its own lag becomes part of what it measures.
pub fn take_priority(priority: Priority) {
    if priority != Priority::Normal && niceness() > RAISED_NICENESS {
        // An ordinary user may not; the result has the niceness at which the load ran.
        let _ = setpriority_process(None, RAISED_NICENESS);
    }
}

/// Whether threads of this process may run in real time: tried on a thread that ends with the answer, so that no other's
/// scheduling is touched.
///
/// # Errors
/// The kernel's when they may not: without CAP_SYS_NICE, or in a control group that has no time for them.
pub fn may_run_in_real_time() -> nix::Result<()> {
    // A thread that panicked has aborted the program already.
    std::thread::spawn(run_in_real_time)
        .join()
        .unwrap_or(Err(nix::errno::Errno::EAGAIN))
}

/// Runs this thread in real time (sched(7), SCHED_FIFO at the least priority), before every thread that shares the CPUs by
/// time: a sleeper that wakes runs at once. Measured on two CPUs that the server kept half busy, 20,000 point selects a
/// second: lag p99 36 µs, at niceness -5 362 (medians of six runs). The kernel's own limit (95 % of the time) stays.
///
/// # Errors
/// The kernel's when it may not.
#[allow(unsafe_code)]
pub fn run_in_real_time() -> nix::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: LEAST_REAL_TIME,
    };
    // SAFETY: 0 is the calling thread, and the parameters outlive the call, which only reads them.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    nix::errno::Errno::result(result).map(drop)
}

/// The niceness of this thread, -20 to 19.
pub fn niceness() -> i32 {
    getpriority_process(None).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_later_than_the_limit_is_dropped_and_only_abort_fails() {
        let (drop, abort) = (Overload::DropLate { limit_ns: 5 }, Overload::Abort { limit_ns: 5 });
        assert_eq!([drop, abort, Overload::Queue].map(|policy| policy.drops(5)), [false; 3]);
        assert_eq!(
            [drop, abort, Overload::Queue].map(|policy| policy.drops(6)),
            [true, true, false]
        );
        assert_eq!(drop.failure(6, "transaction"), None);
        let failure = abort.failure(2_000_000, "transaction").unwrap();
        assert!(failure.message.contains("a planned transaction was 2.0 ms late"));
    }
}
