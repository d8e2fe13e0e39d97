//! The whole program on a fake host, exact to the number. `DYNO_GOLDEN_UPDATE=1 cargo test -p dyno-probe --test golden`
//! rewrites the golden files.

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
    let documented: std::collections::HashSet<(String, String)> = dyno_probe::catalogue::metrics()
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
