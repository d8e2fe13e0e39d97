//! Slices of memcached operations.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use dyno_kv::blocking::Client;
use dyno_loop::{Channels, Load, LoadShape};
use serde_json::{Map, Value};

use super::{Comparison, Target};
use crate::kv::server::{self, Counters};
use crate::kv::{KvRecord, KvSession, KvSettings};
use crate::output::kv as output;

/// A memcached server under one workload.
pub struct KvTarget {
    settings: Arc<KvSettings>,
    counters: Counters,
}

impl KvTarget {
    /// Slices of `settings`; `control` is the connection that reads the server's counters.
    pub fn new(settings: Arc<KvSettings>, control: Client) -> Self {
        Self {
            counters: Counters::new(Arc::clone(&settings), control),
            settings,
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
}
