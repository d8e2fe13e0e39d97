//! The program `dynoprobe`: its command line and exit codes.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::collector::{Family, Subject};
use crate::families::ALL;
use crate::metric::{Better, Scope};
use crate::record::FORMAT_VERSION;
use crate::run::{run, RunError};

/// Runs the program. 0: ended in order; 1: the output or the system failed; 2: a wrong argument.
pub fn main() -> ExitCode {
    dyno_core::streams::abort_on_panic();
    let arguments = Arguments::parse();
    if arguments.list_families || arguments.metrics_json {
        let text = if arguments.metrics_json { json() } else { list() };
        let written = writeln!(std::io::stdout(), "{}", text.trim_end());
        return if written.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            dyno_core::tell!("dynoprobe: {error}");
            ExitCode::from(if matches!(error, RunError::Usage(_)) { 2 } else { 1 })
        }
    }
}

/// One metric as it is found in samples.
#[derive(Debug, Clone, Serialize)]
pub struct Documented {
    /// Name in samples.
    pub name: String,
    /// Its family.
    pub family: &'static str,
    /// In which scope.
    pub scope: Scope,
    /// Its unit.
    pub unit: &'static str,
    /// Which direction is an improvement.
    pub better: Better,
    /// What it says.
    pub meaning: &'static str,
    /// File, or statement and variables.
    pub source: &'static str,
    /// When it misleads.
    pub wrong: &'static str,
}

#[derive(Serialize)]
struct Catalogue {
    format: &'static str,
    format_version: u32,
    metrics: Vec<Documented>,
}

fn of_process(family: &Family) -> bool {
    matches!(family.subject, Subject::Process(_))
}

/// All metrics, in the order of the families; a metric that is reported in two scopes is listed twice.
pub fn metrics() -> Vec<Documented> {
    let mut all = Vec::new();
    for family in ALL {
        for metric in family.metrics.iter().copied().flatten() {
            all.extend(metric.scopes.iter().map(|scope| Documented {
                name: metric.name_in(*scope, of_process(family)),
                family: family.name,
                scope: *scope,
                unit: metric.unit(),
                better: metric.better,
                meaning: metric.meaning,
                source: metric.source,
                wrong: metric.wrong,
            }));
        }
    }
    all
}

/// The catalogue as JSON.
pub fn json() -> String {
    let catalogue = Catalogue {
        format: "dynoprobe-metrics",
        format_version: FORMAT_VERSION,
        metrics: metrics(),
    };
    serde_json::to_string_pretty(&catalogue).unwrap_or_default()
}

/// One family a line: its name, what it is read for, how many metrics it has.
pub fn list() -> String {
    let mut text = String::new();
    for family in ALL {
        let subject = match family.subject {
            Subject::Host(_) => "host",
            Subject::Process(_) => "process",
            Subject::Status(_) => "server",
        };
        let count: usize = family.metrics.iter().map(|metrics| metrics.len()).sum();
        text.push_str(&format!("{:<20} {subject:<8} {count} metrics\n", family.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_name_stands_twice_in_a_scope() {
        let mut seen = HashSet::new();
        for metric in metrics() {
            assert!(
                seen.insert((metric.name.clone(), format!("{:?}", metric.scope))),
                "{} is there twice",
                metric.name
            );
        }
    }

    #[test]
    fn every_metric_is_said_in_a_sentence_and_has_a_source() {
        for metric in metrics() {
            assert!(
                metric.meaning.ends_with('.'),
                "{}: the meaning is a sentence",
                metric.name
            );
            assert!(!metric.source.is_empty(), "{} has no source", metric.name);
            assert!(
                metric.wrong.is_empty() || metric.wrong.ends_with('.'),
                "{}",
                metric.name
            );
        }
    }

    #[test]
    fn the_names_that_reports_rely_on_are_there() {
        let metrics = metrics();
        let names: HashSet<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        for name in [
            "qps",
            "tps",
            "cpu_user_pct",
            "cpu_system_pct",
            "cpu_iowait_pct",
            "cpu_steal_pct",
            "server_rss_bytes",
            "server_vsize_bytes",
            "disk_read_bytes_per_s",
            "disk_write_bytes_per_s",
            "disk_util_pct",
            "network_rx_bytes_per_s",
            "network_tx_bytes_per_s",
            "innodb_checkpoint_age_bytes",
            "innodb_dirty_pages_pct",
        ] {
            assert!(names.contains(name), "{name} is missing");
        }
    }
}
