//! Slices of SQL: the workers and counters of a MySQL or MariaDB server.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use dyno_loop::recorder::Extra as _;
use dyno_loop::{Channels, Load, LoadShape};
use dyno_mysql::blocking::Client;
use dyno_mysql::Options;
use serde_json::{json, Map, Value};

use super::{Comparison, Sum, Target};
use crate::output::sql as output;
use crate::quality::{Finding, OwnSql};
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
