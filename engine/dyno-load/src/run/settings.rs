//! What a run is to do: resolved once, then frozen. Made by cli/, read by everything else.

use std::path::PathBuf;
use std::sync::Arc;

use dyno_core::schedule::Plan;

use super::socket::Address;
use crate::workload::Context;

/// What happens to planned transactions that cannot start in time because every connection is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overload {
    /// They wait, as long as it takes; their response time tells.
    Queue,
    /// They are given up, and counted, once they are later than this.
    DropLate {
        /// Greatest wait.
        limit_ns: u64,
    },
    /// The run ends with an error once one is later than this.
    Abort {
        /// Greatest wait.
        limit_ns: u64,
    },
}

/// Which errors only restart their transaction.
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

/// At which priority the workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// The one that the program was started with.
    Normal,
    /// At niceness -5, so that the many threads of a server on the same machine do not keep them waiting.
    Raised,
    /// In real time (SCHED_FIFO): what falls due is sent when it falls due, whatever the server's threads do.
    Realtime,
}

/// The pause between the transactions of one connection in a closed loop.
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

/// One run.
#[derive(Debug)]
pub struct Settings {
    /// Where the server listens.
    pub address: Address,
    /// How to log in.
    pub options: Arc<dyno_mysql::Options>,
    /// What to ask.
    pub context: Context,
    /// Prepared statements, or text.
    pub prepared: bool,
    /// Worker threads.
    pub threads: u32,
    /// Time before the measurement.
    pub warmup_ns: u64,
    /// Time of the measurement.
    pub duration_ns: u64,
    /// Time after the measurement for transactions under way to end.
    pub grace_ns: u64,
    /// Length of an interval.
    pub interval_ns: u64,
    /// The plan of an open loop; none in a closed loop.
    pub plan: Option<Arc<Plan>>,
    /// Late transactions are made up for at most this many times as fast as the plan; none: as fast as they can.
    pub catch_up: Option<f64>,
    /// What happens to planned transactions that are late.
    pub overload: Overload,
    /// The pause in a closed loop.
    pub think: Think,
    /// Errors that only restart.
    pub ignored_errors: IgnoredErrors,
    /// File for the New-Orders that the server has acknowledged (TPC-C).
    pub acknowledged: Option<PathBuf>,
    /// How many of the slowest transactions to keep.
    pub slowest: usize,
    /// At which priority the workers run.
    pub priority: Priority,
    /// Whether the pacer burns CPU for the last 50 µs before a planned time.
    pub spin: bool,
    /// Time for all connections to be ready.
    pub connect_timeout_ns: u64,
}

/// The times and shares of a run: all that launching, feeding and collecting need to know, whatever is asked.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Worker threads.
    pub threads: u32,
    /// Connections.
    pub connections: u32,
    /// Time before the measurement.
    pub warmup_ns: u64,
    /// Time of the measurement.
    pub duration_ns: u64,
    /// Time after the measurement for transactions under way to end.
    pub grace_ns: u64,
    /// Length of an interval.
    pub interval_ns: u64,
    /// The plan of an open loop; none in a closed loop.
    pub plan: Option<Arc<Plan>>,
    /// Late transactions are made up for at most this many times as fast as the plan; none: as fast as they can.
    pub catch_up: Option<f64>,
    /// How many of the slowest transactions to keep.
    pub slowest: usize,
    /// The terminals of TPC-C, where transactions are due at their key and think times.
    pub terminals: Option<crate::tpcc::Plan>,
}

impl Pace {
    /// Whether transactions are due at times of their own, and wait for a free connection.
    pub fn is_timed(&self) -> bool {
        self.plan.is_some() || self.terminals.is_some()
    }
}

impl Settings {
    /// Its times and shares.
    pub fn pace(&self) -> Pace {
        Pace {
            threads: self.threads,
            connections: self.context.connections,
            warmup_ns: self.warmup_ns,
            duration_ns: self.duration_ns,
            grace_ns: self.grace_ns,
            interval_ns: self.interval_ns,
            plan: self.plan.clone(),
            catch_up: self.catch_up,
            slowest: self.slowest,
            terminals: self.context.tpcc.clone().filter(|plan| plan.key_and_think_times),
        }
    }

    /// Whether every transaction is a new connection.
    pub fn is_churn(&self) -> bool {
        self.context.definition.name == "connect"
    }
}
