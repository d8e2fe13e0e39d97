//! What the result of SQL has beside every result: its settings, statements by kind, handshakes; and TPC-C's figures,
//! TpmC-like and each type of transaction against the standard's limits.

use std::fmt::Write as _;

use dyno_core::histogram::Histogram;
use dyno_loop::{Interval, Totals};
use serde_json::{json, Map, Value};

use super::{table, Final, Shown};
use crate::spec::SqlDescription;
use crate::sql::named::NamedLatency;
use crate::sql::record::TypeRecorder;
use crate::sql::tpcc::{Home, Kind};
use crate::sql::{SqlRecord, SqlRecorder, SqlSettings, SqlWorkload, StatementKind};

impl Shown for SqlRecord {
    fn tagged(&self) -> Vec<(String, &Histogram)> {
        let tag = |kind: StatementKind| (format!("service.{}", kind.name()), &self.statements[kind as usize]);
        let mut tagged: Vec<_> = StatementKind::ALL.into_iter().map(tag).collect();
        let named = self
            .named
            .iter()
            .map(|one| (format!("service.{}", as_tag(&one.name)), &one.service));
        tagged.extend(named);
        tagged
    }

    fn describe_interval(interval: &Interval<'_, Self>, body: &mut Map<String, Value>) {
        if let Some(tpcc) = tpcc_of_interval(interval.recorder, interval.length_s) {
            body.insert("tpcc".into(), tpcc);
        }
    }

    fn describe_totals(result: &Final<'_, Self>, totals: &Totals<Self>, body: &mut Map<String, Value>) {
        let measured = &totals.measured;
        if let Some(tls) = tls(totals) {
            body.insert("tls".into(), tls);
        }
        body.insert("statements".into(), statements(&measured.extra.statements));
        if let Some(named) = named(measured) {
            body.insert("named".into(), named);
        }
        if let Some(tpcc) = tpcc(measured, &result.settings["options"], result.duration_s) {
            body.insert("tpcc".into(), tpcc);
        }
    }

    fn write_counts(text: &mut String, result: &Final<'_, Self>, totals: &Totals<Self>) -> std::fmt::Result {
        if result.settings["tls_mode"] == "preferred" && result.settings["tls_in_use"] == "none" {
            writeln!(text, "  TLS                   none  (--ssl-mode preferred: plain text)")?;
        }
        let all = &totals.sums.handshakes;
        for agreed in &all.negotiated {
            writeln!(
                text,
                "  {:<14}{:>12}  connections with {}",
                agreed.version, agreed.connections, agreed.cipher_suite
            )?;
        }
        if all.count() > 0 {
            writeln!(text, "  handshakes    {:>12}  full, {} resumed", all.full, all.resumed)?;
        }
        write_tpcc(text, result, &totals.measured)
    }

    fn write_latencies(&self, text: &mut String) -> std::fmt::Result {
        if self.statements.iter().filter(|histogram| histogram.count() > 0).count() > 1 {
            for kind in StatementKind::ALL {
                table::row(text, &format!("  {}", kind.name()), &self.statements[kind as usize])?;
            }
        }
        for one in self.named.iter().filter(|one| one.service.count() > 0) {
            table::row(text, &format!("  {}", one.name), &one.service)?;
        }
        Ok(())
    }
}

/// A name without the characters that an HDR log's tag cannot have.
fn as_tag(name: &str) -> String {
    name.replace([' ', ',', '\r', '\n'], "_")
}

/// Service times, errors and rows by the names of a user's file, or by a capture's digests; none for another workload.
pub fn named(measured: &SqlRecorder) -> Option<Value> {
    let summary = |one: &NamedLatency| {
        let mut summary = one
            .service
            .summary()
            .map_or_else(|| json!({ "count": 0 }), |summary| json!(summary));
        if one.reads > 0 {
            (summary["reads"], summary["empty_reads"]) = (json!(one.reads), json!(one.empty_reads));
        }
        if one.errors > 0 {
            summary["errors"] = json!(one.errors);
        }
        if let Some(rows) = one.rows {
            summary["rows"] = json!(rows);
        }
        (one.name.clone(), summary)
    };
    let all: Map<String, Value> = measured.extra.named.iter().map(summary).collect();
    (!all.is_empty()).then_some(Value::Object(all))
}

/// TLS handshakes; none in plain text.
pub fn tls(totals: &Totals<SqlRecord>) -> Option<Value> {
    let all = &totals.sums.handshakes;
    (all.count() > 0).then(|| json!({ "measured": totals.measured.extra.handshakes, "whole_load": all }))
}

fn statements(histograms: &[Histogram]) -> Value {
    let summary = |kind: &StatementKind| Some((kind.name().to_string(), json!(histograms[*kind as usize].summary()?)));
    Value::Object(StatementKind::ALL.iter().filter_map(summary).collect())
}

/// The settings for the result, without secrets: made from the settings, never from the command line.
pub fn settings(settings: &SqlSettings, description: &SqlDescription) -> Value {
    let shape = &settings.load.shape;
    json!({
        "workload": settings.workload.definition().name,
        "mode": mode(settings),
        "endpoint": settings.options.endpoint.to_string(),
        "user": settings.options.user,
        "database": settings.options.database,
        "prepared_statements": settings.prepared,
        "connections": settings.connections(),
        "threads": shape.threads,
        "priority": settings.load.priority,
        "niceness": crate::host::niceness(),
        "warmup_s": shape.warmup_ns as f64 / 1e9,
        "duration_s": shape.duration_ns as f64 / 1e9,
        "grace_s": shape.grace_ns as f64 / 1e9,
        "interval_s": shape.interval_ns as f64 / 1e9,
        "seed": settings.load.seed,
        "options": options(settings),
        "rate": description.rate,
        "arrivals": description.arrivals,
        "overload": description.overload,
        "catch_up": description.catch_up,
        "think": description.think,
        "pacing": if settings.load.spin { "spin" } else { "sleep" },
        "distribution": description.distribution,
        "ignore_errors": description.ignore_errors,
        "tls_mode": description.tls_mode,
        "tls_in_use": description.tls_in_use,
        "compression": description.compression,
    })
}

fn mode(settings: &SqlSettings) -> &'static str {
    if settings.load.shape.schedule.is_some() {
        "open_loop"
    } else if matches!(&settings.workload, SqlWorkload::Captured(context) if context.is_paced()) {
        "captured_times"
    } else if settings.load.shape.is_timed() {
        "terminals"
    } else {
        "closed_loop"
    }
}

fn options(settings: &SqlSettings) -> Value {
    match &settings.workload {
        SqlWorkload::Tpcc(context) => json!(context.config),
        SqlWorkload::Oltp(context) => json!(context.options),
        SqlWorkload::Script(context) => json!(context),
        SqlWorkload::File(context) => json!(context),
        SqlWorkload::Captured(context) => json!(context),
    }
}

/// Most New-Orders a minute and warehouse that key and think times allow.
const MOST_PER_WAREHOUSE: f64 = 12.86;

/// New-Orders of one interval; none for another workload.
fn tpcc_of_interval(recorder: &SqlRecorder, length_s: f64) -> Option<Value> {
    recorder.extra.by_type.iter().next()?;
    let mut committed = Map::new();
    for (kind, one) in recorder.extra.by_type.iter() {
        committed.insert(kind.name().into(), json!(one.counts.committed));
    }
    let mut body = json!({ "committed": committed });
    if length_s > 0.0 {
        body["tpmc_like"] = json!(tpmc_like(recorder, length_s));
    }
    Some(body)
}

/// New-Orders committed, per minute.
fn tpmc_like(recorder: &SqlRecorder, length_s: f64) -> f64 {
    recorder.extra.by_type.new_orders() as f64 * 60.0 / length_s
}

/// Warehouses of TPC-C that terminals order from, and all; none for another workload. `options` as for [`tpcc`].
pub fn warehouses(options: &Value) -> Option<(u64, u64)> {
    let all = options["warehouses"].as_u64()?;
    let terminals = options["terminals"].as_u64()?;
    let is_fixed = options["home"] == json!(Home::Fixed);
    Some((if is_fixed { all.min(terminals) } else { all }, all))
}

fn used_warehouses(options: &Value) -> f64 {
    warehouses(options).map_or(1.0, |(used, _)| used as f64)
}

/// A whole measurement; none for another workload. `options` is the configuration as the settings show it.
pub fn tpcc(measured: &SqlRecorder, options: &Value, duration_s: f64) -> Option<Value> {
    measured.extra.by_type.iter().next()?;
    let all = measured.extra.by_type.ended().max(1) as f64;
    let mut types = Map::new();
    for (kind, one) in measured.extra.by_type.iter() {
        types.insert(kind.name().into(), of_type(kind, one, all));
    }
    let tpmc_like = tpmc_like(measured, duration_s);
    let cpu_us = measured.usage.cpu_us() as f64;
    Some(json!({
        "tpmc_like": tpmc_like,
        "tpmc_like_per_warehouse": tpmc_like / used_warehouses(options),
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
fn write_tpcc(text: &mut String, result: &Final<'_, SqlRecord>, measured: &SqlRecorder) -> std::fmt::Result {
    if measured.extra.by_type.iter().next().is_none() {
        return Ok(());
    }
    let options = &result.settings["options"];
    let tpmc_like = tpmc_like(measured, result.duration_s);
    let per_warehouse = tpmc_like / used_warehouses(options);
    write!(
        text,
        "\n  TpmC-like     {tpmc_like:>12.1}  {per_warehouse:.1} a warehouse; "
    )?;
    if options["key_and_think_times"] == true {
        writeln!(text, "the maximum with the standard's times is {MOST_PER_WAREHOUSE}")?;
    } else {
        writeln!(text, "without key and think times, so not comparable with a tpmC")?;
    }
    writeln!(
        text,
        "  {:<14}{:>10} {:>8} {:>6} {:>8} {:>7} {:>11} {:>11} {:>8}",
        "transaction", "committed", "rolled", "late", "retries", "share", "p90, ms", "max, ms", "limit"
    )?;
    let all = measured.extra.by_type.ended().max(1) as f64;
    for (kind, one) in measured.extra.by_type.iter() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::named::Reply;

    #[test]
    fn warehouses_without_a_terminal_are_not_used_unless_homes_are_random() {
        let of = |terminals: u32, home: Home| {
            let options = json!({ "warehouses": 100, "terminals": terminals, "home": home });
            (warehouses(&options), used_warehouses(&options))
        };
        assert_eq!(of(16, Home::Fixed), (Some((16, 100)), 16.0));
        assert_eq!(of(1000, Home::Fixed), (Some((100, 100)), 100.0));
        assert_eq!(of(16, Home::Random), (Some((100, 100)), 100.0));
        assert_eq!(warehouses(&json!({ "tables": 1 })), None);
    }

    #[test]
    fn every_name_of_a_statement_can_be_a_tag_of_an_hdr_log() {
        let mut record = SqlRecord::default();
        record
            .named
            .record_statement(0, "SELECT a, b FROM t", 1000, Reply::default());
        let tags: Vec<String> = record.tagged().into_iter().map(|(tag, _)| tag).collect();
        assert!(tags.contains(&"service.SELECT_a__b_FROM_t".to_string()), "{tags:?}");
    }
}
