//! Transactions by type, for a workload that has several (TPC-C).

use dyno_core::histogram::Histogram;
use dyno_loop::Latency;
use serde::{Deserialize, Serialize};

use crate::sql::tpcc::{Execution, Kind};

/// Counts of one type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeCounts {
    /// Committed, late ones too.
    pub committed: u64,
    /// Rolled back because the input asked for it (1 % of the New-Orders).
    pub rolled_back: u64,
    /// Ended, but with a response time above the standard's limit.
    pub late: u64,
    /// Attempts that failed and were made again.
    pub retries: u64,
    /// Districts that a Delivery found without a new order.
    pub skipped_districts: u64,
}

/// One type.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TypeRecorder {
    /// Counts.
    pub counts: TypeCounts,
    /// From the intended time to the end.
    pub response: Histogram,
    /// From the first byte sent to the last received.
    pub service: Histogram,
}

/// All types; empty until the first transaction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ByType(Vec<TypeRecorder>);

impl ByType {
    fn all(&mut self) -> &mut [TypeRecorder] {
        if self.0.is_empty() {
            self.0 = Kind::ALL.iter().map(|_| TypeRecorder::default()).collect();
        }
        &mut self.0
    }

    /// Counts one transaction that has ended.
    #[inline]
    pub fn record(&mut self, execution: &Execution, latency: Latency) {
        let kind = execution.kind();
        let recorder = &mut self.all()[kind as usize];
        if execution.is_rolled_back() {
            recorder.counts.rolled_back += 1;
        } else {
            recorder.counts.committed += 1;
        }
        recorder.counts.late += u64::from(latency.response_ns > kind.limit_ns());
        recorder.counts.retries += execution.retries();
        recorder.counts.skipped_districts += u64::from(execution.skipped());
        recorder.service.record(latency.service_ns);
        recorder.response.record(latency.response_ns);
    }

    /// Adds everything of another.
    pub fn merge(&mut self, other: &Self) {
        self.merge_latencies(other);
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.counts.committed += theirs.counts.committed;
            mine.counts.rolled_back += theirs.counts.rolled_back;
            mine.counts.late += theirs.counts.late;
            mine.counts.retries += theirs.counts.retries;
            mine.counts.skipped_districts += theirs.counts.skipped_districts;
        }
    }

    /// Adds another's latencies alone.
    pub fn merge_latencies(&mut self, other: &Self) {
        if other.0.is_empty() {
            return;
        }
        for (mine, theirs) in self.all().iter_mut().zip(&other.0) {
            mine.response.merge(&theirs.response);
            mine.service.merge(&theirs.service);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        for recorder in &mut self.0 {
            recorder.counts = TypeCounts::default();
            recorder.response.clear();
            recorder.service.clear();
        }
    }

    /// Each type with its record; none when there was no transaction.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &TypeRecorder)> {
        Kind::ALL.into_iter().zip(&self.0)
    }

    /// Transactions that ended, of all types.
    pub fn ended(&self) -> u64 {
        self.0
            .iter()
            .map(|recorder| recorder.counts.committed + recorder.counts.rolled_back)
            .sum()
    }

    /// New-Orders committed.
    pub fn new_orders(&self) -> u64 {
        self.0.first().map_or(0, |recorder| recorder.counts.committed)
    }
}
