//! What a worker records while it runs, one interval at a time.
//!
//! Plain increments in memory of the worker's own; at the end of an interval the whole is handed over and an empty one
//! taken, so that merging, percentiles and output cost the hot thread nothing. One clock reading and three to four
//! histogram records an operation: bench/ measures them (target 50 ns).

pub(crate) mod errors;
mod usage;

use dyno_core::histogram::Histogram;

pub use errors::{client_code, ConnectingTimes, ErrorCounts, Part};
pub use usage::{ThreadUsage, UsageMeter};

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
    /// Statements among `other` that are inserts, updates and deletes that changed no row.
    #[serde(default)]
    pub unchanged: u64,
    /// Statements among `reads` whose result has no row.
    #[serde(default)]
    pub empty_reads: u64,
    /// Statements for rows that the workload's own data have, which found none.
    #[serde(default)]
    pub missing_rows: u64,
    /// Errors that ended the run.
    pub errors: u64,
    /// Errors that only restarted their transaction.
    pub ignored_errors: u64,
    /// Connections reopened after a loss.
    pub reconnects: u64,
    /// Connections made anew because a recorded session began.
    #[serde(default)]
    pub new_sessions: u64,
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
        self.unchanged += other.unchanged;
        self.empty_reads += other.empty_reads;
        self.missing_rows += other.missing_rows;
        self.errors += other.errors;
        self.ignored_errors += other.ignored_errors;
        self.reconnects += other.reconnects;
        self.new_sessions += other.new_sessions;
        self.dropped_late += other.dropped_late;
        self.rows += other.rows;
    }
}

/// What the counted part of a slice cuts counts there by the share of its time, not by its end: else the number of long
/// operations, all of which begin together, would depend on where the slice ends. This is added to the counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cut {
    /// Of transactions.
    pub transactions: f64,
    /// Of statements.
    pub queries: f64,
}

impl Cut {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.queries += other.queries;
    }
}

/// The latencies of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Latency {
    /// From the first byte sent to the last received.
    pub service_ns: u64,
    /// From the intended time to the last byte received.
    pub response_ns: u64,
}

/// Bytes at the layers of the protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Traffic {
    /// MySQL packets sent, with their headers, before compression.
    pub raw_sent_bytes: u64,
    /// MySQL packets received, after decompression.
    pub raw_received_bytes: u64,
    /// Bytes sent, after compression and before TLS.
    pub compressed_sent_bytes: u64,
    /// Bytes received, after TLS was taken off and before decompression.
    pub compressed_received_bytes: u64,
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
        self.compressed_sent_bytes += other.compressed_sent_bytes;
        self.compressed_received_bytes += other.compressed_received_bytes;
        self.wire_sent_bytes += other.wire_sent_bytes;
        self.wire_received_bytes += other.wire_received_bytes;
    }
}

/// What one family of workloads records beside what all of them have.
pub trait Extra: std::fmt::Debug + Default + Send + 'static {
    /// Sums over a whole load, warm-up included.
    type Sums: std::fmt::Debug + Default;

    /// Adds what was recorded to the sums.
    fn add_to(&self, sums: &mut Self::Sums);

    /// Adds everything of another.
    fn merge(&mut self, other: &Self);

    /// Adds another's latencies of whole operations, without its counts.
    fn merge_latencies(&mut self, other: &Self);

    /// Makes it empty again without giving memory back.
    fn clear(&mut self);

    /// Makes it empty after the connections are made, except for what belongs to the whole run.
    fn clear_after_connecting(&mut self) {
        self.clear();
    }

    /// Adds the service times of operations that were recorded here alone (see [`crate::Tally::completed`]).
    fn add_service_times(&self, _service: &mut Histogram) {}
}

/// One interval of one worker, or the sum of several.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Recorder<E> {
    /// Counts.
    pub counts: Counts,
    /// What is added to them.
    #[serde(default)]
    pub cut: Cut,
    /// From the intended time to the end, per transaction; in a closed loop the same as `service`.
    pub response: Histogram,
    /// From the first byte sent to the last received, per transaction.
    pub service: Histogram,
    /// Delay of planned transactions caused by this program: from when one was due and a connection was free to its start.
    pub lag: Histogram,
    /// Connections made: with the workload `connect`, and after a loss.
    pub connecting: ConnectingTimes,
    /// The slowest transactions.
    pub slowest: Slowest,
    /// Errors by code.
    pub errors: ErrorCounts,
    /// Operations that were under way when the load stopped: how long they lasted, or had waited when it was given up.
    #[serde(default)]
    pub left: Vec<Latency>,
    /// Bytes.
    pub traffic: Traffic,
    /// What the worker's thread used.
    pub usage: ThreadUsage,
    /// What only this family of workloads has.
    pub extra: E,
}

impl<E: Extra> Recorder<E> {
    /// An empty recorder that keeps the `slowest` slowest transactions.
    pub fn new(slowest: usize) -> Self {
        Self {
            counts: Counts::default(),
            cut: Cut::default(),
            response: Histogram::new(),
            service: Histogram::new(),
            lag: Histogram::new(),
            connecting: ConnectingTimes::default(),
            slowest: Slowest::new(slowest),
            errors: ErrorCounts::default(),
            left: Vec::new(),
            traffic: Traffic::default(),
            usage: ThreadUsage::default(),
            extra: E::default(),
        }
    }

    /// Adds everything of another recorder.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.cut.add(&other.cut);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
        self.connecting.merge(&other.connecting);
        self.slowest.merge(&other.slowest);
        self.errors.merge(&other.errors);
        self.left.extend_from_slice(&other.left);
        self.traffic.add(&other.traffic);
        self.usage.add(&other.usage);
        self.extra.merge(&other.extra);
    }

    /// Makes it empty again without giving memory back.
    pub fn clear(&mut self) {
        self.clear_common();
        self.extra.clear();
    }

    /// Makes it empty after the connections are made.
    pub fn clear_after_connecting(&mut self) {
        self.clear_common();
        self.extra.clear_after_connecting();
    }

    fn clear_common(&mut self) {
        self.counts = Counts::default();
        self.cut = Cut::default();
        self.response.clear();
        self.service.clear();
        self.lag.clear();
        self.connecting.clear();
        self.slowest.clear();
        self.errors.clear();
        self.left.clear();
        self.traffic = Traffic::default();
        self.usage = ThreadUsage::default();
    }
}

/// One slow transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Slow {
    /// Response time.
    pub response_ns: u64,
    /// Service time.
    pub service_ns: u64,
    /// When it ended, on the engine's clock.
    pub ended_ns: u64,
    /// The operation's number.
    pub number: u64,
}

/// The `limit` slowest by response time; most calls are one comparison.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Slowest {
    entries: Vec<Slow>,
    limit: usize,
    threshold_ns: u64,
}

impl Slowest {
    /// Keeps `limit` transactions; 0 keeps none.
    pub fn new(limit: usize) -> Self {
        Self {
            entries: Vec::with_capacity(limit),
            limit,
            threshold_ns: if limit == 0 { u64::MAX } else { 0 },
        }
    }

    /// Considers one transaction.
    #[inline]
    pub fn offer(&mut self, slow: Slow) {
        if slow.response_ns > self.threshold_ns {
            self.insert(slow);
        }
    }

    #[cold]
    fn insert(&mut self, slow: Slow) {
        if self.entries.len() == self.limit {
            self.entries.pop();
        }
        let position = self
            .entries
            .partition_point(|entry| entry.response_ns >= slow.response_ns);
        self.entries.insert(position, slow);
        if self.entries.len() == self.limit {
            self.threshold_ns = self.entries[self.limit - 1].response_ns;
        }
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        other.entries.iter().for_each(|slow| self.offer(*slow));
    }

    /// Moves the times to another clock, which is `behind_ns` behind the one that they were read on.
    pub fn set_back(&mut self, behind_ns: i64) {
        for slow in &mut self.entries {
            slow.ended_ns = slow.ended_ns.saturating_add_signed(-behind_ns);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.threshold_ns = if self.limit == 0 { u64::MAX } else { 0 };
    }

    /// From the slowest down.
    pub fn entries(&self) -> &[Slow] {
        &self.entries
    }
}

/// An operation that has started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operation {
    /// Its number.
    pub number: u64,
    /// When it was due.
    pub intended_ns: u64,
    /// When its first byte was sent.
    pub started_ns: u64,
    /// Whether it belongs to the measurement (in an open loop, by its intended time).
    pub measured: bool,
}

/// An operation that is about to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextOperation {
    /// Its number.
    pub number: u64,
    /// When it is due.
    pub intended_ns: u64,
    /// From when on it may start: later than due where catching up is bounded.
    pub release_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slow(response_ns: u64) -> Slow {
        Slow {
            response_ns,
            service_ns: 0,
            ended_ns: 0,
            number: 0,
        }
    }

    proptest! {
        #[test]
        fn the_slowest_are_those_that_sorting_finds(values in proptest::collection::vec(1u64..1000, 0..50)) {
            let (mut left, mut right) = (Slowest::new(5), Slowest::new(5));
            for (position, value) in values.iter().enumerate() {
                if position % 2 == 0 { left.offer(slow(*value)) } else { right.offer(slow(*value)) }
            }
            left.merge(&right);
            let mut sorted = values;
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            sorted.truncate(5);
            let kept: Vec<u64> = left.entries().iter().map(|entry| entry.response_ns).collect();
            prop_assert_eq!(kept, sorted);
        }
    }
}
