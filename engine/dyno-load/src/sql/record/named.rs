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

    fn at(&mut self, number: usize, name: &str) -> &mut NamedLatency {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number].get_or_insert_with(|| NamedLatency {
            name: name.to_string(),
            service: Histogram::new(),
        })
    }

    /// Adds everything of another.
    pub fn merge(&mut self, other: &Self) {
        for (number, one) in (0..).zip(&other.0) {
            if let Some(one) = one {
                self.at(number, &one.name).service.merge(&one.service);
            }
        }
    }

    /// Forgets all counts.
    pub fn clear(&mut self) {
        self.0.iter_mut().flatten().for_each(|one| one.service.clear());
    }

    /// Each name that has counts.
    pub fn iter(&self) -> impl Iterator<Item = &NamedLatency> {
        self.0.iter().flatten().filter(|one| one.service.count() > 0)
    }
}
