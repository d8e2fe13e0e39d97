//! What sysbench's main thread does with a script: init(), the report hooks, done().

use std::io;
use std::sync::Arc;

use dyno_loop::recorder::Recorder;
use dyno_loop::{Interval, Observer, Outcome, Phase};

use super::blocking::BlockingConnections;
use super::command::{call, follow};
use super::machine::{Machine, ScriptThread};
use super::program::ScriptContext;
use crate::error::Error;
use crate::sql::record::SqlRecord;
use crate::sql::settings::SqlSettings;

/// The percentile of sysbench's reports.
const PERCENTILE: f64 = 95.0;

/// A script in an environment of its own, beside those of the connections.
pub struct MainThread {
    machine: Machine,
    thread: ScriptThread,
    connections: BlockingConnections,
    settings: Arc<SqlSettings>,
    reports_intervals: bool,
    /// What the report hooks of intervals asked the server.
    questions: u64,
}

impl MainThread {
    /// Loads the script, and calls its init().
    ///
    /// # Errors
    /// With the file and the line where it failed.
    pub fn start(context: &ScriptContext, settings: &Arc<SqlSettings>) -> Result<Self, Error> {
        let machine = Machine::new(context).map_err(Error::User)?;
        let thread = machine.thread(0).map_err(Error::User)?;
        let mut main = Self {
            reports_intervals: machine.has_hook(&thread, "report_intermediate"),
            questions: 0,
            connections: BlockingConnections::new(Arc::clone(&settings.options), settings.prepared, 1),
            settings: Arc::clone(settings),
            machine,
            thread,
        };
        main.call("init")?;
        Ok(main)
    }

    fn call(&mut self, name: &str) -> Result<(), Error> {
        let ignored = &self.settings.load.ignored_errors;
        call(&self.machine, &mut self.thread, name, &mut self.connections, ignored)
            .map(|_| ())
            .map_err(Error::Output)
    }

    fn report(&mut self, name: &str, figures: &[(&str, f64)]) -> Result<u64, String> {
        self.machine.waited();
        let first = self.machine.report(&mut self.thread, name, figures)?;
        let ignored = &self.settings.load.ignored_errors;
        follow(&self.machine, &mut self.thread, first, &mut self.connections, ignored)
    }

    /// What the report hooks of intervals asked the server, beside the load.
    pub fn questions(&self) -> u64 {
        self.questions
    }

    fn figures(&self, recorder: &Recorder<SqlRecord>, length_s: f64, total_s: f64) -> Vec<(&'static str, f64)> {
        let (counts, response) = (&recorder.counts, &recorder.response);
        let seconds = |ns: u64| ns as f64 / 1e9;
        vec![
            ("threads_running", f64::from(self.settings.connections())),
            ("time_interval", length_s.max(1e-9)),
            ("time_total", total_s),
            ("events", counts.transactions as f64),
            ("reads", counts.reads as f64),
            ("writes", counts.writes as f64),
            ("other", counts.other as f64),
            ("errors", (counts.errors + counts.ignored_errors) as f64),
            ("reconnects", counts.reconnects as f64),
            ("latency_pct", seconds(response.percentile_ns(PERCENTILE))),
            ("latency_min", seconds(response.percentile_ns(0.0))),
            ("latency_max", seconds(response.max_ns())),
            ("latency_sum", seconds(response.sum_ns())),
            (
                "latency_avg",
                seconds(response.sum_ns()) / response.count().max(1) as f64,
            ),
        ]
    }

    /// Passes an interval of the measurement to the script's hook.
    fn interval(&mut self, interval: &Interval<'_, SqlRecord>) -> io::Result<()> {
        if !self.reports_intervals || interval.phase != Phase::Measure {
            return Ok(());
        }
        let total_s = interval.start_s + interval.length_s;
        let figures = self.figures(interval.recorder, interval.length_s, total_s);
        let questions = self.report("report_intermediate", &figures).map_err(io::Error::other)?;
        self.questions += questions;
        Ok(())
    }

    /// Passes the whole measurement to the script's hook, and calls done().
    ///
    /// # Errors
    /// With the file and the line where it failed.
    pub fn finish(mut self, outcome: Option<(&Outcome<SqlRecord>, f64)>) -> Result<(), Error> {
        if let Some((totals, duration_s)) = outcome.and_then(|(outcome, s)| Some((outcome.totals.as_ref()?, s))) {
            if self.machine.has_hook(&self.thread, "report_cumulative") {
                let figures = self.figures(&totals.measured, duration_s, duration_s);
                self.report("report_cumulative", &figures).map_err(Error::Output)?;
            }
            self.machine.reported(&self.thread).map_err(Error::Output)?;
        }
        self.call("done")
    }
}

/// Shows each interval to an observer, then to the script.
pub struct Reporting<'a> {
    /// The observer.
    pub observer: &'a mut dyn Observer<SqlRecord>,
    /// The script, if the workload is one.
    pub main: Option<&'a mut MainThread>,
}

impl Observer<SqlRecord> for Reporting<'_> {
    fn interval(&mut self, interval: &Interval<'_, SqlRecord>) -> io::Result<()> {
        self.observer.interval(interval)?;
        self.main.as_mut().map_or(Ok(()), |main| main.interval(interval))
    }
}
