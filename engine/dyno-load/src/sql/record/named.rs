//! Latencies by the names that a user's file gives: its statements and transactions.

use dyno_core::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// One name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NamedLatency {
    /// The name.
    pub name: String,
    /// Service time.
    pub service: Histogram,
    /// Results with columns: statements that read.
    #[serde(default)]
    pub reads: u64,
    /// Those among them without a row.
    #[serde(default)]
    pub empty_reads: u64,
}

/// All names; empty for workloads of dynoload's own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Named(Vec<Option<NamedLatency>>);

impl Named {
    /// Counts one under the number that its name has in the file.
    #[inline]
    pub fn record(&mut self, number: usize, name: &str, service_ns: u64) {
        self.at(number, name).service.record(service_ns);
    }

    /// Counts one statement; `rows` of its result, none where it does not read.
    #[inline]
    pub fn record_statement(&mut self, number: usize, name: &str, service_ns: u64, rows: Option<u64>) {
        let one = self.at(number, name);
        one.service.record(service_ns);
        one.reads += u64::from(rows.is_some());
        one.empty_reads += u64::from(rows == Some(0));
    }

    fn at(&mut self, number: usize, name: &str) -> &mut NamedLatency {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number].get_or_insert_with(|| NamedLatency {
            name: name.to_string(),
            service: Histogram::new(),
            reads: 0,
            empty_reads: 0,
        })
    }

    /// Adds everything of another.
    pub fn merge(&mut self, other: &Self) {
        for (number, one) in (0..).zip(&other.0) {
            if let Some(one) = one {
                let mine = self.at(number, &one.name);
                mine.service.merge(&one.service);
                mine.reads += one.reads;
                mine.empty_reads += one.empty_reads;
            }
        }
    }

    /// Forgets all counts.
    pub fn clear(&mut self) {
        for one in self.0.iter_mut().flatten() {
            one.service.clear();
            (one.reads, one.empty_reads) = (0, 0);
        }
    }

    /// Each name that has counts.
    pub fn iter(&self) -> impl Iterator<Item = &NamedLatency> {
        self.0.iter().flatten().filter(|one| one.service.count() > 0)
    }
}
