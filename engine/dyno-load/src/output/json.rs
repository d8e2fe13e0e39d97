//! The result as JSON lines, format `dynoload` version 1: a header, a record an interval, one final record that stands for
//! itself. Keys carry their units; what is not there is absent.

use dyno_core::histogram::Histogram;
use dyno_core::wire::Format;
use dyno_loop::recorder::{ConnectingTimes, Part, Recorder, Slow};
use dyno_loop::{Failure, Interval, Phase, Totals};
use serde_json::{json, Map, Value};

use super::{Final, Shown};

/// Name and version of the format and the program.
pub const FORMAT: Format = Format {
    format: "dynoload",
    format_version: 1,
    program: "dynoload",
    version: env!("CARGO_PKG_VERSION"),
};

/// The body of an interval record.
pub fn interval<E: Shown>(interval: &Interval<'_, E>) -> Value {
    let recorder = interval.recorder;
    let mut body = json!({
        "phase": interval.phase,
        "t_s": interval.start_s,
        "length_s": interval.length_s,
        "counts": recorder.counts,
        "traffic": recorder.traffic,
    });
    if let Value::Object(body) = &mut body {
        if interval.phase != Phase::Drain && interval.length_s > 0.0 {
            body.insert(
                "qps".into(),
                json!(recorder.counts.queries() as f64 / interval.length_s),
            );
            body.insert(
                "tps".into(),
                json!(recorder.counts.transactions as f64 / interval.length_s),
            );
            body.insert("cpu".into(), cpu(recorder, interval.length_s));
        }
        if let Some(plan) = interval.plan {
            body.insert("plan".into(), json!(plan));
        }
        insert_latencies(body, recorder);
        insert_connecting(body, [&recorder.connecting]);
        E::describe_interval(interval, body);
    }
    body
}

fn cpu<E: Shown>(recorder: &Recorder<E>, length_s: f64) -> Value {
    let usage = recorder.usage;
    json!({
        "user_pct": usage.user_us as f64 / length_s / 1e4,
        "system_pct": usage.system_us as f64 / length_s / 1e4,
        "wait_pct": usage.cpu_wait_us as f64 / length_s / 1e4,
        "voluntary_switches": usage.voluntary_switches,
        "involuntary_switches": usage.involuntary_switches,
    })
}

/// Response and service always have their count; figures are absent where it is 0.
fn insert_latencies<E: Shown>(body: &mut Map<String, Value>, recorder: &Recorder<E>) {
    let summary = |histogram: &Histogram| {
        histogram
            .summary()
            .map_or(json!({ "count": 0 }), |summary| json!(summary))
    };
    body.insert("response".into(), summary(&recorder.response));
    body.insert("service".into(), summary(&recorder.service));
    if recorder.lag.count() > 0 {
        body.insert("lag".into(), summary(&recorder.lag));
    }
}

/// The parts of making connections, where some were made.
fn insert_connecting<'a>(body: &mut Map<String, Value>, times: impl IntoIterator<Item = &'a ConnectingTimes>) {
    let mut sum = ConnectingTimes::default();
    times.into_iter().for_each(|times| sum.merge(times));
    if !sum.is_empty() {
        let summary = |part: &Part| Some((part.name().to_string(), json!(sum.of(*part).summary()?)));
        let parts = Part::ALL.iter().filter_map(summary).collect();
        body.insert("connecting".into(), Value::Object(parts));
    }
}

/// The body of the final record.
pub fn final_record<E: Shown>(result: &Final<'_, E>) -> Value {
    let mut body = json!({
        "format": FORMAT.format,
        "format_version": FORMAT.format_version,
        "program": FORMAT.program,
        "version": FORMAT.version,
        "settings": result.settings,
        "server": result.server,
        "measure_unix_s": result.outcome.measure_unix_s,
        "measure_monotonic_s": result.outcome.measure_monotonic_s,
        "connect_s": result.outcome.connect_s,
        "duration_s": result.duration_s,
        "reconciliation": result.counters,
        "verdict": { "verdict": result.quality, "findings": result.findings },
        "interrupted": result.outcome.interrupted,
    });
    if let Value::Object(body) = &mut body {
        if !result.agents.is_empty() {
            body.insert("agents".into(), json!(result.agents));
        }
        insert_failure(body, result.outcome.failure.as_ref());
        let measured = result.outcome.totals.as_ref().map(|totals| &totals.measured.connecting);
        insert_connecting(body, [&result.outcome.connecting].into_iter().chain(measured));
        if let Some(totals) = &result.outcome.totals {
            insert_totals(body, totals, result);
        }
    }
    body
}

fn insert_failure(body: &mut Map<String, Value>, failure: Option<&Failure>) {
    if let Some(failure) = failure {
        body.insert("failure".into(), json!(failure));
    }
}

fn insert_totals<E: Shown>(body: &mut Map<String, Value>, totals: &Totals<E>, result: &Final<'_, E>) {
    let measured = &totals.measured;
    let counts = measured.counts;
    let end = result.outcome.end;
    let duration_s = result.duration_s;
    body.insert("qps".into(), json!(counts.queries() as f64 / duration_s));
    body.insert("tps".into(), json!(counts.transactions as f64 / duration_s));
    body.insert("queries".into(), json!(counts.queries()));
    body.insert("counts".into(), json!(counts));
    body.insert("whole_load_counts".into(), json!(totals.all));
    body.insert(
        "ends".into(),
        json!({
            "in_flight_at_stop": end.in_flight_at_stop,
            "ended_after_stop": totals.ended_after_stop,
            "unfinished": end.unfinished,
            "refused": end.refused,
            "counted_with_their_wait": totals.counted_at_the_end,
        }),
    );
    if result.is_planned() {
        let plan =
            json!({ "planned": end.planned, "not_started": end.not_started, "dropped_late": counts.dropped_late });
        body.insert("plan".into(), plan);
    }
    body.insert("traffic".into(), json!(measured.traffic));
    let mut cpu = cpu(measured, duration_s);
    cpu["busiest_worker_pct"] = json!(totals.busiest_worker_cpu_pct);
    if counts.queries() > 0 {
        cpu["us_per_query"] = json!(measured.usage.cpu_us() as f64 / counts.queries() as f64);
    }
    body.insert("cpu".into(), cpu);
    insert_latencies(body, measured);
    E::describe_totals(result, totals, body);
    let availability = json!({
        "unavailable_s": totals.unavailable_s,
        "available_pct": availability_pct(totals.unavailable_s, duration_s),
    });
    body.insert("availability".into(), availability);
    body.insert("errors_by_code".into(), json!(measured.errors.by_code()));
    body.insert("slowest".into(), slowest(measured, result));
}

/// The share of the measurement in which the server was available.
pub fn availability_pct(unavailable_s: f64, duration_s: f64) -> f64 {
    (1.0 - unavailable_s / duration_s).clamp(0.0, 1.0) * 100.0
}

fn slowest<E: Shown>(measured: &Recorder<E>, result: &Final<'_, E>) -> Value {
    let start_ns = result.outcome.timeline.map_or(0, |timeline| timeline.measure_ns);
    let entry = |slow: &Slow| {
        json!({
            "ended_s": (slow.ended_ns as f64 - start_ns as f64) / 1e9,
            "response_us": slow.response_ns as f64 / 1e3,
            "service_us": slow.service_ns as f64 / 1e3,
            "operation": slow.number,
        })
    };
    measured.slowest.entries().iter().map(entry).collect()
}
