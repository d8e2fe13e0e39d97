//! The result as JSON lines, format `dynoload` version 1: a header, a record an interval, one final record that stands for
//! itself. Keys carry their units; what is not there is absent.

use serde::Serialize;
use serde_json::{json, Map, Value};

use crate::agents::AgentFacts;
use crate::recorder::{ConnectingTimes, Part, Recorder};
use crate::run::{Failure, Interval, Outcome, Settings, Totals};
use crate::server::{CounterCheck, Facts};
use crate::verdict::{Finding, Verdict};
use crate::workload::StatementKind;
use dyno_core::histogram::Histogram;
use dyno_core::wire::Format;

/// Name and version of the format and the program.
pub const FORMAT: Format = Format {
    format: "dynoload",
    format_version: 1,
    program: "dynoload",
    version: env!("CARGO_PKG_VERSION"),
};

/// What was asked, without secrets: made from the settings, never from the command line.
pub fn settings(settings: &Settings, description: &Description) -> Value {
    json!({
        "workload": settings.context.definition.name,
        "mode": mode(settings),
        "endpoint": settings.options.endpoint.to_string(),
        "user": settings.options.user,
        "database": settings.options.database,
        "prepared_statements": settings.prepared,
        "connections": settings.context.connections,
        "threads": settings.threads,
        "priority": settings.priority,
        "niceness": crate::host::niceness(),
        "warmup_s": settings.warmup_ns as f64 / 1e9,
        "duration_s": settings.duration_ns as f64 / 1e9,
        "grace_s": settings.grace_ns as f64 / 1e9,
        "interval_s": settings.interval_ns as f64 / 1e9,
        "seed": settings.context.seed,
        "options": options(settings),
        "rate": description.rate,
        "arrivals": description.arrivals,
        "overload": description.overload,
        "catch_up": description.catch_up,
        "think": description.think,
        "pacing": if settings.spin { "spin" } else { "sleep" },
        "distribution": description.distribution,
        "ignore_errors": description.ignore_errors,
        "tls_mode": description.tls_mode,
        "compression": description.compression,
    })
}

fn mode(settings: &Settings) -> &'static str {
    if settings.plan.is_some() {
        "open_loop"
    } else if settings.pace().is_timed() {
        "terminals"
    } else {
        "closed_loop"
    }
}

fn options(settings: &Settings) -> Value {
    match &settings.context.tpcc {
        Some(plan) => json!(plan),
        None => json!(settings.context.options),
    }
}

/// Settings in the words in which they were given, for those that the program keeps in another form.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Description {
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
    /// The TLS mode asked for.
    pub tls_mode: String,
    /// The compression asked for.
    pub compression: String,
}

/// The body of an interval record.
pub fn interval(interval: &Interval<'_>) -> Value {
    let recorder = interval.recorder;
    let mut body = json!({
        "phase": interval.phase,
        "t_s": interval.start_s,
        "length_s": interval.length_s,
        "counts": recorder.counts,
        "traffic": recorder.traffic,
    });
    if let Value::Object(body) = &mut body {
        if interval.phase != crate::run::Phase::Drain && interval.length_s > 0.0 {
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
        insert_latencies(body, recorder);
        insert_connecting(body, [&recorder.connecting]);
        if recorder.kv.counts != crate::kv::KvCounts::default() {
            body.insert("kv".into(), json!({ "counts": recorder.kv.counts }));
        }
        if let Some(tpcc) = super::tpcc::interval(recorder, interval.length_s) {
            body.insert("tpcc".into(), tpcc);
        }
    }
    body
}

fn cpu(recorder: &Recorder, length_s: f64) -> Value {
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
fn insert_latencies(body: &mut Map<String, Value>, recorder: &Recorder) {
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

/// Everything that the final record is made of.
#[derive(Debug)]
pub struct Final<'a> {
    /// The settings, as [`settings`] gives them.
    pub settings: &'a Value,
    /// The server.
    pub server: &'a Facts,
    /// How the run went.
    pub outcome: &'a Outcome,
    /// The agents that loaded; empty where this program did it itself.
    pub agents: &'a [AgentFacts],
    /// The server's counters against ours.
    pub counters: &'a [CounterCheck],
    /// The verdict.
    pub verdict: Verdict,
    /// What the rules found.
    pub findings: &'a [Finding],
    /// Length of the measurement, as it was.
    pub duration_s: f64,
}

/// The body of the final record.
pub fn final_record(result: &Final<'_>) -> Value {
    let mut body = json!({
        "format": FORMAT.format,
        "format_version": FORMAT.format_version,
        "program": FORMAT.program,
        "version": FORMAT.version,
        "settings": result.settings,
        "server": result.server,
        "measure_unix_s": result.outcome.measure_unix_s,
        "connect_s": result.outcome.connect_s,
        "duration_s": result.duration_s,
        "reconciliation": result.counters,
        "verdict": { "verdict": result.verdict, "findings": result.findings },
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

fn insert_totals(body: &mut Map<String, Value>, totals: &Totals, result: &Final<'_>) {
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
        }),
    );
    if result.settings["mode"] == "open_loop" {
        let plan =
            json!({ "planned": end.planned, "not_started": end.not_started, "dropped_late": counts.dropped_late });
        body.insert("plan".into(), plan);
    }
    body.insert("traffic".into(), json!(measured.traffic));
    if totals.all_handshakes.count() > 0 {
        let tls = json!({ "measured": measured.handshakes, "whole_load": totals.all_handshakes });
        body.insert("tls".into(), tls);
    }
    let mut cpu = cpu(measured, duration_s);
    cpu["busiest_worker_pct"] = json!(totals.busiest_worker_cpu_pct);
    if counts.queries() > 0 {
        cpu["us_per_query"] = json!(measured.usage.cpu_us() as f64 / counts.queries() as f64);
    }
    body.insert("cpu".into(), cpu);
    insert_latencies(body, measured);
    body.insert("statements".into(), statements(&measured.statements));
    if let Some(tpcc) = super::tpcc::totals(measured, &result.settings["options"], duration_s) {
        body.insert("tpcc".into(), tpcc);
    }
    body.insert("errors_by_code".into(), json!(measured.errors.by_code()));
    body.insert("slowest".into(), slowest(measured, result));
}

fn statements(histograms: &[Histogram]) -> Value {
    let summary = |kind: &StatementKind| Some((kind.name().to_string(), json!(histograms[*kind as usize].summary()?)));
    Value::Object(StatementKind::ALL.iter().filter_map(summary).collect())
}

fn slowest(measured: &Recorder, result: &Final<'_>) -> Value {
    let start_ns = result.outcome.timeline.map_or(0, |timeline| timeline.measure_ns);
    let entry = |slow: &crate::recorder::Slow| {
        json!({
            "ended_s": (slow.ended_ns as f64 - start_ns as f64) / 1e9,
            "response_us": slow.response_ns as f64 / 1e3,
            "service_us": slow.service_ns as f64 / 1e3,
            "operation": slow.number,
        })
    };
    measured.slowest.entries().iter().map(entry).collect()
}
