//! Slices of memcached operations.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use dyno_kv::blocking::Client;
use dyno_loop::{Channels, Load, LoadShape};
use serde_json::{Map, Value};

use super::{Comparison, Sum, Target};
use crate::kv::server::{self, Counters};
use crate::kv::{KvCounts, KvRecord, KvSession, KvSettings};
use crate::output::kv as output;
use crate::quality::{Finding, KvInputs};

/// A memcached server under one workload.
pub struct KvTarget {
    settings: Arc<KvSettings>,
    counters: Counters,
    sum: Sum,
    all: KvCounts,
}

impl KvTarget {
    /// Slices of `settings`; `control` is the connection that reads the server's counters.
    pub fn new(settings: Arc<KvSettings>, control: Client) -> Self {
        Self {
            counters: Counters::new(Arc::clone(&settings), control),
            settings,
            sum: Sum::default(),
            all: KvCounts::default(),
        }
    }
}

impl Target for KvTarget {
    type Extra = KvRecord;
    type Counters = BTreeMap<String, String>;

    fn shape(&self) -> &LoadShape {
        &self.settings.load.shape
    }

    fn start_worker(&self, index: usize, channels: Channels<KvRecord>) -> io::Result<JoinHandle<()>> {
        dyno_loop::spawn::<KvSession>(index, Arc::clone(&self.settings), channels)
    }

    fn read_counters(&mut self) -> Option<Self::Counters> {
        self.counters.read()
    }

    fn compare_counters(&self, before: &Self::Counters, after: &Self::Counters, load: &Load<KvRecord>) -> Comparison {
        let totals = &load.totals;
        let uncertain = totals.all.ignored_errors + totals.sums.lost + load.end.unfinished;
        Comparison {
            checks: server::reconcile(before, after, &totals.sums, uncertain),
            growth: server::growth(before, after),
        }
    }

    fn describe(&self, load: &Load<KvRecord>, length_s: f64, record: &mut Map<String, Value>) {
        record.insert("kv".into(), output::body(&self.settings, &load.totals, length_s));
    }

    fn judge(&mut self, load: &Load<KvRecord>, length_s: f64) -> Vec<Finding> {
        self.sum.add(load, length_s);
        self.all.add(&load.totals.sums);
        let kv = KvInputs {
            measured: &load.totals.measured.extra.counts,
            all: &self.all,
            expected_hit_share: None,
        };
        self.sum.judge(load, self.shape(), Some(kv), None)
    }
}
