//! How a run ends, and what it outlives.

mod common;

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use common::Probe;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

fn pid(child: &std::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

#[test]
fn it_ends_with_a_footer_when_its_standard_input_closes() {
    let mut probe = Probe::start(&["--interval-ms", "0"]);
    probe.until("header");
    probe.close_input();
    let footer = probe.until("footer").pop().unwrap();
    assert_eq!(footer["reason"], "standard input closed");
    assert!(probe.succeeded());
}

#[test]
fn it_ends_with_a_footer_at_either_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut probe = Probe::start(&["--interval-ms", "0"]);
        probe.until("header");
        kill(pid(&probe.child), signal).unwrap();
        assert_eq!(probe.until("footer").pop().unwrap()["reason"], signal.as_str());
        assert!(probe.succeeded());
    }
}

#[test]
fn a_process_that_ends_is_told_once_and_the_run_goes_on_or_ends_as_asked() {
    let mut process = Command::new("sleep").arg("600").spawn().unwrap();
    let instance = format!("1:{}", process.id());
    let mut probe = Probe::start(&["--interval-ms", "0", "--until-instances-end", "--instance", &instance]);
    probe.until("header");
    probe.say("sample 0");
    let sample = probe.record();
    assert!(sample["metrics"]["instance:1"]["server_rss_bytes"].as_u64().unwrap() > 0);
    process.kill().unwrap();
    // Not waited for yet: a zombie is as gone as one that was.
    dyno_patience::wait_until(20.0, "the killed process is a zombie", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
        stat.contains(") Z")
    });
    probe.say("sample 1000000000");
    let records = probe.until("footer");
    process.wait().unwrap();
    let gone: Vec<_> = records.iter().filter(|record| record["record"] == "gone").collect();
    assert_eq!(gone.len(), 1);
    assert_eq!(gone[0]["scope"], "instance:1");
    assert!(records[0]["metrics"].get("instance:1").is_none());
    assert_eq!(records.last().unwrap()["reason"], "all instances have ended");
    assert!(probe.succeeded());
}

#[test]
fn a_load_program_can_be_changed_while_it_runs() {
    let mut probe = Probe::start(&["--interval-ms", "0"]);
    probe.until("header");
    let own = std::process::id();
    probe.say(&format!("driver 1 {own}"));
    assert_eq!(probe.record()["pid"], own);
    probe.say("sample 0");
    assert!(
        probe.record()["metrics"]["driver:1"]["driver_threads"]
            .as_u64()
            .unwrap()
            > 0
    );
    probe.say("driver 1 -");
    assert!(probe.record()["pid"].is_null());
    probe.say("sample 1000000000");
    assert!(probe.record()["metrics"].get("driver:1").is_none());
    // A number that no process has: said in the record, and the run goes on.
    probe.say("driver 2 4194304");
    let record = probe.record();
    assert_eq!(record["families"][0]["available"], false);
    probe.say("sample 2000000000");
    assert_eq!(probe.record()["record"], "sample");
}

#[test]
fn a_server_that_cannot_be_reached_is_a_recorded_failure_and_the_rest_is_measured() {
    let instance = format!("1:{},socket=/nonexistent/s.sock", std::process::id());
    let mut probe = Probe::start(&["--interval-ms", "0", "--instance", &instance]);
    let header = probe.until("header").pop().unwrap();
    let family = header["families"]
        .as_array()
        .unwrap()
        .iter()
        .find(|family| family["name"] == "innodb_redo")
        .unwrap();
    assert!(
        family["reason"].as_str().unwrap().contains("/nonexistent/s.sock"),
        "{family}"
    );
    probe.say("sample 0");
    probe.say("sample 1000000000");
    probe.say("stop");
    let records = probe.until("footer");
    let errors: Vec<_> = records.iter().filter(|record| record["record"] == "error").collect();
    assert_eq!(errors.len(), 1, "told once");
    assert_eq!(errors[0]["family"], "mysql_status");
    assert_eq!(records.last().unwrap()["failures"][0]["samples"], 2);
    assert!(records[0]["metrics"]["instance:1"].get("qps").is_none());
    assert!(records[0]["metrics"]["host"]["memory_free_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_server_that_accepts_and_never_answers_holds_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let instance = format!("1:{},socket={}", std::process::id(), socket.display());
    let mut probe = Probe::start(&["--interval-ms", "100", "--instance", &instance]);
    let header = probe.until("header").pop().unwrap();
    assert!(header["instances"][0].get("version").is_none());
    let mut records = Vec::new();
    for _ in 0..3 {
        records.extend(probe.until("sample"));
    }
    probe.say("stop");
    records.extend(probe.until("footer"));
    let errors: Vec<_> = records.iter().filter(|record| record["record"] == "error").collect();
    assert_eq!(errors.len(), 1, "told once");
    assert!(errors[0]["message"].as_str().unwrap().starts_with("no answer in time"));
    assert!(records
        .iter()
        .filter(|record| record["record"] == "sample")
        .all(|sample| {
            let metrics = &sample["metrics"]["instance:1"];
            metrics.get("qps").is_none() && metrics["server_threads"].as_u64().unwrap() > 0
        }));
}

#[test]
fn an_output_that_is_full_ends_the_run_aloud() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_dynoprobe"))
        .args(["--interval-ms", "10"])
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"));
}

#[test]
fn a_wrong_argument_is_the_callers_mistake() {
    for arguments in [["--driver", "eight"], ["--instance", "seven"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_dynoprobe"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(arguments[1]),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_source_that_is_missing_is_recorded_with_its_reason_and_all_others_are_read() {
    for (arguments, missing, reason) in [
        (["--disk", "/dev/shm"], "disk", "which is no block device"),
        (["--disk", "no-such-disk"], "disk", "class/block"),
        (["--network", "lo@4194304"], "network", "4194304"),
        (["--instance", "1:4194304"], "process_cpu", "4194304"),
        (["--proc-root", "/nonexistent"], "psi", "/nonexistent/pressure"),
        (["--sys-root", "/nonexistent"], "disk", "no disk was named"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_dynoprobe"))
            .args(["--once", "--interval-ms", "1"])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let records: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let families = records[0]["families"].as_array().unwrap();
        let found = families.iter().find(|family| family["name"] == missing).unwrap();
        assert!(found["reason"].as_str().unwrap().contains(reason), "{found}");
        assert!(
            families.iter().any(|family| family["available"] == true),
            "{arguments:?}"
        );
        let sample = records.iter().find(|record| record["record"] == "sample").unwrap();
        assert!(!sample["metrics"].as_object().unwrap().is_empty(), "{arguments:?}");
    }
}

#[test]
fn once_gives_one_sample_with_rates() {
    let output = Command::new(env!("CARGO_BIN_EXE_dynoprobe"))
        .args(["--once", "--interval-ms", "50"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = records
        .iter()
        .map(|record| record["record"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["header", "sample", "footer"]);
    assert!(
        records[1]["metrics"]["host"]["context_switches_per_s"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}

#[test]
fn the_speed_meter_counts_units_and_their_cpu_time() {
    let mut probe = Probe::start(&["--interval-ms", "100", "--speed-meter"]);
    probe.until("header");
    probe.until("sample");
    probe.say("speed first");
    let first = probe.until("speed").pop().unwrap();
    assert_eq!(first["id"], "first");
    let mut units = Vec::new();
    while units.len() < 3 {
        let sample = probe.until("sample").pop().unwrap();
        units.extend(sample["metrics"]["host"]["speed_unit_ns"].as_f64());
    }
    probe.say("speed second");
    let second = probe.until("speed").pop().unwrap();
    let grown = |key: &str| second[key].as_u64().unwrap() - first[key].as_u64().unwrap();
    assert!(grown("units") >= 3, "{first} {second}");
    let mean = grown("cpu_ns") as f64 / grown("units") as f64;
    let least = units.iter().copied().fold(f64::INFINITY, f64::min);
    let most = units.iter().copied().fold(0.0, f64::max);
    assert!(mean > 0.3 * least && mean < 3.0 * most, "{mean} against {units:?}");
    assert!(second["unix_ns"].as_u64() > first["unix_ns"].as_u64());
    assert!(probe.succeeded());
}

#[test]
fn without_the_speed_meter_its_command_is_refused_and_its_metric_absent() {
    let mut probe = Probe::start(&["--interval-ms", "0"]);
    let header = probe.until("header").pop().unwrap();
    let families = header["families"].as_array().unwrap();
    let family = families.iter().find(|family| family["name"] == "host_speed").unwrap();
    assert_eq!(family["reason"], "not asked for (--speed-meter)");
    probe.say("speed 1");
    let error = probe.record();
    assert_eq!(error["message"], "'speed': not asked for (--speed-meter)");
    probe.say("sample 0");
    assert!(probe.record()["metrics"]["host"].get("speed_unit_ns").is_none());
}
