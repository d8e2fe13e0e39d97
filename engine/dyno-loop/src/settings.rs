//! How a load runs, whatever the protocol: resolved once, then frozen.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use dyno_core::schedule::ArrivalSchedule;

use super::overload::Overload;
use super::priority::Priority;
use super::transport::Address;

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
