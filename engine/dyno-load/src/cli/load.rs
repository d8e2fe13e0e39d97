//! The options of the load and of the rows that it uses.

use std::time::Duration;

use clap::Args;

use super::parse::{connections, duration, measurable_duration, positive_duration, threads as thread_count, within};
use crate::spec::{LoadSpec, RandomSpec};

/// How much load, and for how long.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArguments {
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
}

/// Which rows.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Row selection (sysbench's rand options; zipfian is that of its version 1.1)")]
pub struct RandomArguments {
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

impl LoadArguments {
    /// The same without the command line.
    pub fn spec(&self) -> LoadSpec {
        LoadSpec {
            connections: self.connections.unwrap_or(1),
            threads: self.threads,
            priority: self.priority.clone(),
            warmup: self.warmup,
            duration: self.duration,
            rate: self.rate.clone(),
            arrivals: self.arrivals.clone(),
            overload: self.overload.clone(),
            catch_up: self.catch_up,
            late_limit: self.late_limit,
            pacing: self.pacing.clone(),
            think_time: self.think_time.clone(),
            grace: self.grace,
            ignore_errors: self.ignore_errors.clone(),
            db_ps_mode: self.db_ps_mode.clone(),
            seed: self.seed,
            slowest: self.slowest,
            interval: self.interval,
            events: None,
            trace: None,
        }
    }
}

impl RandomArguments {
    /// The same without the command line.
    pub fn spec(&self) -> RandomSpec {
        RandomSpec {
            rand_type: self.rand_type.clone(),
            rand_spec_iter: self.rand_spec_iter,
            rand_spec_pct: self.rand_spec_pct,
            rand_spec_res: self.rand_spec_res,
            rand_pareto_h: self.rand_pareto_h,
            rand_zipfian_exp: self.rand_zipfian_exp,
        }
    }
}
