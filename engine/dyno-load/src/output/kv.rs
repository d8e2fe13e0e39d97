//! What a key-value run's result has beside every run's: the object `kv` of the final record, and its lines of the table.

use std::fmt::Write as _;

use dyno_core::histogram::Histogram;
use dyno_loop::{Interval, Totals};
use serde_json::{json, Map, Value};

use super::{Final, Shown};
use crate::kv::{Command, Distribution, KvCounts, KvRecord, KvSettings};
use crate::spec::KvDescription;

/// Bytes in what memaslap calls M.
const MEBIBYTE: f64 = 1_048_576.0;

impl Shown for KvRecord {
    fn tagged(&self) -> Vec<(String, &Histogram)> {
        let tag = |command: Command| Some((format!("service.{}", command.name()), self.of(command)?));
        Command::ALL.into_iter().filter_map(tag).collect()
    }

    fn describe_interval(interval: &Interval<'_, Self>, body: &mut Map<String, Value>) {
        let counts = interval.recorder.extra.counts;
        if counts != KvCounts::default() {
            body.insert("kv".into(), json!({ "counts": counts }));
        }
    }

    fn describe_totals(_result: &Final<'_, Self>, _totals: &Totals<Self>, body: &mut Map<String, Value>) {
        body.insert("statements".into(), json!({}));
    }
}

/// The object `kv`: counts of the measurement, latencies by command, memaslap's figures.
pub fn body(settings: &KvSettings, totals: &Totals<KvRecord>, duration_s: f64) -> Value {
    let measured = &totals.measured;
    let counts = measured.extra.counts;
    let mut commands = Map::new();
    let mut distributions = Map::new();
    for command in Command::ALL {
        let Some(histogram) = measured.extra.of(command) else {
            continue;
        };
        if let (Some(summary), Some(distribution)) = (histogram.summary(), Distribution::of(histogram)) {
            commands.insert(command.name().into(), json!(summary));
            distributions.insert(command.name().into(), json!(distribution));
        }
    }
    if let Some(total) = Distribution::of(&measured.service) {
        distributions.insert("total".into(), json!(total));
    }
    let (sent, received) = (measured.traffic.wire_sent_bytes, measured.traffic.wire_received_bytes);
    let mut body = json!({
        "protocol": settings.protocol.name(),
        "depth": settings.depth,
        "counts": counts,
        "whole_load_counts": totals.sums,
        "commands": commands,
        "distributions": distributions,
        "written_bytes": sent,
        "read_bytes": received,
        "net_mib_per_s": (sent + received) as f64 / duration_s / MEBIBYTE,
    });
    if counts.cmd_get > 0 {
        body["hit_ratio"] = json!(counts.get_hits as f64 / counts.cmd_get as f64);
    }
    body
}

/// The settings for the result, without secrets.
pub fn settings(settings: &KvSettings, words: &KvDescription) -> Value {
    let (workload, shape) = (&settings.workload, &settings.load.shape);
    json!({
        "workload": settings.name,
        "mode": if shape.schedule.is_some() { "open_loop" } else { "closed_loop" },
        "endpoint": settings.endpoint.to_string(),
        "protocol": settings.protocol.name(),
        "connections": shape.connections,
        "threads": shape.threads,
        "priority": settings.load.priority,
        "niceness": crate::host::niceness(),
        "depth": settings.depth,
        "warmup_s": shape.warmup_ns as f64 / 1e9,
        "duration_s": shape.duration_ns as f64 / 1e9,
        "grace_s": shape.grace_ns as f64 / 1e9,
        "interval_s": shape.interval_ns as f64 / 1e9,
        "operations": settings.load.limit.as_ref().map(|limit| limit.operations),
        "seed": workload.seed,
        "keys": workload.keys.count,
        "multi_get_keys": workload.multi_get_keys,
        "ttl_s": workload.ttl_s,
        "quiet_sets": workload.quiet_sets,
        "pacing": if settings.load.spin { "spin" } else { "sleep" },
        "words": words,
    })
}

/// The lines of the table for a person.
pub fn table(settings: &KvSettings, totals: &Totals<KvRecord>, duration_s: f64) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_lines(&mut text, settings, totals, duration_s);
    text
}

fn write_lines(
    text: &mut String,
    settings: &KvSettings,
    totals: &Totals<KvRecord>,
    duration_s: f64,
) -> std::fmt::Result {
    let measured = &totals.measured;
    let counts = measured.extra.counts;
    writeln!(
        text,
        "\n  {} protocol, {} operations in progress on each connection",
        settings.protocol.name(),
        settings.depth
    )?;
    writeln!(
        text,
        "  cmd_get {}   get_hits {}   get_misses {}   cmd_set {}   not stored {}",
        counts.cmd_get, counts.get_hits, counts.get_misses, counts.cmd_set, counts.not_stored
    )?;
    writeln!(
        text,
        "  values compared {}   wrong {}",
        counts.verified, counts.wrong_values
    )?;
    if counts.lost > 0 {
        writeln!(text, "  operations lost with their connection {}", counts.lost)?;
    }
    let bytes = measured.traffic.wire_sent_bytes + measured.traffic.wire_received_bytes;
    writeln!(text, "  network {:.1} MiB/s", bytes as f64 / duration_s / MEBIBYTE)?;
    writeln!(
        text,
        "\n  service, µs   {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "count", "min", "max", "avg", "std", "geometric"
    )?;
    let commands = Command::ALL
        .into_iter()
        .filter_map(|command| Some((command.name(), measured.extra.of(command)?)));
    let mut log2 = String::new();
    for (name, histogram) in commands.chain([("total", &measured.service)]) {
        let Some(figures) = Distribution::of(histogram) else {
            continue;
        };
        writeln!(
            text,
            "  {name:<14}{:>10} {:>10.0} {:>10.0} {:>10.1} {:>10.1} {:>10.1}",
            figures.count, figures.min_us, figures.max_us, figures.mean_us, figures.std_us, figures.geometric_mean_us
        )?;
        write!(log2, "  {name:<14}")?;
        for class in figures.log2.iter().filter(|class| class.count > 0) {
            write!(log2, " <{}: {}", class.below_us, class.count)?;
        }
        writeln!(log2)?;
    }
    write!(text, "\n  counts by powers of two, µs\n{log2}")
}
