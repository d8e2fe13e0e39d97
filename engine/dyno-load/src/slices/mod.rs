//! Slices: connections are made once, hold without using the CPU, and carry load for a while on command.
//!
//! Commands are lines on the standard input: `go ID STREAM WASHOUT_MS MEASURE_MS [RATE|connections=N]`, and `end`,
//! which closes the connections, as does the end of the input. The first WASHOUT_MS do not count, the next MEASURE_MS
//! do; then transactions in progress end, within `--grace`. RATE (only with `--rate`) is that of this slice;
//! `connections=N` (only without) loads so many of them. The same STREAM has the same operations in the same order; of
//! a capture at captured times it is the place in the capture, in ms.
//!
//! Results are JSON lines on the standard output: `header`, `ready`, `slice`, `refused`, `failed`, `end`. A slice has
//! the counts and latencies of the counted part, `histogram` (HdrHistogram V2, deflated, base64, in ns), `cpu`,
//! `server_cpu_us`, `host_cpu`, and `whole_counts` and `server_counters` of the whole. Between two slices no statement
//! is sent and no timer runs.

mod input;
mod record;
mod targets;

pub use input::{Command, Event, Go, Input};
pub use record::Comparison;
pub use targets::{AgentsTarget, KvTarget, SqlTarget};

use std::io;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use dyno_core::clock::now_ns;
use dyno_core::wire::LineWriter;
use dyno_loop::gauges::Watch;
use dyno_loop::recorder::Extra;
use dyno_loop::{Channels, Crew, Failure, Interval, Load, LoadShape, Observer, Timeline};
use serde_json::{json, Map, Value};

use crate::error::{Error, Exit};
use crate::output::json::FORMAT;
use crate::quality::Finding;
use crate::server::Facts;

/// From a command to the first statement: what sleeping threads need to wake up, so that all workers start together.
const START_DELAY_NS: u64 = 200_000;

/// What the slices load.
pub trait Target {
    /// What its workers record.
    type Extra: Extra;
    /// What is read of the server.
    type Counters;

    /// Times and shares; those of the load itself come with each command.
    fn shape(&self) -> &LoadShape;

    /// Starts a worker.
    ///
    /// # Errors
    /// When the kernel refuses another thread.
    fn start_worker(&self, index: usize, channels: Channels<Self::Extra>) -> io::Result<JoinHandle<()>>;

    /// Reads the server's counters; none where it does not answer.
    fn read_counters(&mut self) -> Option<Self::Counters>;

    /// Compares what a slice added to them with what was sent.
    fn compare_counters(&self, before: &Self::Counters, after: &Self::Counters, load: &Load<Self::Extra>)
        -> Comparison;

    /// Adds what a slice of this kind has beside every slice.
    fn describe(&self, load: &Load<Self::Extra>, length_s: f64, record: &mut Map<String, Value>);

    /// Adds a slice to the sum of all, and returns what its rules on the load itself find in that.
    fn judge(&mut self, load: &Load<Self::Extra>, length_s: f64) -> Vec<Finding>;

    /// From a command to the first statement.
    fn start_delay_ns(&self) -> u64 {
        START_DELAY_NS
    }

    /// Closes what the counters were read with.
    fn leave(&mut self) {}
}

/// Nobody looks at the intervals.
pub struct NoObserver;

impl<E> Observer<E> for NoObserver {
    fn interval(&mut self, _: &Interval<'_, E>) -> io::Result<()> {
        Ok(())
    }
}

type Lines = LineWriter<io::Stdout>;

/// Connects, then runs slices on command until the end of the input.
///
/// # Errors
/// When a thread cannot be started, or the standard output fails.
pub fn run<T: Target>(
    target: &mut T,
    mut settings: Value,
    server: &Facts,
    watch: Watch,
    input: &Input,
) -> Result<Exit, Error> {
    if let Some(settings) = settings.as_object_mut() {
        for name in ["warmup_s", "duration_s", "interval_s"] {
            settings.remove(name);
        }
        settings.insert("slices".into(), json!(true));
        settings.insert("server_pid".into(), json!(watch.server_pid));
    }
    let header = json!({ "settings": settings, "server": server, "unix_s": dyno_core::clock::wall_clock_s() });
    let mut lines = LineWriter::start(io::stdout(), FORMAT, &header)?;
    let start_worker = |index, channels| target.start_worker(index, channels);
    let mut crew = match Crew::start(target.shape(), &start_worker, Some(watch), &input.interrupted)? {
        Ok(crew) => crew,
        Err(not_ready) => return fail(&mut lines, not_ready.failure),
    };
    let ready = json!({ "connections": target.shape().connections, "connect_s": crew.connect_s });
    lines.record("ready", &ready)?;
    let exit = serve(target, &mut crew, &mut lines, input);
    match exit {
        Ok(Exit::Done | Exit::Interrupted) => {
            crew.dismiss();
            target.leave();
        }
        _ => crew.call_off(),
    }
    exit
}

fn serve<T: Target>(
    target: &mut T,
    crew: &mut Crew<T::Extra>,
    lines: &mut Lines,
    input: &Input,
) -> Result<Exit, Error> {
    let mut held_ns = now_ns();
    loop {
        let (line, read_ns) = match input.next() {
            // A command that came during the last slice waited for its end.
            Event::Line(line, read_ns) => (line, read_ns.max(held_ns)),
            Event::EndOfInput => return Ok(Exit::Done),
            Event::Interrupted => return Ok(Exit::Interrupted),
        };
        let go = match Command::parse(&line) {
            Ok(Command::Nothing) => continue,
            Ok(Command::End) => return Ok(Exit::Done),
            Ok(Command::Go(go)) => go,
            Err(message) => {
                lines.record("refused", &json!({ "message": message }))?;
                continue;
            }
        };
        if go.times.rate_per_ks.is_some() && target.shape().schedule.is_none() {
            let message = "a slice has a rate of its own only where the load has one: start it with --rate";
            lines.record("refused", &json!({ "message": message }))?;
            continue;
        }
        let most = target.shape().connections;
        if go
            .times
            .connections
            .is_some_and(|count| target.shape().schedule.is_some() || count > most)
        {
            let message = format!("a slice loads 1 to {most} connections, and only of a load without --rate");
            lines.record("refused", &json!({ "message": message }))?;
            continue;
        }
        let before = target.read_counters();
        let timeline = Timeline::slice(now_ns() + target.start_delay_ns(), &go.times, target.shape().grace_ns);
        let load = crew.load(timeline, target.shape(), &input.interrupted, &mut NoObserver)?;
        if load.interrupted {
            return fail(lines, None);
        }
        if load.failure.is_some() {
            return fail(lines, load.failure);
        }
        let counters = before.zip(target.read_counters());
        let comparison = counters.map(|(before, after)| target.compare_counters(&before, &after, &load));
        let (mut record, length_s) = record::record(&go, &load, read_ns, &comparison.unwrap_or_default())?;
        target.describe(&load, length_s, &mut record);
        record.insert("findings".into(), json!(target.judge(&load, length_s)));
        lines.record("slice", &record)?;
        held_ns = now_ns();
    }
}

/// Reports why there are no further slices; without a failure the program was interrupted.
fn fail(lines: &mut Lines, failure: Option<Failure>) -> Result<Exit, Error> {
    let exit = if failure.is_some() {
        Exit::Failed
    } else {
        Exit::Interrupted
    };
    let failure = failure.unwrap_or_else(|| Failure::new("interrupted by a signal"));
    dyno_core::tell!("dynoload: {failure}");
    lines.record("failed", &failure)?;
    Ok(exit)
}

impl Input {
    /// The next event; a signal that came during a slice is one.
    fn next(&self) -> Event {
        if self.interrupted.load(Ordering::Relaxed) {
            return Event::Interrupted;
        }
        self.events.recv().unwrap_or(Event::EndOfInput)
    }
}
