//! The plan's accounts: planned = ended + dropped + unfinished + not started, however a run ends. Against the null server.

mod common;
#[path = "common/held.rs"]
mod held;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::freeze::freeze;
use common::{command, parse, signal, NullServer, Run};
use held::{count, Held};
use nix::sys::signal::Signal;

fn load(server: &NullServer, rest: &str) -> String {
    format!(
        "oltp run --workload oltp_point_select --any-server --port {} {rest}",
        server.port()
    )
}

fn start(arguments: &str) -> std::process::Child {
    command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What was planned, after it was found to be accounted for.
fn planned(result: &Run) -> u64 {
    let planned = result.count("/plan/planned");
    let ended = result.count("/counts/transactions") + result.count("/ends/ended_after_stop");
    let sum = ended
        + result.count("/counts/dropped_late")
        + result.count("/ends/unfinished")
        + result.count("/plan/not_started");
    assert_eq!(sum, planned, "{}", result.last());
    planned
}

#[test]
fn what_is_dropped_after_the_end_of_the_measurement_is_counted() {
    let server = NullServer::start();
    let rest = "--connections 4 --threads 2 --rate 1000 --duration 1s --overload drop-late --late-limit 50ms --quiet";
    // The server stands still from within the measurement to beyond its end.
    let (result, _) = freeze(server.child.id(), &load(&server, rest), 600, 900);
    assert_eq!(planned(&result), 1000);
    assert!(result.count("/counts/dropped_late") > 100, "{}", result.last());
    assert_eq!(result.last()["verdict"]["verdict"], "INVALID");
    let mut held = Held::start(&load(
        &server,
        "--connections 4 --threads 2 --rate 1000 --overload drop-late --late-limit 50ms",
    ));
    held.send("go a 1 0 1000");
    std::thread::sleep(Duration::from_millis(500));
    signal(server.child.id(), Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(900));
    signal(server.child.id(), Signal::SIGCONT);
    let slice = held.next("slice");
    let dropped = count(&slice, "/counts/dropped_late");
    assert!(dropped > 100, "{slice}");
    assert_eq!(count(&slice, "/end/planned"), 1000);
    assert_eq!(
        count(&slice, "/counts/transactions") + count(&slice, "/end/ended_after_stop") + dropped,
        1000
    );
    held.end();
}

#[test]
fn a_run_that_ends_early_accounts_for_what_was_due_by_then_and_a_failure_is_invalid() {
    let server = NullServer::start();
    let rest = "--connections 4 --threads 2 --rate 1000 --duration 30s --quiet";
    let (aborted, _) = freeze(
        server.child.id(),
        &load(&server, &format!("{rest} --overload abort --late-limit 50ms")),
        600,
        400,
    );
    assert_eq!(aborted.code, 1, "{}", aborted.stderr);
    assert_eq!(aborted.last()["verdict"]["verdict"], "INVALID");
    let rules = aborted.last()["verdict"]["findings"].to_string();
    assert!(rules.contains("\"failed\""), "{rules}");
    assert!((100..3000).contains(&planned(&aborted)), "{}", aborted.last());
    let child = start(&load(&server, rest));
    std::thread::sleep(Duration::from_millis(1200));
    signal(child.id(), Signal::SIGINT);
    let interrupted = parse(child.wait_with_output().unwrap());
    assert_eq!(interrupted.code, 130, "{}", interrupted.stderr);
    assert!((100..3000).contains(&planned(&interrupted)), "{}", interrupted.last());
}

#[test]
fn a_rate_that_nobody_can_keep_ends_by_the_clock_with_its_whole_plan() {
    let server = NullServer::start();
    let began = Instant::now();
    let child = start(&load(
        &server,
        "--connections 4 --rate 1000000000 --duration 1s --grace 500ms --quiet",
    ));
    let result = parse(child.wait_with_output().unwrap());
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(planned(&result), 1_000_000_000);
    assert!(result.count("/counts/transactions") > 0);
    assert_eq!(result.code, 4, "{}", result.stderr);
}
