//! What a worker writes down while it runs, a second at a time.
//!
//! Plain increments in memory of the worker's own; at the end of an interval the whole is handed over and an empty one
//! taken, so that merging, percentiles and output cost the hot thread nothing. One clock reading and three to four
//! histogram records an operation: bench/ measures them (target 50 ns).

mod by_type;
mod connecting;
mod errors;
mod handshakes;
mod slowest;
mod usage;

pub use by_type::{ByType, TypeRecorder};
pub use connecting::{ConnectingTimes, Part};
pub use errors::{client_code, ErrorCounts};
pub use handshakes::Handshakes;
pub use slowest::{Slow, Slowest};
pub use usage::{ThreadUsage, UsageMeter};

use dyno_core::histogram::Histogram;

use crate::kv::KvRecord;
use crate::tpcc::Execution;
use crate::workload::StatementKind;

/// Counts that add up over workers and intervals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Transactions completed.
    pub transactions: u64,
    /// Statements that returned rows (sysbench's read).
    pub reads: u64,
    /// Statements that changed rows (sysbench's write).
    pub writes: u64,
    /// All other statements: BEGIN, COMMIT, changes of nothing.
    pub other: u64,
    /// Errors that ended the run.
    pub errors: u64,
    /// Errors that only restarted their transaction.
    pub ignored_errors: u64,
    /// Connections made again after a loss.
    pub reconnects: u64,
    /// Transactions given up by the overload policy because they were late.
    pub dropped_late: u64,
    /// Rows received.
    pub rows: u64,
}

impl Counts {
    /// All statements that succeeded.
    pub fn queries(&self) -> u64 {
        self.reads + self.writes + self.other
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.reads += other.reads;
        self.writes += other.writes;
        self.other += other.other;
        self.errors += other.errors;
        self.ignored_errors += other.ignored_errors;
        self.reconnects += other.reconnects;
        self.dropped_late += other.dropped_late;
        self.rows += other.rows;
    }
}

/// Bytes at the layers of the protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Traffic {
    /// MySQL packets sent, with their headers, before compression.
    pub raw_sent_bytes: u64,
    /// MySQL packets received, after decompression.
    pub raw_received_bytes: u64,
    /// Bytes sent on the socket, after compression and TLS.
    pub wire_sent_bytes: u64,
    /// Bytes received on the socket.
    pub wire_received_bytes: u64,
}

impl Traffic {
    /// Adds another's bytes.
    pub fn add(&mut self, other: &Self) {
        self.raw_sent_bytes += other.raw_sent_bytes;
        self.raw_received_bytes += other.raw_received_bytes;
        self.wire_sent_bytes += other.wire_sent_bytes;
        self.wire_received_bytes += other.wire_received_bytes;
    }
}

/// One interval of one worker, or the sum of several.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Recorder {
    /// Counts.
    pub counts: Counts,
    /// From the intended time to the end, per transaction; in a closed loop the same as `service`.
    pub response: Histogram,
    /// From the first byte sent to the last received, per transaction.
    pub service: Histogram,
    /// How late this program itself started a planned transaction: after it was due and a connection was free.
    pub lag: Histogram,
    /// Service time per kind of statement.
    pub statements: Vec<Histogram>,
    /// Transactions by type (TPC-C).
    pub by_type: ByType,
    /// Connections made: with the workload `connect`, and after a loss.
    pub connecting: ConnectingTimes,
    /// The slowest transactions.
    pub slowest: Slowest,
    /// Errors by code.
    pub errors: ErrorCounts,
    /// Bytes.
    pub traffic: Traffic,
    /// TLS handshakes; none in plain text.
    pub handshakes: Handshakes,
    /// What the worker's thread used.
    pub usage: ThreadUsage,
    /// What only memcached has; empty for SQL, and for what travels between hosts.
    #[serde(skip)]
    pub kv: KvRecord,
}

impl Recorder {
    /// An empty recorder that keeps the `slowest` slowest transactions.
    pub fn new(slowest: usize) -> Self {
        Self {
            counts: Counts::default(),
            response: Histogram::new(),
            service: Histogram::new(),
            lag: Histogram::new(),
            statements: (0..StatementKind::COUNT).map(|_| Histogram::new()).collect(),
            by_type: ByType::default(),
            connecting: ConnectingTimes::default(),
            slowest: Slowest::new(slowest),
            errors: ErrorCounts::default(),
            traffic: Traffic::default(),
            handshakes: Handshakes::default(),
            usage: ThreadUsage::default(),
            kv: KvRecord::default(),
        }
    }

    /// Counts one statement that succeeded.
    #[inline]
    pub fn statement(&mut self, kind: StatementKind, service_ns: u64, columns: u64, rows: u64, affected_rows: u64) {
        if kind == StatementKind::Procedure {
            // What it reads and writes is not in its answer.
            self.counts.other += 1;
        } else if columns > 0 {
            self.counts.reads += 1;
            self.counts.rows += rows;
        } else if affected_rows > 0 {
            self.counts.writes += 1;
        } else {
            self.counts.other += 1;
        }
        self.statements[kind as usize].record(service_ns);
    }

    /// Counts one transaction of TPC-C.
    #[inline]
    pub fn transaction_of(&mut self, execution: &Execution, service_ns: u64, response_ns: u64) {
        self.by_type.record(execution, service_ns, response_ns);
    }

    /// Adds everything of another recorder.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
        for (mine, theirs) in self.statements.iter_mut().zip(&other.statements) {
            mine.merge(theirs);
        }
        self.by_type.merge(&other.by_type);
        self.connecting.merge(&other.connecting);
        self.slowest.merge(&other.slowest);
        self.errors.merge(&other.errors);
        self.traffic.add(&other.traffic);
        self.handshakes.merge(&other.handshakes);
        self.usage.add(&other.usage);
        self.kv.merge(&other.kv);
    }

    /// Makes it empty again without giving memory back.
    pub fn clear(&mut self) {
        self.counts = Counts::default();
        self.response.clear();
        self.service.clear();
        self.lag.clear();
        self.statements.iter_mut().for_each(Histogram::clear);
        self.by_type.clear();
        self.connecting.clear();
        self.slowest.clear();
        self.errors.clear();
        self.traffic = Traffic::default();
        self.handshakes.clear();
        self.usage = ThreadUsage::default();
        self.kv.clear();
    }
}
