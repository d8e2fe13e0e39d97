//! The record of one slice, and the sum of all, as the rules on the load itself look at it.

use std::collections::BTreeMap;
use std::io;

use dyno_core::clock::{now_ns, shared_monotonic_s, wall_clock_s};
use dyno_core::histogram::{hdr, Histogram};
use dyno_loop::gauges::{Executed, Reading};
use dyno_loop::recorder::{Counts, ErrorCounts, Extra, ThreadUsage};
use dyno_loop::{Edge, Load, LoadShape, Mark, Timeline};
use serde_json::{json, Map, Value};

use super::input::Go;
use crate::quality::{self, Finding, KvInputs, Measurement, OwnSql, QualityInputs};
use crate::server::CounterCheck;

/// The server's counters over one slice, from the first statement to the last answer.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Counters that have a count on our side.
    pub checks: Vec<CounterCheck>,
    /// How much each grew.
    pub growth: BTreeMap<String, u64>,
}

/// The record, and the length of the counted part in seconds; `read_ns` is when the command was read.
///
/// # Errors
/// When the histogram cannot be encoded.
pub fn record<E: Extra>(
    go: &Go,
    load: &Load<E>,
    read_ns: u64,
    counters: &Comparison,
) -> io::Result<(Map<String, Value>, f64)> {
    let totals = &load.totals;
    let measured = &totals.measured;
    let usage = measured.usage;
    let times = Times::of(&load.timeline, &load.marks, read_ns);
    let record = json!({
        "id": go.id,
        "stream": go.times.stream,
        "measure_unix_s": times.measure_unix_s,
        "measure_monotonic_s": times.measure_monotonic_s,
        "start_s": times.start_s,
        "length_s": times.length_s,
        "drain_s": times.drain_s,
        "counts": measured.counts,
        "queries": measured.counts.queries(),
        "cut": measured.cut,
        "whole_counts": totals.all,
        "response": summary(&measured.response),
        "service": summary(&measured.service),
        "histogram": hdr::encode(&measured.response)?,
        "cpu": {
            "user_us": usage.user_us,
            "system_us": usage.system_us,
            "wait_us": usage.cpu_wait_us,
            "busiest_worker_us": usage.busiest_cpu_us,
        },
        "server_cpu_us": server_cpu_us(&load.marks),
        "host_cpu": host_cpu(&load.marks),
        "executed": {
            "server": executed(&load.marks, |one| one.server),
            "load": executed(&load.marks, |one| one.load),
        },
        "traffic": measured.traffic,
        "errors": errors(&measured.errors),
        "end": {
            "in_flight_at_hold": load.end.in_flight_at_stop,
            "ended_after_stop": totals.ended_after_stop,
            "unfinished": load.end.unfinished,
            "planned": load.end.planned,
            "not_started": load.end.not_started,
        },
        "counters": counters.checks,
        "server_counters": counters.growth,
    });
    let Value::Object(mut record) = record else {
        return Err(io::Error::other("a slice's record is not a map"));
    };
    if measured.lag.count() > 0 {
        record.insert("lag".into(), summary(&measured.lag));
    }
    Ok((record, times.length_s))
}

fn summary(histogram: &Histogram) -> Value {
    histogram
        .summary()
        .map_or(json!({ "count": 0 }), |summary| json!(summary))
}

fn errors(errors: &ErrorCounts) -> Value {
    let by_code = errors.by_code().iter();
    Value::Object(
        by_code
            .map(|(code, error)| (code.to_string(), json!(error.count)))
            .collect(),
    )
}

/// The times of a slice, as they were.
struct Times {
    measure_unix_s: f64,
    measure_monotonic_s: f64,
    start_s: f64,
    length_s: f64,
    drain_s: f64,
}

impl Times {
    fn of(timeline: &Timeline, marks: &[Mark], read_ns: u64) -> Self {
        let at = |edge: Edge| {
            marks
                .iter()
                .filter(move |mark| mark.edge == edge)
                .map(|mark| mark.at_ns)
        };
        // Each worker crosses the limits of the counted part when it has dealt with the answers it has at hand.
        let mean_ns = |edge: Edge| {
            let since_start = at(edge).map(|at| at.saturating_sub(timeline.start_ns) as f64);
            since_start.clone().sum::<f64>() / since_start.count().max(1) as f64
        };
        let (measure_ns, stop_ns) = (mean_ns(Edge::Measure), mean_ns(Edge::Stop));
        let ago_s = (now_ns() - timeline.start_ns) as f64 / 1e9 - measure_ns / 1e9;
        let first_ns = at(Edge::Start).min().unwrap_or(read_ns);
        let last_ns = at(Edge::Hold).max().unwrap_or(timeline.stop_ns);
        Self {
            measure_unix_s: wall_clock_s() - ago_s,
            measure_monotonic_s: shared_monotonic_s() - ago_s,
            start_s: first_ns.saturating_sub(read_ns) as f64 / 1e9,
            length_s: (stop_ns - measure_ns) / 1e9,
            drain_s: last_ns.saturating_sub(timeline.stop_ns) as f64 / 1e9,
        }
    }
}

fn reading(marks: &[Mark], edge: Edge) -> Option<Reading> {
    marks.iter().find_map(|mark| mark.reading.filter(|_| mark.edge == edge))
}

/// CPU time of the server over the counted part; null when its process is unknown or gone.
fn server_cpu_us(marks: &[Mark]) -> Option<f64> {
    let before = reading(marks, Edge::Measure)?.server_cpu_ns?;
    let after = reading(marks, Edge::Stop)?.server_cpu_ns?;
    Some(after.checked_sub(before)? as f64 / 1e3)
}

/// Instructions and cycles over the counted part; null where the processor does not count them.
fn executed(marks: &[Mark], of: impl Fn(&Reading) -> Option<Executed>) -> Option<Executed> {
    let before = of(&reading(marks, Edge::Measure)?)?;
    Some(of(&reading(marks, Edge::Stop)?)?.since(&before))
}

fn host_cpu(marks: &[Mark]) -> Option<Value> {
    let before = reading(marks, Edge::Measure)?.host_cpu?;
    let after = reading(marks, Edge::Stop)?.host_cpu?;
    Some(json!(after.since(&before)))
}

/// What the measured parts add up to.
#[derive(Debug, Default)]
pub struct Sum {
    counts: Counts,
    usage: ThreadUsage,
    length_s: f64,
}

impl Sum {
    /// Adds a slice.
    pub fn add<E: Extra>(&mut self, load: &Load<E>, length_s: f64) {
        self.counts.add(&load.totals.measured.counts);
        self.usage.add(&load.totals.measured.usage);
        self.length_s += length_s;
    }

    /// What the rules find; `load` is the last slice, whose latencies they do not look at.
    pub fn judge<E: Extra>(
        &self,
        load: &Load<E>,
        shape: &LoadShape,
        kv: Option<KvInputs<'_>>,
        own_sql: Option<OwnSql>,
    ) -> Vec<Finding> {
        quality::judge_slices(&QualityInputs {
            measured: Measurement {
                counts: self.counts,
                usage: self.usage,
                ..Measurement::of(&load.totals)
            },
            end: load.end,
            duration_s: self.length_s,
            threads: shape.threads,
            failure: None,
            open_loop: shape.is_timed(),
            counters: &[],
            counters_read: false,
            agents: &[],
            tcp: None,
            kv,
            own_sql,
            trace_s: None,
            warehouses: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use dyno_loop::SliceTimes;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_times_of_a_slice_are_the_workers_own() {
        let planned = SliceTimes {
            stream: 7,
            washout_ns: 100 * MS,
            measure_ns: 300 * MS,
            rate_per_ks: None,
            connections: None,
        };
        let timeline = Timeline::slice(50 * MS, &planned, 1000 * MS);
        let mark = |edge: Edge, at_ms: u64| Mark {
            edge,
            at_ns: at_ms * MS,
            reading: None,
        };
        // The second worker crosses every limit later.
        let marks = [
            mark(Edge::Start, 51),
            mark(Edge::Start, 53),
            mark(Edge::Measure, 150),
            mark(Edge::Stop, 450),
            mark(Edge::Measure, 154),
            mark(Edge::Hold, 455),
            mark(Edge::Stop, 460),
            mark(Edge::Hold, 480),
        ];
        let times = Times::of(&timeline, &marks, 48 * MS);
        let lengths_ms = [times.start_s, times.length_s, times.drain_s].map(|seconds| (seconds * 1e3).round());
        assert_eq!(lengths_ms, [3.0, 303.0, 30.0]);
        // Without marks nothing was counted, and the slice ended when it was due.
        let none = Times::of(&timeline, &[], 48 * MS);
        assert_eq!((none.start_s, none.length_s, none.drain_s), (0.0, 0.0, 0.0));
    }
}
