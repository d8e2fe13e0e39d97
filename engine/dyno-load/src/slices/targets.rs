//! What slices load: a MySQL or MariaDB server, a memcached server, or either of them from agents on other hosts.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use dyno_kv::blocking::Client as KvClient;
use dyno_loop::recorder::Extra as _;
use dyno_loop::{Channels, Load, LoadShape};
use dyno_mysql::blocking::Client;
use dyno_mysql::Options;
use serde_json::{json, Map, Value};

use super::record::{Comparison, Sum};
use super::Target;
use crate::agents::{Proxies, Shippable};
use crate::kv::server::{self as kv_server, Counters};
use crate::kv::{KvCounts, KvRecord, KvSession, KvSettings};
use crate::output::{kv as kv_output, sql as output};
use crate::quality::{Finding, KvInputs, OwnSql};
use crate::sql::reconciliation::ServerCounters;
use crate::sql::script::ScriptSession;
use crate::sql::{server, SqlRecord, SqlSession, SqlSettings, SqlWorkload};

/// A MySQL or MariaDB server under one workload.
pub struct SqlTarget {
    settings: Arc<SqlSettings>,
    options: Options,
    control: Option<Client>,
    sum: Sum,
    recorded: SqlRecord,
}

impl SqlTarget {
    /// Slices of `settings`; `control` is the connection that reads the server's counters.
    pub fn new(settings: &SqlSettings, control: Client) -> Self {
        let options = settings.control_options();
        Self {
            settings: Arc::new(settings.clone()),
            options,
            control: Some(control),
            sum: Sum::default(),
            recorded: SqlRecord::default(),
        }
    }
}

impl Target for SqlTarget {
    type Extra = SqlRecord;
    type Counters = ServerCounters;

    fn shape(&self) -> &LoadShape {
        &self.settings.load.shape
    }

    fn start_worker(&self, index: usize, channels: Channels<SqlRecord>) -> io::Result<JoinHandle<()>> {
        let settings = Arc::clone(&self.settings);
        match settings.workload {
            SqlWorkload::Script(_) => dyno_loop::spawn::<ScriptSession>(index, settings, channels),
            _ => dyno_loop::spawn::<SqlSession>(index, settings, channels),
        }
    }

    /// A control connection that the server has closed meanwhile is made again, once.
    fn read_counters(&mut self) -> Option<ServerCounters> {
        if let Some(counters) = self
            .control
            .as_mut()
            .and_then(|client| ServerCounters::read(client).ok())
        {
            return Some(counters);
        }
        self.control = server::connect(&self.options).ok();
        ServerCounters::read(self.control.as_mut()?).ok()
    }

    fn compare_counters(&self, before: &ServerCounters, after: &ServerCounters, load: &Load<SqlRecord>) -> Comparison {
        let growth = after.growth(before);
        if self.settings.connects_each_time() {
            // What each connection does to become one is no statement of the load.
            return Comparison {
                checks: Vec::new(),
                growth,
            };
        }
        let of_reconnecting = self.settings.questions_of_reconnecting(&load.totals);
        let uncertain = load.totals.all.ignored_errors;
        Comparison {
            checks: after.reconcile(before, &load.totals, uncertain, of_reconnecting),
            growth,
        }
    }

    fn describe(&self, load: &Load<SqlRecord>, length_s: f64, record: &mut Map<String, Value>) {
        if let Some(tls) = output::tls(&load.totals) {
            record.insert("tls".into(), tls);
        }
        if let Some(named) = output::named(&load.totals.measured) {
            record.insert("named".into(), named);
        }
        if let SqlWorkload::Captured(context) = &self.settings.workload {
            record.insert("digests".into(), json!(context.digests));
            if context.is_paced() {
                let begin_s = f64::from(load.timeline.stream) / 1e3;
                let played_s = (load.timeline.stop_ns - load.timeline.start_ns) as f64 / 1e9;
                let played = json!({ "begin_s": begin_s, "end_s": begin_s + played_s, "length_s": context.length_s });
                record.insert("captured".into(), played);
            }
        }
        if let Some(config) = self.settings.workload.tpcc() {
            if let Some(tpcc) = output::tpcc(&load.totals.measured, &json!(config), length_s) {
                record.insert("tpcc".into(), tpcc);
            }
        }
    }

    fn judge(&mut self, load: &Load<SqlRecord>, length_s: f64) -> Vec<Finding> {
        self.sum.add(load, length_s);
        self.recorded.merge(&load.totals.measured.extra);
        let own_sql = OwnSql::of(&self.settings, &self.recorded);
        self.sum.judge(load, self.shape(), None, own_sql)
    }

    fn leave(&mut self) {
        if let Some(control) = self.control.take() {
            // A server that is gone needs no goodbye.
            let _ = control.quit();
        }
    }
}

/// A memcached server under one workload.
pub struct KvTarget {
    settings: Arc<KvSettings>,
    counters: Counters,
    sum: Sum,
    all: KvCounts,
}

impl KvTarget {
    /// Slices of `settings`; `control` is the connection that reads the server's counters.
    pub fn new(settings: Arc<KvSettings>, control: KvClient) -> Self {
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
            checks: kv_server::reconcile(before, after, &totals.sums, uncertain),
            growth: kv_server::growth(before, after),
        }
    }

    fn describe(&self, load: &Load<KvRecord>, length_s: f64, record: &mut Map<String, Value>) {
        record.insert("kv".into(), kv_output::body(&self.settings, &load.totals, length_s));
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

/// From a command to the first statement, beside what the way to the agents takes: a relay may be busy for a moment.
const AGENTS_DELAY_NS: u64 = 30_000_000;

/// A target that agents load.
pub struct AgentsTarget<T> {
    inner: T,
    proxies: Proxies,
    delay_ns: u64,
}

impl<T: Target> AgentsTarget<T> {
    /// `way_ns`: what a start needs to reach every agent.
    pub fn new(inner: T, proxies: Proxies, way_ns: u64) -> Self {
        Self {
            inner,
            proxies,
            delay_ns: AGENTS_DELAY_NS + way_ns,
        }
    }
}

impl<T: Target> Target for AgentsTarget<T>
where
    T::Extra: Shippable,
{
    type Extra = T::Extra;
    type Counters = T::Counters;

    fn shape(&self) -> &LoadShape {
        &self.proxies.shape
    }

    fn start_worker(&self, index: usize, channels: Channels<T::Extra>) -> io::Result<JoinHandle<()>> {
        self.proxies.start(index, channels)
    }

    fn read_counters(&mut self) -> Option<T::Counters> {
        self.inner.read_counters()
    }

    fn compare_counters(&self, before: &T::Counters, after: &T::Counters, load: &Load<T::Extra>) -> Comparison {
        self.inner.compare_counters(before, after, load)
    }

    fn describe(&self, load: &Load<T::Extra>, length_s: f64, record: &mut Map<String, Value>) {
        self.inner.describe(load, length_s, record);
    }

    fn judge(&mut self, load: &Load<T::Extra>, length_s: f64) -> Vec<Finding> {
        self.inner.judge(load, length_s)
    }

    fn start_delay_ns(&self) -> u64 {
        self.delay_ns
    }

    fn leave(&mut self) {
        self.inner.leave();
    }
}
