//! The options of a run, resolved into its settings.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dyno_core::distribution::{Distribution, Parameters};
use dyno_core::schedule::{Arrivals, Plan};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::connection::ConnectionArguments;
use super::parse::{count, duration, positive_duration};
use crate::error::Error;
use crate::output::json::Description;
use crate::run::{IgnoredErrors, Overload, Priority, Settings, Think};
use crate::workload::{Context, OltpOptions, Workload};

/// Connections that one worker serves before another thread is worth its switches, where none are asked for.
const CONNECTIONS_PER_THREAD: u32 = 64;

/// How much load, and for how long.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Load")]
pub struct LoadArguments {
    /// Connections; independent of --threads
    #[arg(long, default_value = "1", value_parser = count)]
    pub connections: u32,
    /// Worker threads, with --agent of each agent; default: one for each 64 connections, at most one for each CPU
    #[arg(long, value_parser = count)]
    pub threads: Option<u32>,
    /// normal; raised: at niceness -5, where that is allowed, so that the server hardly keeps the load waiting; realtime,
    /// for planned load: what falls due is sent when it falls due; auto: realtime for planned load where that is allowed,
    /// else raised
    #[arg(long, default_value = "auto")]
    pub priority: String,
    /// Load before the measurement
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub warmup: Duration,
    /// Length of the measurement
    #[arg(long, default_value = "10s", value_parser = positive_duration)]
    pub duration: Duration,
    /// Open loop: transactions per second. 5000; steps 1000@10s,2000@10s,4000; a ramp 1000..5000@30s; a sine wave
    /// 5000~2000@60s (2000 up and down, every 60 s); or trace:FILE, a time in seconds on each line.
    /// Without it a closed loop: each connection starts its next transaction when the last has ended
    #[arg(long)]
    pub rate: Option<String>,
    /// How planned transactions follow one another: constant or poisson (a trace says it itself)
    #[arg(long, default_value = "constant", requires = "rate")]
    pub arrivals: String,
    /// Planned transactions that find no free connection: queue, drop-late or abort
    #[arg(long, default_value = "queue", requires = "rate")]
    pub overload: String,
    /// Transactions that wait after a stall are started at most this many times as fast as planned, as in 2; without it
    /// as fast as the connections take them. Their response times count from when they were due all the same
    #[arg(long, requires = "rate")]
    pub catch_up: Option<f64>,
    /// How late a planned transaction may start before drop-late or abort acts
    #[arg(long, default_value = "1s", value_parser = positive_duration)]
    pub late_limit: Duration,
    /// How the pacer waits: sleep, or spin (burns CPU for the last 50 µs; only with a CPU to spare)
    #[arg(long, default_value = "sleep", requires = "rate")]
    pub pacing: String,
    /// Closed loop: pause of a connection between transactions; exponential:MEAN for an exponential one
    #[arg(long, conflicts_with = "rate")]
    pub think_time: Option<String>,
    /// Time after the measurement for transactions to end; then the run stops, even if the server hangs. 30s with --slices,
    /// where the load fails then
    #[arg(long, default_value = "5s", default_value_if("slices", "true", "30s"), value_parser = duration)]
    pub grace: Duration,
    /// Time for all connections to be made
    #[arg(long, default_value = "60s", value_parser = positive_duration)]
    pub connect_timeout: Duration,
    /// Errors that only restart their transaction: numbers, or all. 2003,2013 connect again
    #[arg(long, default_value = "1213,1020,1205", alias = "mysql-ignore-errors")]
    pub ignore_errors: String,
    /// auto: prepared statements; disable: text
    #[arg(long, default_value = "auto")]
    pub db_ps_mode: String,
    /// Seed: the same seed asks the same, whatever the threads
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many of the slowest transactions to keep
    #[arg(long, default_value_t = 10)]
    pub slowest: usize,
    /// Length of an interval
    #[arg(long, default_value = "1s", value_parser = positive_duration)]
    pub interval: Duration,
    /// The text of the trace that --rate names, where the coordinator of a run has sent it.
    #[arg(skip)]
    pub trace: Option<String>,
}

/// Which rows.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Rows asked for (sysbench's rand options; zipfian is of its version 1.1)")]
pub struct RandomArguments {
    /// uniform, special, gaussian, pareto or zipfian
    #[arg(long, default_value = "special")]
    pub rand_type: String,
    /// Draws that make one gaussian value
    #[arg(long, default_value_t = 12)]
    pub rand_spec_iter: u32,
    /// Percent of the range that is special
    #[arg(long, default_value_t = 1)]
    pub rand_spec_pct: u32,
    /// Percent of the values that are special
    #[arg(long, default_value_t = 75)]
    pub rand_spec_res: u32,
    /// Shape of the pareto distribution
    #[arg(long, default_value_t = 0.2)]
    pub rand_pareto_h: f64,
    /// Exponent of the zipfian distribution
    #[arg(long, default_value_t = 0.8)]
    pub rand_zipfian_exp: f64,
}

impl RandomArguments {
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

/// Makes the settings of a run.
///
/// # Errors
/// With the option, its value and what is allowed.
pub fn resolve(
    workload: &Workload,
    oltp: OltpOptions,
    connection: &ConnectionArguments,
    load: &LoadArguments,
    random: &RandomArguments,
) -> Result<(Settings, Description), Error> {
    let context = Context {
        definition: (workload.define)(&oltp),
        options: oltp,
        distribution: random.distribution()?,
        seed: load.seed,
        connections: load.connections,
        tpcc: None,
    };
    let settings = settings(context, connection, load)?;
    if settings.context.definition.calls.is_empty() {
        let name = workload.name;
        return Err(Error::User(format!(
            "{name} has no statement left with these options; give at least one a count"
        )));
    }
    Ok((settings, description(connection, load, random.shown())))
}

/// Makes the settings of a run of any workload.
///
/// # Errors
/// With the option, its value and what is allowed.
pub fn settings(context: Context, connection: &ConnectionArguments, load: &LoadArguments) -> Result<Settings, Error> {
    let nanoseconds = |value: Duration| value.as_nanos() as u64;
    let terminals = context.tpcc.as_ref().is_some_and(|plan| plan.key_and_think_times);
    Ok(Settings {
        address: connection.address()?,
        options: Arc::new(connection.options(true)?),
        context,
        prepared: one_of("--db-ps-mode", &load.db_ps_mode, &["auto", "disable"])? == "auto",
        threads: threads(load),
        warmup_ns: nanoseconds(load.warmup),
        duration_ns: nanoseconds(load.duration),
        grace_ns: nanoseconds(load.grace),
        interval_ns: nanoseconds(load.interval),
        plan: plan(load)?,
        catch_up: catch_up(load)?,
        overload: overload(load)?,
        think: think(load.think_time.as_deref())?,
        ignored_errors: ignored_errors(&load.ignore_errors)?,
        acknowledged: None,
        slowest: load.slowest,
        priority: priority(load, terminals || load.rate.is_some())?,
        spin: one_of("--pacing", &load.pacing, &["sleep", "spin"])? == "spin",
        connect_timeout_ns: nanoseconds(load.connect_timeout),
    })
}

/// The settings in the words in which they were given.
pub fn description(
    connection: &ConnectionArguments,
    load: &LoadArguments,
    distribution: serde_json::Value,
) -> Description {
    let open_loop = |text: &str| load.rate.as_ref().map(|_| text.to_string());
    let limit = if load.overload == "queue" {
        String::new()
    } else {
        format!(" after {:?}", load.late_limit)
    };
    Description {
        rate: load.rate.clone(),
        arrivals: open_loop(arrivals_word(load)),
        overload: open_loop(&format!("{}{limit}", load.overload)),
        catch_up: load.catch_up,
        think: load.think_time.clone().unwrap_or_else(|| "none".into()),
        distribution,
        ignore_errors: load.ignore_errors.clone(),
        tls_mode: connection.ssl_mode.clone(),
        compression: connection.compression.clone(),
    }
}

/// What says when planned transactions come, for the result.
pub(super) fn arrivals_word(load: &LoadArguments) -> &str {
    match &load.rate {
        Some(rate) if rate.starts_with("trace:") => "trace",
        _ => &load.arrivals,
    }
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

/// The priority that is asked for; `planned` when the load comes by plan, and its workers sleep until something is due.
///
/// # Errors
/// When there is no such priority, or real time is asked for where it would keep the server off the CPU or is forbidden.
pub(super) fn priority(load: &LoadArguments, planned: bool) -> Result<Priority, Error> {
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

pub(super) fn threads(load: &LoadArguments) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    threads_for(load.threads, load.connections, cpus)
}

/// Threads of one host for its connections: those asked for, or as many as are worth it.
pub(super) fn threads_for(asked: Option<u32>, connections: u32, cpus: u32) -> u32 {
    asked
        .unwrap_or_else(|| connections.div_ceil(CONNECTIONS_PER_THREAD).min(cpus))
        .min(connections)
}

/// The text of the trace that is the rate; none where the rate is something else.
pub(super) fn trace(load: &LoadArguments) -> Result<Option<String>, Error> {
    let Some(path) = load.rate.as_deref().and_then(|rate| rate.strip_prefix("trace:")) else {
        return Ok(None);
    };
    if load.trace.is_some() {
        return Ok(load.trace.clone());
    }
    let text = std::fs::read_to_string(path);
    text.map(Some)
        .map_err(|error| Error::User(format!("--rate: the trace '{path}': {error}")))
}

pub(super) fn plan(load: &LoadArguments) -> Result<Option<Arc<Plan>>, Error> {
    let arrivals = match one_of("--arrivals", &load.arrivals, &["constant", "poisson"])? {
        "poisson" => Arrivals::Poisson,
        _ => Arrivals::Constant,
    };
    let Some(rate) = &load.rate else { return Ok(None) };
    let wrong = |problem: String| Error::User(format!("--rate: {problem}"));
    let plan = match rate.strip_prefix("trace:") {
        Some(path) => {
            if arrivals == Arrivals::Poisson {
                return Err(wrong(
                    "a trace says itself when each comes: leave --arrivals poisson out".into(),
                ));
            }
            let text = trace(load)?.unwrap_or_default();
            Plan::from_trace(&text).map_err(|problem| wrong(format!("the trace '{path}': {problem}")))?
        }
        None => Plan::parse(rate, arrivals, load.seed).map_err(wrong)?,
    };
    Ok(Some(Arc::new(plan)))
}

pub(super) fn catch_up(load: &LoadArguments) -> Result<Option<f64>, Error> {
    let Some(factor) = load.catch_up else { return Ok(None) };
    if !(factor.is_finite() && factor > 1.0) {
        return Err(Error::User(format!(
            "--catch-up {factor} would never catch up; give a number above 1, as in 2"
        )));
    }
    if load.overload == "drop-late" {
        return Err(Error::User(
            "--catch-up makes up for what is late, --overload drop-late gives it up; leave one of them out".into(),
        ));
    }
    Ok(Some(factor))
}

pub(super) fn overload(load: &LoadArguments) -> Result<Overload, Error> {
    let limit_ns = load.late_limit.as_nanos() as u64;
    Ok(
        match one_of("--overload", &load.overload, &["queue", "drop-late", "abort"])? {
            "drop-late" => Overload::DropLate { limit_ns },
            "abort" => Overload::Abort { limit_ns },
            _ => Overload::Queue,
        },
    )
}

pub(super) fn think(text: Option<&str>) -> Result<Think, Error> {
    let Some(text) = text else { return Ok(Think::No) };
    let wrong = |problem: String| Error::User(format!("--think-time: {problem}"));
    let (kind, length) = text.split_once(':').unwrap_or(("constant", text));
    let nanoseconds = duration(length).map_err(wrong)?.as_nanos() as u64;
    match kind {
        "constant" if nanoseconds == 0 => Ok(Think::No),
        "constant" => Ok(Think::Constant { pause_ns: nanoseconds }),
        "exponential" => Ok(Think::Exponential { mean_ns: nanoseconds }),
        _ => Err(wrong(format!(
            "'{kind}' is no kind of pause; write 10ms or exponential:10ms"
        ))),
    }
}

pub(super) fn ignored_errors(text: &str) -> Result<IgnoredErrors, Error> {
    match text {
        "all" => return Ok(IgnoredErrors::All),
        "none" | "off" | "" => return Ok(IgnoredErrors::Codes(Vec::new())),
        _ => {}
    }
    let code = |part: &str| {
        let problem = || {
            Error::User(format!(
                "--ignore-errors: '{part}' is no error number; write 1213,1205, all or none"
            ))
        };
        part.trim().parse().map_err(|_| problem())
    };
    Ok(IgnoredErrors::Codes(
        text.split(',').map(code).collect::<Result<_, _>>()?,
    ))
}
