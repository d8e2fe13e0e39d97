//! The run as OpenMetrics text in a file that is replaced every interval, for the node exporter's textfile collector or
//! anything else that reads the format (OpenMetrics 1.0).
//!
//! Counters are sums from the first statement on, warm-up included; quantiles are of the last interval that was whole.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::{Counts, ErrorCounts, Extra, Traffic};
use dyno_loop::{Interval, Phase};
use serde_json::Value;

const QUANTILES: [(&str, f64); 5] = [
    ("0.5", 50.0),
    ("0.9", 90.0),
    ("0.95", 95.0),
    ("0.99", 99.0),
    ("0.999", 99.9),
];

/// One latency: count and sum of the whole run, quantiles of one interval, in seconds.
#[derive(Debug, Default)]
struct Latency {
    count: u64,
    sum_s: f64,
    quantiles: Option<[f64; QUANTILES.len()]>,
}

impl Latency {
    fn add(&mut self, histogram: &Histogram, whole: bool) {
        if let Some(summary) = histogram.summary() {
            self.count += summary.count;
            self.sum_s += summary.mean_us * summary.count as f64 / 1e6;
        }
        if whole {
            let all = || QUANTILES.map(|(_, percentile)| histogram.percentile_ns(percentile) as f64 / 1e9);
            self.quantiles = (histogram.count() > 0).then(all);
        }
    }
}

/// The file, and the sums in it.
#[derive(Debug)]
pub struct OpenMetrics {
    path: PathBuf,
    labels: String,
    counts: Counts,
    traffic: Traffic,
    errors: ErrorCounts,
    cpu_us: u64,
    response: Latency,
    service: Latency,
}

impl OpenMetrics {
    /// Begins the file, so that a folder that cannot be written is known before any load.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn start(path: &Path, settings: &Value) -> io::Result<Self> {
        let label = |name: &str| escaped(settings[name].as_str().unwrap_or(""));
        let labels = format!("workload=\"{}\",endpoint=\"{}\"", label("workload"), label("endpoint"));
        let metrics = Self {
            path: path.to_path_buf(),
            labels,
            counts: Counts::default(),
            traffic: Traffic::default(),
            errors: ErrorCounts::default(),
            cpu_us: 0,
            response: Latency::default(),
            service: Latency::default(),
        };
        metrics.replace()?;
        Ok(metrics)
    }

    /// Renews the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn interval<E: Extra>(&mut self, interval: &Interval<'_, E>) -> io::Result<()> {
        let recorder = interval.recorder;
        self.counts.add(&recorder.counts);
        self.traffic.add(&recorder.traffic);
        self.errors.merge(&recorder.errors);
        self.cpu_us += recorder.usage.cpu_us();
        let whole = interval.phase != Phase::Drain;
        self.response.add(&recorder.response, whole);
        self.service.add(&recorder.service, whole);
        self.replace()
    }

    /// Written beside and renamed: a reader sees the old text or the new, never a part.
    fn replace(&self) -> io::Result<()> {
        let told = |error: io::Error| {
            let problem = format!("--openmetrics: cannot write '{}': {error}", self.path.display());
            io::Error::new(error.kind(), problem)
        };
        let mut aside = self.path.clone().into_os_string();
        aside.push(".new");
        std::fs::write(&aside, self.text()).map_err(told)?;
        std::fs::rename(&aside, &self.path).map_err(told)
    }

    fn text(&self) -> String {
        let mut text = String::with_capacity(4096);
        let mut counter = |name: &str, help: &str, unit: &str, values: &[(String, f64)]| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# TYPE dynoload_{name} counter");
            if !unit.is_empty() {
                let _ = writeln!(text, "# UNIT dynoload_{name} {unit}");
            }
            let _ = writeln!(text, "# HELP dynoload_{name} {help}");
            for (label, value) in values {
                let _ = writeln!(text, "dynoload_{name}_total{{{}{label}}} {value}", self.labels);
            }
        };
        let one = |value: u64| vec![(String::new(), value as f64)];
        let labelled = |name: &str, values: &[(&str, u64)]| -> Vec<(String, f64)> {
            let pair = |(word, value): &(&str, u64)| (format!(",{name}=\"{word}\""), *value as f64);
            values.iter().map(pair).collect()
        };
        let (counts, traffic) = (self.counts, self.traffic);
        counter("transactions", "Transactions completed.", "", &one(counts.transactions));
        let kinds = [
            ("read", counts.reads),
            ("write", counts.writes),
            ("other", counts.other),
        ];
        counter(
            "queries",
            "Statements that succeeded, by kind.",
            "",
            &labelled("kind", &kinds),
        );
        counter(
            "reconnects",
            "Connections reopened after a loss.",
            "",
            &one(counts.reconnects),
        );
        counter(
            "dropped_late",
            "Planned transactions dropped as late.",
            "",
            &one(counts.dropped_late),
        );
        let bytes = [
            ("sent", traffic.wire_sent_bytes),
            ("received", traffic.wire_received_bytes),
        ];
        counter(
            "wire_bytes",
            "Bytes on the sockets.",
            "bytes",
            &labelled("direction", &bytes),
        );
        let cpu = [(String::new(), self.cpu_us as f64 / 1e6)];
        counter("cpu_seconds", "CPU time of the workers.", "seconds", &cpu);
        let errors: Vec<(String, f64)> = self
            .errors
            .by_code()
            .iter()
            .map(|(code, error)| (format!(",code=\"{code}\""), error.count as f64))
            .collect();
        counter("errors", "Errors by code.", "", &errors);
        self.summary(
            &mut text,
            "response",
            "From the intended time to the end.",
            &self.response,
        );
        self.summary(
            &mut text,
            "service",
            "From the first byte sent to the end.",
            &self.service,
        );
        text.push_str("# EOF\n");
        text
    }

    fn summary(&self, text: &mut String, name: &str, help: &str, latency: &Latency) {
        let (name, labels) = (format!("dynoload_{name}_seconds"), &self.labels);
        let _ = writeln!(
            text,
            "# TYPE {name} summary\n# UNIT {name} seconds\n# HELP {name} {help}"
        );
        for ((label, _), value_s) in QUANTILES.iter().zip(latency.quantiles.iter().flatten()) {
            let _ = writeln!(text, "{name}{{{labels},quantile=\"{label}\"}} {value_s}");
        }
        let _ = writeln!(
            text,
            "{name}_count{{{labels}}} {}\n{name}_sum{{{labels}}} {}",
            latency.count, latency.sum_s
        );
    }
}

/// A label's value as the format writes it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
