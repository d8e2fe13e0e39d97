//! The whole program on a fake host, exact to the number. `DYNO_GOLDEN_UPDATE=1 cargo test -p dyno-probe --test golden`
//! rewrites the golden files.
//!
//! Redo, dirty pages and rates from the status of each server version: which source is chosen, and what it gives.

mod common;

use std::fs;
use std::process::Command;

use common::{fixtures, overlay, Probe};
use serde_json::Value;

/// What differs from run to run: times of day, and what the probe itself costs.
const VARYING: [&str; 8] = [
    "probe_cpu_pct",
    "probe_cpu_user_us",
    "probe_cpu_system_us",
    "server_pss_cost_us",
    "driver_pss_cost_us",
    "status_round_trip_us",
    "version",
    "late_max_us",
];

fn mask(value: &mut Value, root: &str) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if VARYING.contains(&key.as_str()) && (value.is_number() || map_is_header_version(key, value)) {
                    *value = Value::from(format!("[{key}]"));
                } else {
                    mask(value, root);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| mask(value, root)),
        Value::String(text) => *text = text.replace(root, "[ROOT]"),
        _ => {}
    }
}

fn map_is_header_version(key: &str, value: &Value) -> bool {
    key == "version" && value == env!("CARGO_PKG_VERSION")
}

fn check(name: &str, actual: &str) {
    let path = fixtures().join("golden").join(name);
    if std::env::var_os("DYNO_GOLDEN_UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let difference = expected
        .lines()
        .zip(actual.lines())
        .position(|(expected, actual)| expected != actual);
    let line = difference.unwrap_or(expected.lines().count().min(actual.lines().count()));
    assert!(
        expected == actual,
        "{} differs at line {}:\n- {:?}\n+ {:?}\nDYNO_GOLDEN_UPDATE=1 rewrites it",
        path.display(),
        line + 1,
        expected.lines().nth(line),
        actual.lines().nth(line)
    );
}

#[test]
fn a_run_on_the_fake_host_is_exact() {
    let host = tempfile::tempdir().unwrap();
    let root = host.path().to_str().unwrap();
    let step = |number: u32| overlay(&fixtures().join("host").join(number.to_string()), host.path());
    step(1);
    let dump = format!("1:77,dump={root}/dump");
    let mut probe = Probe::on_fake_host(host.path(), &["--instance", &dump, "--driver", "a:88", "--disk", "vda"]);
    let mut records = probe.until("header");
    for (number, second) in [(1, 0), (2, 2), (3, 12), (4, 14)] {
        step(number);
        probe.say(&format!("mark step {number}"));
        probe.say(&format!("sample {second}000000000"));
        probe.say(&format!("mark end of step {number}"));
        records.extend(probe.until("mark"));
        records.extend(probe.until("mark"));
    }
    probe.say("driver b 88");
    probe.say("driver b -");
    probe.say("sample soon");
    probe.say("stop");
    records.extend(probe.until("footer"));
    assert!(probe.succeeded());
    let mut text = String::new();
    for record in &mut records {
        mask(record, root);
        text.push_str(&serde_json::to_string_pretty(record).unwrap());
        text.push('\n');
    }
    check("run.json", &text);
}

#[test]
fn the_lists_are_as_documented() {
    for (option, name) in [("--list-families", "families.txt"), ("--metrics-json", "metrics.json")] {
        let output = Command::new(env!("CARGO_BIN_EXE_dynoprobe"))
            .arg(option)
            .output()
            .unwrap();
        assert!(output.status.success());
        check(name, &String::from_utf8(output.stdout).unwrap());
    }
}

#[test]
fn every_metric_of_a_sample_is_documented_for_its_scope() {
    let text = fs::read_to_string(fixtures().join("golden/run.json")).unwrap();
    let documented: std::collections::HashSet<(String, String)> = dyno_probe::cli::metrics()
        .into_iter()
        .map(|metric| {
            (
                serde_json::to_value(metric.scope).unwrap().as_str().unwrap().to_owned(),
                metric.name,
            )
        })
        .collect();
    let mut seen = 0;
    for record in serde_json::Deserializer::from_str(&text)
        .into_iter::<Value>()
        .map(Result::unwrap)
    {
        let Some(scopes) = record["metrics"].as_object() else {
            continue;
        };
        for (scope, metrics) in scopes {
            let kind = scope.split(':').next().unwrap();
            for name in metrics.as_object().unwrap().keys() {
                assert!(
                    documented.contains(&(kind.to_owned(), name.clone())),
                    "{name} in {scope} is not documented"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "only {seen} values were looked at");
}

const REDO_VARIABLES: &str = "SHOW GLOBAL STATUS: Innodb_redo_log_current_lsn, Innodb_redo_log_checkpoint_lsn";
const AGE_VARIABLES: &str = "SHOW GLOBAL STATUS: Innodb_checkpoint_age, Innodb_lsn_current";
const METRICS: &str = "INFORMATION_SCHEMA.INNODB_METRICS: log_lsn_current, log_lsn_last_checkpoint";
const TEXT: &str = "SHOW ENGINE INNODB STATUS";

/// Header and first sample of the instance, on the saved status of one server.
fn sample(name: &str) -> (Value, Value) {
    let host = tempfile::tempdir().unwrap();
    overlay(&fixtures().join("host/1"), host.path());
    let dump = format!("1:77,dump={}", fixtures().join("servers").join(name).display());
    let mut probe = Probe::on_fake_host(host.path(), &["--instance", &dump]);
    let header = probe.record();
    probe.say("sample 0");
    let sample = probe.record();
    assert!(probe.succeeded());
    (header["instances"][0].clone(), sample["metrics"]["instance:1"].clone())
}

fn check_redo(name: &str, source: &str, max_age: Option<u64>, capacity: Option<u64>, history: Option<u64>) {
    let (header, metrics) = sample(name);
    assert_eq!(header["redo_source"], source, "{name}");
    let expected = |value: Option<u64>| value.map_or(Value::Null, Value::from);
    assert_eq!(metrics["innodb_checkpoint_age_bytes"], 1_000_000, "{name}");
    assert_eq!(metrics["innodb_checkpoint_max_age_bytes"], expected(max_age), "{name}");
    assert_eq!(metrics["innodb_redo_capacity_bytes"], expected(capacity), "{name}");
    assert_eq!(metrics["innodb_history_list_length"], expected(history), "{name}");
    // 600 of 1200 + 2800 pages, and of 1200.
    assert_eq!(metrics["innodb_dirty_pages_pct"], 15, "{name}");
    assert_eq!(metrics["innodb_dirty_pages_of_data_pct"], 50, "{name}");
}

#[test]
fn mysql_5_5_has_only_the_text() {
    check_redo("mysql-5.5", TEXT, Some(7_782_360), Some(10_485_760), Some(321));
}

#[test]
fn mysql_5_6_reads_the_text_while_its_metrics_are_disabled() {
    check_redo("mysql-5.6", TEXT, Some(80_826_164), Some(100_663_296), Some(321));
}

#[test]
fn mysql_5_7_reads_its_metrics_when_they_are_enabled() {
    check_redo(
        "mysql-5.7-metrics-enabled",
        METRICS,
        Some(80_826_164),
        Some(100_663_296),
        None,
    );
}

#[test]
fn percona_server_5_7_has_status_variables() {
    check_redo(
        "percona-5.7",
        AGE_VARIABLES,
        Some(80_826_164),
        Some(100_663_296),
        Some(321),
    );
}

#[test]
fn mysql_8_0_before_30_reads_the_text_and_has_no_greatest_age() {
    check_redo("mysql-8.0.21", TEXT, None, Some(100_663_296), Some(321));
}

#[test]
fn mysql_8_4_has_redo_variables_and_the_old_size_variables_are_not_believed() {
    check_redo("mysql-8.4", REDO_VARIABLES, None, Some(104_857_600), None);
}

#[test]
fn a_calendar_version_is_like_mysql_8_and_its_greatest_age_is_read_when_enabled() {
    check_redo(
        "mysql-26.7-metric-enabled",
        REDO_VARIABLES,
        Some(90_000_000),
        Some(104_857_600),
        None,
    );
}

#[test]
fn mariadb_10_4_reads_the_text_and_is_no_old_mysql() {
    check_redo("mariadb-10.4", TEXT, None, Some(100_663_296), Some(321));
}

#[test]
fn mariadb_10_11_as_a_real_server_told_it() {
    let (header, metrics) = sample("mariadb-10.11");
    assert_eq!(header["redo_source"], AGE_VARIABLES);
    assert_eq!(metrics["innodb_checkpoint_age_bytes"], 44760 - 44404);
    assert_eq!(metrics["innodb_checkpoint_max_age_bytes"], 80_819_529);
    // Its own status text said 0.148 % at the same moment: 12 of 301 + 7811 pages.
    assert_eq!(metrics["innodb_dirty_pages_pct"], 0.1479);
    assert!(metrics.get("innodb_rows_read_per_s").is_none());
}

#[test]
fn a_server_without_any_source_has_everything_but_its_redo() {
    let host = tempfile::tempdir().unwrap();
    overlay(&fixtures().join("host/1"), host.path());
    fs::create_dir_all(host.path().join("old")).unwrap();
    overlay(&fixtures().join("servers/mysql-5.5"), &host.path().join("old"));
    fs::write(host.path().join("old/innodb_status.txt"), "no such engine\n").unwrap();
    let dump = format!("1:77,dump={}/old", host.path().display());
    let mut probe = Probe::on_fake_host(host.path(), &["--instance", &dump]);
    let header = probe.record();
    let redo = header["families"]
        .as_array()
        .unwrap()
        .iter()
        .find(|family| family["name"] == "innodb_redo")
        .unwrap();
    assert_eq!(redo["available"], false);
    assert!(
        redo["reason"].as_str().unwrap().contains("is InnoDB disabled?"),
        "{redo}"
    );
    probe.say("sample 0");
    let sample = probe.record();
    assert!(sample["metrics"]["instance:1"]
        .get("innodb_checkpoint_age_bytes")
        .is_none());
    assert_eq!(sample["metrics"]["instance:1"]["threads_connected"], 3);
}
