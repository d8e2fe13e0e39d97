//! How much load, for how long, and when: as the user wrote it, and resolved into settings.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dyno_core::distribution::{Distribution, Parameters};
use dyno_core::schedule::{ArrivalSchedule, Arrivals};
use dyno_loop::{Address, IgnoredErrors, LoadSettings, LoadShape, OperationLimit, Overload, Priority, Think};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use super::ConnectionSpec;
use crate::error::Error;
use crate::kv::Mix;
use crate::parse::{connections, duration, measurable_duration, positive_duration, threads as thread_count, within};

/// Connections that one worker serves before another thread is worth its context switches, where their number is not set.
const CONNECTIONS_PER_THREAD: u32 = 64;

/// How much load, and for how long.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Load")]
pub struct LoadSpec {
    /// Connections; independent of --threads. Default: 1; of a capture at captured times, as many as it had at a time
    #[arg(long, value_parser = connections)]
    pub connections: Option<u32>,
    /// Worker threads, with --agent of each agent; default: one for each 64 connections, at most one for each CPU
    #[arg(long, value_parser = thread_count)]
    pub threads: Option<u32>,
    /// normal; raised: niceness -5, if permitted, so that the server delays the load less; realtime, for planned load
    /// only: transactions are sent when they are due; auto: realtime for planned load if permitted, else raised
    #[arg(long, default_value = "auto")]
    pub priority: String,
    /// Load before the measurement
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub warmup: Duration,
    /// Length of the measurement
    #[arg(long, default_value = "10s", value_parser = measurable_duration)]
    pub duration: Duration,
    /// Open loop: transactions per second. 5000; steps 1000@10s,2000@10s,4000; a ramp 1000..5000@30s; a sine wave
    /// 5000~2000@60s (amplitude 2000, period 60 s); or trace:FILE, a time in seconds on each line. Without it a closed
    /// loop: each connection starts its next transaction when the previous one has ended
    #[arg(long)]
    pub rate: Option<String>,
    /// Gaps between planned transactions: constant or poisson (a trace contains its own)
    #[arg(long, default_value = "constant", requires = "rate")]
    pub arrivals: String,
    /// What to do with planned transactions while no connection is free: queue, drop-late or abort
    #[arg(long, default_value = "queue", requires = "rate")]
    pub overload: String,
    /// After a stall, start waiting transactions at most this many times as fast as planned, as in 2; without it as
    /// soon as connections are free. Their response times still count from when they were due
    #[arg(long, requires = "rate")]
    pub catch_up: Option<f64>,
    /// How late a planned transaction may start before drop-late or abort acts
    #[arg(long, default_value = "1s", value_parser = positive_duration)]
    pub late_limit: Duration,
    /// How to wait for planned times: sleep, or spin (uses CPU for the last 50 µs; only if a CPU is free)
    #[arg(long, default_value = "sleep", requires = "rate")]
    pub pacing: String,
    /// Closed loop: pause of a connection between transactions; exponential:MEAN for an exponential one
    #[arg(long, conflicts_with = "rate")]
    pub think_time: Option<String>,
    /// Time after the measurement for transactions to end; then the run stops, even if the server hangs. With --slices
    /// 30s, after which the load fails
    #[arg(long, default_value = "5s", default_value_if("slices", "true", "30s"), value_parser = duration)]
    pub grace: Duration,
    /// Errors that restart their transaction: numbers, or all. 2003,2013 reconnect
    #[arg(long, default_value = "1213,1020,1205", alias = "mysql-ignore-errors")]
    pub ignore_errors: String,
    /// auto: prepared statements; disable: text
    #[arg(long, default_value = "auto")]
    pub db_ps_mode: String,
    /// Seed: the same seed sends the same statements with any number of threads
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of slowest transactions to report
    #[arg(long, default_value = "10", value_parser = within::<0, 100_000>)]
    pub slowest: u32,
    /// Length of an interval
    #[arg(long, default_value = "1s", value_parser = measurable_duration)]
    pub interval: Duration,
    /// Transactions that end the run before its time; closed loop only.
    #[arg(skip)]
    pub events: Option<u64>,
    /// The text of the trace that --rate names, where the coordinator of a run has sent it.
    #[arg(skip)]
    pub trace: Option<String>,
}

/// When the load ends, where transactions are the user's.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Load")]
pub struct EventOptions {
    /// Closed loop: end after this many transactions in all, if --duration has not passed before; 0: by time alone
    #[arg(long, default_value_t = 0, conflicts_with_all = ["rate", "warmup", "slices", "agent"])]
    pub events: u64,
}

/// The server that a load is for.
#[derive(Debug)]
pub struct ServerAddress {
    /// As the user named it.
    pub endpoint: String,
    /// The same, name resolved.
    pub address: Address,
    /// Time for each connection to be ready.
    pub connect_timeout: Duration,
}

/// Which rows.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Row selection (sysbench's rand options; zipfian is that of its version 1.1)")]
pub struct RandomSpec {
    /// uniform, special, gaussian, pareto or zipfian
    #[arg(long, default_value = "special")]
    pub rand_type: String,
    /// Draws that make one gaussian value
    #[arg(long, default_value = "12", value_parser = within::<1, 1000>)]
    pub rand_spec_iter: u32,
    /// Percent of the range that is special
    #[arg(long, default_value = "1", value_parser = within::<0, 100>)]
    pub rand_spec_pct: u32,
    /// Percent of the values that are special
    #[arg(long, default_value = "75", value_parser = within::<0, 99>)]
    pub rand_spec_res: u32,
    /// Shape of the pareto distribution
    #[arg(long, default_value_t = 0.2)]
    pub rand_pareto_h: f64,
    /// Exponent of the zipfian distribution
    #[arg(long, default_value_t = 0.8)]
    pub rand_zipfian_exp: f64,
}

impl RandomSpec {
    /// The distribution.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn distribution(&self) -> Result<Distribution, Error> {
        let parameters = Parameters {
            special_iterations: self.rand_spec_iter,
            special_percent: self.rand_spec_pct,
            special_values_percent: self.rand_spec_res,
            pareto_h: self.rand_pareto_h,
            zipfian_exponent: self.rand_zipfian_exp,
        };
        Distribution::named(&self.rand_type, &parameters)
            .map_err(|problem| Error::User(format!("--rand-type: {problem}")))
    }

    /// The distribution and its parameters, for the result.
    pub fn shown(&self) -> serde_json::Value {
        json!({
            "type": self.rand_type,
            "spec_iter": self.rand_spec_iter,
            "spec_pct": self.rand_spec_pct,
            "spec_res": self.rand_spec_res,
            "pareto_h": self.rand_pareto_h,
            "zipfian_exp": self.rand_zipfian_exp,
        })
    }
}

impl LoadSpec {
    /// Sets the end that `--events` asks for.
    pub fn end_after(&mut self, options: &EventOptions) {
        self.events = (options.events > 0).then_some(options.events);
    }

    /// The number set, else 1.
    pub fn connections(&self) -> u32 {
        self.connections.unwrap_or(1)
    }

    /// Which errors do not end the run.
    ///
    /// # Errors
    /// When a code is none.
    pub fn ignored_errors(&self) -> Result<IgnoredErrors, Error> {
        ignored_errors(&self.ignore_errors)
    }

    /// The settings of the loop; `has_terminals` where operations are due at key and think times.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn resolve(&self, server: ServerAddress, has_terminals: bool) -> Result<LoadSettings, Error> {
        let nanoseconds = |value: Duration| value.as_nanos() as u64;
        let shape = LoadShape {
            threads: threads(self),
            connections: self.connections(),
            warmup_ns: nanoseconds(self.warmup),
            duration_ns: nanoseconds(self.duration),
            grace_ns: nanoseconds(self.grace),
            interval_ns: nanoseconds(self.interval),
            schedule: schedule(self)?,
            catch_up: catch_up(self)?,
            slowest: self.slowest as usize,
            has_terminals,
        };
        Ok(LoadSettings {
            overload: overload(self)?,
            think: think(self.think_time.as_deref())?,
            seed: self.seed,
            ignored_errors: ignored_errors(&self.ignore_errors)?,
            priority: priority(self, has_terminals || self.rate.is_some())?,
            spin: one_of("--pacing", &self.pacing, &["sleep", "spin"])? == "spin",
            connect_timeout_ns: nanoseconds(server.connect_timeout),
            limit: self.events.map(OperationLimit::new),
            ..LoadSettings::new(shape, server.endpoint, server.address)
        })
    }
}

/// The settings in the words in which they were given.
pub fn description(connection: &ConnectionSpec, load: &LoadSpec, distribution: serde_json::Value) -> SqlDescription {
    let open_loop = |text: &str| load.rate.as_ref().map(|_| text.to_string());
    let limit = if load.overload == "queue" {
        String::new()
    } else {
        format!(" after {:?}", load.late_limit)
    };
    SqlDescription {
        rate: load.rate.clone(),
        arrivals: open_loop(arrivals_word(load)),
        overload: open_loop(&format!("{}{limit}", load.overload)),
        catch_up: load.catch_up,
        think: load.think_time.clone().unwrap_or_else(|| "none".into()),
        distribution,
        ignore_errors: load.ignore_errors.clone(),
        tls_mode: connection.ssl_mode.clone(),
        tls_in_use: String::new(),
        compression: connection.compression.clone(),
    }
}

/// Where the arrival times come from, for the result.
pub fn arrivals_word(load: &LoadSpec) -> &str {
    trace_path(load).map_or(load.arrivals.as_str(), |_| "trace")
}

/// The value, when it is one of those allowed.
///
/// # Errors
/// With the option and what is allowed.
pub fn one_of<'a>(option: &str, value: &'a str, allowed: &[&str]) -> Result<&'a str, Error> {
    if allowed.contains(&value) {
        return Ok(value);
    }
    Err(Error::User(format!(
        "{option} '{value}' is not known; use {}",
        allowed.join(" or ")
    )))
}

/// The priority; `planned` when operations have due times, and workers sleep until then.
///
/// # Errors
/// When there is no such priority, or real time is chosen where it would keep the server off the CPU or is forbidden.
fn priority(load: &LoadSpec, planned: bool) -> Result<Priority, Error> {
    Ok(
        match one_of("--priority", &load.priority, &["auto", "normal", "raised", "realtime"])? {
            "normal" => Priority::Normal,
            "realtime" if !planned => return Err(Error::User(
                "--priority realtime is for planned load (--rate, or terminals with key and think times): a closed \
                     loop never rests, and would keep a server on this machine off the CPU; use raised"
                    .into(),
            )),
            "realtime" => {
                crate::host::may_run_in_real_time().map_err(|error| {
                    Error::Host(format!(
                        "--priority realtime is not allowed here ({error}): it needs root or CAP_SYS_NICE, and time for \
                         real-time threads in this control group; use raised"
                    ))
                })?;
                Priority::Realtime
            }
            "auto" if planned && crate::host::may_run_in_real_time().is_ok() => Priority::Realtime,
            _ => Priority::Raised,
        },
    )
}

fn threads(load: &LoadSpec) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    threads_for(load.threads, load.connections(), cpus)
}

/// Threads of one host for its connections: the number set, or as many as are worth it.
pub fn threads_for(asked: Option<u32>, connections: u32, cpus: u32) -> u32 {
    asked
        .unwrap_or_else(|| connections.div_ceil(CONNECTIONS_PER_THREAD).min(cpus))
        .min(connections)
}

/// The file of the trace that is the rate.
pub fn trace_path(load: &LoadSpec) -> Option<&str> {
    load.rate.as_deref()?.strip_prefix("trace:")
}

/// The text of the trace that is the rate; none where the rate is something else.
///
/// # Errors
/// When the file cannot be read.
pub fn trace(load: &LoadSpec) -> Result<Option<String>, Error> {
    let Some(path) = trace_path(load).filter(|_| load.trace.is_none()) else {
        return Ok(load.trace.clone());
    };
    let text = std::fs::read_to_string(path);
    text.map(Some)
        .map_err(|error| Error::User(format!("--rate: the trace '{path}': {error}")))
}

fn schedule(load: &LoadSpec) -> Result<Option<Arc<ArrivalSchedule>>, Error> {
    let arrivals = match one_of("--arrivals", &load.arrivals, &["constant", "poisson"])? {
        "poisson" => Arrivals::Poisson,
        _ => Arrivals::Constant,
    };
    let Some(rate) = &load.rate else { return Ok(None) };
    let wrong = |problem: String| Error::User(format!("--rate: {problem}"));
    let schedule = match rate.strip_prefix("trace:") {
        Some(path) => {
            if arrivals == Arrivals::Poisson {
                return Err(wrong("a trace contains all times: remove --arrivals poisson".into()));
            }
            let text = trace(load)?.unwrap_or_default();
            ArrivalSchedule::from_trace(&text).map_err(|problem| wrong(format!("the trace '{path}': {problem}")))?
        }
        None => ArrivalSchedule::parse(rate, arrivals, load.seed).map_err(wrong)?,
    };
    Ok(Some(Arc::new(schedule)))
}

fn catch_up(load: &LoadSpec) -> Result<Option<f64>, Error> {
    let Some(factor) = load.catch_up else { return Ok(None) };
    if !(factor > 1.0 && factor <= 1000.0) {
        return Err(Error::User(format!(
            "--catch-up {factor} is not above 1 and at most 1000; give a number as in 2"
        )));
    }
    if load.overload == "drop-late" {
        return Err(Error::User(
            "--catch-up starts late transactions, --overload drop-late drops them; use only one of them".into(),
        ));
    }
    Ok(Some(factor))
}

fn overload(load: &LoadSpec) -> Result<Overload, Error> {
    let limit_ns = load.late_limit.as_nanos() as u64;
    Ok(
        match one_of("--overload", &load.overload, &["queue", "drop-late", "abort"])? {
            "drop-late" => Overload::DropLate { limit_ns },
            "abort" => Overload::Abort { limit_ns },
            _ => Overload::Queue,
        },
    )
}

fn think(text: Option<&str>) -> Result<Think, Error> {
    let Some(text) = text else { return Ok(Think::No) };
    let wrong = |problem: String| Error::User(format!("--think-time: {problem}"));
    let (kind, length) = text.split_once(':').unwrap_or(("constant", text));
    let nanoseconds = dyno_core::clock::parse_duration(length).map_err(wrong)?.as_nanos() as u64;
    match kind {
        "constant" if nanoseconds == 0 => Ok(Think::No),
        "constant" => Ok(Think::Constant { pause_ns: nanoseconds }),
        "exponential" => Ok(Think::Exponential { mean_ns: nanoseconds }),
        _ => Err(wrong(format!(
            "'{kind}' is not a kind of pause; write 10ms or exponential:10ms"
        ))),
    }
}

fn ignored_errors(text: &str) -> Result<IgnoredErrors, Error> {
    match text {
        "all" => return Ok(IgnoredErrors::All),
        "none" | "off" | "" => return Ok(IgnoredErrors::Codes(Vec::new())),
        _ => {}
    }
    let code = |part: &str| {
        let problem = || {
            Error::User(format!(
                "--ignore-errors: '{part}' is not an error number; write 1213,1205, all or none"
            ))
        };
        part.trim().parse().map_err(|_| problem())
    };
    Ok(IgnoredErrors::Codes(
        text.split(',').map(code).collect::<Result<_, _>>()?,
    ))
}

/// Settings of SQL that the program keeps in another form.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SqlDescription {
    /// The rate's text; absent in a closed loop.
    pub rate: Option<String>,
    /// constant or poisson; absent in a closed loop.
    pub arrivals: Option<String>,
    /// The policy, with its limit; absent in a closed loop.
    pub overload: Option<String>,
    /// How many times as fast as planned late transactions are made up for; absent where that has no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<f64>,
    /// The pause, with its kind.
    pub think: String,
    /// The distribution and its parameters.
    pub distribution: Value,
    /// The codes.
    pub ignore_errors: String,
    /// The TLS mode as set.
    pub tls_mode: String,
    /// The version of TLS that this host agreed on with the server; "none" for plain text.
    pub tls_in_use: String,
    /// The compression as set.
    pub compression: String,
}

/// Settings of memcached that the program keeps in another form.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KvDescription {
    /// The preset, or the workload of YCSB; absent without one.
    pub preset: Option<String>,
    /// Shares of the commands.
    pub mix: Mix,
    /// Which keys.
    pub key_choice: String,
    /// Sizes of keys.
    pub key_size: String,
    /// Sizes of values.
    pub value_size: String,
    /// Share of the values found that are looked at.
    pub verify: f64,
    /// Share of the keys asked for that should be there; absent where not set.
    pub hit_ratio: Option<f64>,
    /// The rate's text; absent in a closed loop.
    pub rate: Option<String>,
    /// constant or poisson; absent in a closed loop.
    pub arrivals: Option<String>,
    /// The policy; absent in a closed loop.
    pub overload: Option<String>,
    /// The pause.
    pub think: String,
    /// The codes.
    pub ignore_errors: String,
}
