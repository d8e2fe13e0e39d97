//! The result's part on TPC-C: TpmC-like, and each type of transaction against the standard's limits.

use std::fmt::Write as _;

use serde_json::{json, Map, Value};

use super::json::Final;
use crate::recorder::{Recorder, TypeRecorder};
use crate::tpcc::Kind;

/// Most New-Orders a minute and warehouse that key and think times allow.
const MOST_PER_WAREHOUSE: f64 = 12.86;

/// New-Orders of one interval; none for another workload.
pub fn interval(recorder: &Recorder, length_s: f64) -> Option<Value> {
    recorder.by_type.iter().next()?;
    let mut committed = Map::new();
    for (kind, one) in recorder.by_type.iter() {
        committed.insert(kind.name().into(), json!(one.counts.committed));
    }
    let mut body = json!({ "committed": committed });
    if length_s > 0.0 {
        body["tpmc_like"] = json!(tpmc_like(recorder, length_s));
    }
    Some(body)
}

/// New-Orders committed, per minute.
fn tpmc_like(recorder: &Recorder, length_s: f64) -> f64 {
    recorder.by_type.new_orders() as f64 * 60.0 / length_s
}

/// A whole measurement; none for another workload. `options` is the plan as the settings show it.
pub fn totals(measured: &Recorder, options: &Value, duration_s: f64) -> Option<Value> {
    measured.by_type.iter().next()?;
    let all = measured.by_type.ended().max(1) as f64;
    let mut types = Map::new();
    for (kind, one) in measured.by_type.iter() {
        types.insert(kind.name().into(), of_type(kind, one, all));
    }
    let tpmc_like = tpmc_like(measured, duration_s);
    let warehouses = options["warehouses"].as_f64().unwrap_or(1.0);
    let cpu_us = measured.usage.cpu_us() as f64;
    Some(json!({
        "tpmc_like": tpmc_like,
        "tpmc_like_per_warehouse": tpmc_like / warehouses,
        "key_and_think_times": options["key_and_think_times"],
        "cpu_us_per_transaction": cpu_us / all,
        "transactions": types,
    }))
}

fn of_type(kind: Kind, one: &TypeRecorder, all: f64) -> Value {
    let ended = one.counts.committed + one.counts.rolled_back;
    let share_pct = ended as f64 / all * 100.0;
    let limit_s = kind.limit_ns() as f64 / 1e9;
    let mut body = json!(one.counts);
    body["share_pct"] = json!(share_pct);
    body["least_share_pct"] = json!(kind.least_share_pct());
    body["p90_limit_s"] = json!(limit_s);
    body["within_limit"] = json!(one.response.percentile_ns(90.0) <= kind.limit_ns());
    if let Some(summary) = one.response.summary() {
        body["response"] = json!(summary);
    }
    if let Some(summary) = one.service.summary() {
        body["service"] = json!(summary);
    }
    body
}

/// The table's part; nothing for another workload.
pub fn write(text: &mut String, result: &Final<'_>, measured: &Recorder) -> std::fmt::Result {
    if measured.by_type.iter().next().is_none() {
        return Ok(());
    }
    let options = &result.settings["options"];
    let tpmc_like = tpmc_like(measured, result.duration_s);
    let per_warehouse = tpmc_like / options["warehouses"].as_f64().unwrap_or(1.0);
    write!(
        text,
        "\n  TpmC-like     {tpmc_like:>12.1}  {per_warehouse:.1} a warehouse; "
    )?;
    if options["key_and_think_times"] == true {
        writeln!(text, "the standard's times allow {MOST_PER_WAREHOUSE}")?;
    } else {
        writeln!(text, "without key and think times, so not comparable with a tpmC")?;
    }
    writeln!(
        text,
        "  {:<14}{:>10} {:>8} {:>6} {:>8} {:>7} {:>11} {:>11} {:>8}",
        "transaction", "committed", "rolled", "late", "retries", "share", "p90, ms", "max, ms", "limit"
    )?;
    let all = measured.by_type.ended().max(1) as f64;
    for (kind, one) in measured.by_type.iter() {
        let counts = one.counts;
        let (p90_ns, limit_ns) = (one.response.percentile_ns(90.0), kind.limit_ns());
        writeln!(
            text,
            "  {:<14}{:>10} {:>8} {:>6} {:>8} {:>5.2} % {:>11.2} {:>11.2} {:>5} s{}",
            kind.name(),
            counts.committed,
            counts.rolled_back,
            counts.late,
            counts.retries,
            (counts.committed + counts.rolled_back) as f64 / all * 100.0,
            p90_ns as f64 / 1e6,
            one.response.max_ns() as f64 / 1e6,
            limit_ns / 1_000_000_000,
            if p90_ns > limit_ns { "  ABOVE" } else { "" },
        )?;
    }
    writeln!(text)
}
