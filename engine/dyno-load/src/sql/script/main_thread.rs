//! What a script does beside the load: its commands (prepare, cleanup, its own), and what sysbench's main thread does:
//! init(), the report hooks, done().

use std::io;
use std::sync::Arc;

use dyno_loop::recorder::Recorder;
use dyno_loop::{IgnoredErrors, Interval, Observer, Outcome, Phase};
use dyno_mysql::Options;

use super::blocking::BlockingConnections;
use super::machine::{Machine, ScriptThread};
use super::request::{Answer, Request};
use super::{Declared, ScriptContext};
use crate::error::Error;
use crate::sql::record::SqlRecord;
use crate::sql::settings::SqlSettings;

/// What a script offers.
#[derive(Debug)]
pub struct Commands {
    /// The names of its commands, each with whether it may run in several threads.
    pub commands: Vec<(String, bool)>,
    /// Its options.
    pub options: Vec<Declared>,
    /// Whether it has event() or thread_run(), so that it can be a load.
    pub has_load: bool,
}

impl Commands {
    /// Loads the script, to see what it offers. Options that it does not declare are refused.
    ///
    /// # Errors
    /// With the file and the line, or the option and the nearest name.
    pub fn of(context: &ScriptContext) -> Result<Self, Error> {
        let machine = Machine::new(context).map_err(Error::User)?;
        let thread = machine.thread(0).map_err(Error::User)?;
        let options = machine.declared(&thread).map_err(Error::User)?;
        for name in context.options.keys() {
            let is_declared = options.iter().any(|option| option.name == *name);
            // A script for sysbench 0.5 declares none: they are its global variables.
            let is_global = options.is_empty() && context.sources.have_word(name);
            if !is_declared && !is_global {
                return Err(Error::User(unknown_option(name, &options, context)));
            }
        }
        Ok(Self {
            commands: machine.commands(&thread).map_err(Error::User)?,
            has_load: machine.has(&thread, "event") || machine.has(&thread, "thread_run"),
            options,
        })
    }
}

fn unknown_option(name: &str, options: &[Declared], context: &ScriptContext) -> String {
    let shown = |name: &str| format!("--{}", name.replace('_', "-"));
    let script = context.program.path.display();
    if options.is_empty() {
        return format!(
            "there is no option {}: neither dynoload nor the script '{script}' has it",
            shown(name)
        );
    }
    let nearest = options
        .iter()
        .min_by_key(|option| crate::sql::oltp::distance(name, &option.name));
    let all: Vec<String> = options.iter().map(|option| shown(&option.name)).collect();
    format!(
        "there is no option {}; the nearest name is {} (the script '{script}' has {})",
        shown(name),
        nearest.map_or_else(String::new, |option| shown(&option.name)),
        all.join(", ")
    )
}

/// Runs a command of the script: in as many threads as there are connections, where the script permits that.
///
/// # Errors
/// When there is no such command, or with the file and the line where it failed.
pub fn run_command(
    context: &ScriptContext,
    options: &Arc<Options>,
    prepared: bool,
    ignored: &IgnoredErrors,
) -> Result<(), Error> {
    let offered = Commands::of(context)?;
    let name = &context.command;
    let Some((_, is_parallel)) = offered.commands.iter().find(|(command, _)| command == name) else {
        let mut names: Vec<&str> = offered.commands.iter().map(|(name, _)| name.as_str()).collect();
        if offered.has_load {
            names.push("run");
        }
        return Err(Error::User(format!(
            "the script '{}' has no command '{name}'; it has {}",
            context.program.path.display(),
            names.join(", ")
        )));
    };
    let threads = if *is_parallel { context.general.threads } else { 1 };
    let results: Vec<Result<(), Error>> = std::thread::scope(|scope| {
        let run = |number| scope.spawn(move || run_in_thread(context, options, prepared, ignored, number));
        let handles: Vec<_> = (0..threads).map(run).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, Result<(), Error>>| {
            handle
                .join()
                .unwrap_or_else(|_| Err(Error::Output("a thread of the command panicked".into())))
        };
        handles.into_iter().map(join).collect()
    });
    results.into_iter().collect()
}

fn run_in_thread(
    context: &ScriptContext,
    options: &Arc<Options>,
    prepared: bool,
    ignored: &IgnoredErrors,
    number: u32,
) -> Result<(), Error> {
    let machine = Machine::new(context).map_err(Error::User)?;
    let mut thread = machine.thread(number).map_err(Error::User)?;
    let mut connections = BlockingConnections::new(Arc::clone(options), prepared, 1);
    call(&machine, &mut thread, &context.command, &mut connections, ignored)
        .map(|_| ())
        .map_err(Error::Output)
}

/// Calls a function of the script and does what it requests, until it returns; how many statements it sent.
///
/// # Errors
/// With the file and the line where it failed.
pub fn call(
    machine: &Machine,
    thread: &mut ScriptThread,
    name: &str,
    connections: &mut BlockingConnections,
    ignored: &IgnoredErrors,
) -> Result<u64, String> {
    machine.waited();
    let first = machine.call(thread, name)?;
    follow(machine, thread, first, connections, ignored)
}

/// Does what a script requests, until it returns; how many statements were sent.
///
/// # Errors
/// With the file and the line where it failed.
pub fn follow(
    machine: &Machine,
    thread: &mut ScriptThread,
    first: Request,
    connections: &mut BlockingConnections,
    ignored: &IgnoredErrors,
) -> Result<u64, String> {
    let mut request = first;
    let mut questions = 0;
    loop {
        if matches!(request, Request::Stop) {
            return Ok(questions);
        }
        questions += connections.questions(&request);
        let (answer, _): (Answer, _) = connections.perform(request, &|code| ignored.contains(code));
        machine.waited();
        request = machine.resume(thread, answer)?;
    }
}

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
