//! Plans of an open loop, as a user gives them: waves, traces, and how a stall is made up for.
//!
//! The plan's accounts: planned = ended + dropped + unfinished + not started, however a run ends. Against the null server.

mod common;
#[path = "common/held.rs"]
mod held;

use std::time::{Duration, Instant};

use common::freeze::{freeze, on_a_still_host};
use common::{command, plain, run, signal, NullServer, Run, Running};
use dyno_patience::Patience;
use held::{count, Held};
use nix::sys::signal::Signal;
use serde_json::Value;

fn base(server: &NullServer, rest: &str) -> String {
    format!(
        "oltp run --any-server --quiet --workload oltp_point_select --port {} {rest}",
        server.port()
    )
}

#[test]
fn a_wave_and_a_trace_do_what_they_say() {
    let server = NullServer::start();
    let wave = run(&base(&server, "--connections 4 --rate 1000~900@500ms --duration 1s"));
    assert_eq!(wave.count("/plan/planned"), 1000, "{}", wave.stderr);
    let path = std::env::temp_dir().join(format!("dynoload-trace-{}", std::process::id()));
    std::fs::write(&path, "0\n0.1\n0.1 # two at once\n0.4\n5\n").unwrap();
    let trace = run(&base(
        &server,
        &format!(
            "--connections 4 --warmup 200ms --rate trace:{} --duration 1s",
            path.display()
        ),
    ));
    assert_eq!(trace.count("/plan/planned"), 4, "{}", trace.stderr);
    assert_eq!(trace.count("/response/count"), 4);
    assert_eq!(trace.last()["settings"]["arrivals"], "trace");
    let findings = trace.last()["verdict"]["findings"].to_string();
    assert!(
        findings.contains("the first 1.0 s of the trace's 5.0 s were played"),
        "{findings}"
    );
    // The warm-up plays the beginning of the trace, the measurement all of it anew.
    assert_eq!(trace.count("/whole_load_counts/transactions"), 4 + 3);
    std::fs::write(&path, "0.2\n0.1\n").unwrap();
    let backwards = run(&base(
        &server,
        &format!("--rate trace:{} --duration 1s", path.display()),
    ));
    assert_eq!(backwards.code, 2);
    assert!(backwards.stderr.contains("line 2"), "{}", backwards.stderr);
    std::fs::remove_file(&path).unwrap();
}

/// Responses above 20 ms when the server stops for half a second at 200 a second.
fn late_after_a_stall(more: &str) -> (usize, Run) {
    let server = NullServer::start();
    let arguments = format!("--connections 8 --rate 200 --duration 1500ms --slowest 400 {more}");
    let (result, _) = freeze(server.child.id(), &base(&server, &arguments), 500);
    let slowest = result.last()["slowest"].as_array().unwrap();
    let late = slowest
        .iter()
        .filter(|slow| slow["response_us"].as_f64().unwrap() > 20_000.0)
        .count();
    (late, result)
}

#[test]
fn a_bound_on_catching_up_spreads_what_waits_over_time() {
    on_a_still_host("a_bound_on_catching_up_spreads_what_waits_over_time", || {
        let (at_once, unbounded) = late_after_a_stall("");
        let (spread, bounded) = late_after_a_stall("--catch-up 2");
        // 100 fall due during the stall. At twice the plan it takes as long again to make up for them.
        assert!((90..=140).contains(&at_once), "{at_once} {}", unbounded.stderr);
        assert!((160..=240).contains(&spread), "{spread} {}", bounded.stderr);
        assert_eq!(bounded.count("/plan/planned"), 300);
        assert_eq!(bounded.count("/response/count"), 300);
        // Being held back is not the program's own lateness.
        let lag_us = bounded.last()["lag"]["p95_us"].as_f64().unwrap();
        assert!(lag_us < 20_000.0, "{lag_us}");
    });
}

#[test]
fn a_bound_that_makes_no_sense_is_refused() {
    let server = NullServer::start();
    for (more, told) in [
        ("--rate 100 --catch-up 1", "above 1"),
        ("--rate 100 --catch-up NaN", "above 1"),
        ("--rate 100 --catch-up 2 --overload drop-late", "drop-late"),
        ("--catch-up 2", "--rate"),
    ] {
        let refused = plain(&base(&server, more));
        assert_eq!(refused.code, 2, "{more}: {}", refused.stderr);
        assert!(refused.stderr.contains(told), "{more}: {}", refused.stderr);
    }
}

/// Scheduling policies (proc_pid_stat(5), field 41) of a run's threads: those of its workers, and those of all others.
fn policies(id: u32) -> (Vec<u32>, Vec<u32>) {
    let (mut workers, mut others) = (Vec::new(), Vec::new());
    for task in std::fs::read_dir(format!("/proc/{id}/task")).unwrap() {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        let (name, fields) = stat.rsplit_once(") ").unwrap();
        let policy = fields.split(' ').nth(38).unwrap().parse().unwrap();
        if name.contains("(worker-") {
            workers.push(policy);
        } else {
            others.push(policy);
        }
    }
    (workers, others)
}

#[test]
fn the_workers_of_planned_load_run_in_real_time_where_that_is_allowed_and_no_other_thread() {
    let server = NullServer::start();
    let during = |rest: &str| {
        let arguments = base(
            &server,
            &format!("--connections 2 --duration 1s --interval 100ms {rest}"),
        );
        let mut running = common::Running::start(&mut common::command(&arguments));
        running.wait_for_measurement();
        let seen = policies(running.child.id());
        (seen, running.end())
    };
    let ((workers, others), planned) = during("--rate 100");
    let priority = planned.last()["settings"]["priority"].clone();
    let allowed = dyno_load::host::may_run_in_real_time().is_ok();
    if !allowed {
        common::freeze::aloud("NOT RUN: real time is not allowed here; the load says what it took instead");
    }
    assert_eq!(priority, if allowed { "realtime" } else { "raised" });
    let policy = if allowed { libc::SCHED_FIFO } else { libc::SCHED_OTHER } as u32;
    assert!(
        !workers.is_empty() && workers.iter().all(|&each| each == policy),
        "{workers:?}"
    );
    assert!(
        others.iter().all(|&each| each == libc::SCHED_OTHER as u32),
        "{others:?}"
    );
    let ((workers, _), closed) = during("");
    assert_eq!(closed.last()["settings"]["priority"], "raised");
    assert!(
        workers.iter().all(|&each| each == libc::SCHED_OTHER as u32),
        "{workers:?}"
    );
    let refused = run(&base(&server, "--priority realtime --duration 1s"));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("planned load"), "{}", refused.stderr);
}

fn load(server: &NullServer, rest: &str) -> String {
    format!(
        "oltp run --workload oltp_point_select --any-server --port {} {rest}",
        server.port()
    )
}

fn start(arguments: &str) -> Running {
    Running::start(&mut command(arguments))
}

/// Checks the plan of every interval: it is accounted for, by what the intervals counted until then; the last one's is
/// that of the whole run.
fn check_intervals(result: &Run) {
    let mut phase = "warmup".to_string();
    let (mut ended, mut dropped, mut planned) = (0, 0, 0);
    let intervals: Vec<&Value> = result
        .records
        .iter()
        .filter(|one| one["record"] == "interval")
        .collect();
    for interval in &intervals {
        let of_plan = |key: &str| count(interval, &format!("/plan/{key}"));
        if interval["phase"] != phase.as_str() {
            if phase == "warmup" {
                (ended, dropped, planned) = (0, 0, 0);
            }
            phase = interval["phase"].as_str().unwrap().to_string();
        }
        ended += count(interval, "/counts/transactions");
        dropped += count(interval, "/counts/dropped_late");
        assert_eq!(
            (of_plan("ended"), of_plan("dropped_late")),
            (ended, dropped),
            "{interval}"
        );
        let left = of_plan("unfinished") + of_plan("in_flight") + of_plan("not_started");
        assert_eq!(of_plan("planned"), ended + dropped + left, "{interval}");
        assert!(of_plan("planned") >= planned, "{interval}");
        planned = of_plan("planned");
    }
    let last = &intervals.last().unwrap()["plan"];
    // Only a lost agent leaves operations in flight: nobody knows what became of them.
    assert!(last["in_flight"] == 0 || result.code == 1, "{last}");
    assert_eq!(last["planned"], result.last()["plan"]["planned"]);
    assert_eq!(last["not_started"], result.last()["plan"]["not_started"]);
    let unfinished = count(last, "/unfinished") + count(last, "/in_flight");
    assert_eq!(unfinished, result.count("/ends/unfinished"));
}

/// What was planned, after it was found to be accounted for.
fn planned(result: &Run) -> u64 {
    check_intervals(result);
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
    let rest =
        "--connections 4 --threads 2 --rate 1000 --duration 400ms --overload drop-late --late-limit 50ms --quiet";
    // The server stands still from within the measurement to beyond its end.
    let (result, _) = freeze(server.child.id(), &load(&server, rest), 500);
    assert_eq!(planned(&result), 400);
    assert!(result.count("/counts/dropped_late") > 100, "{}", result.last());
    assert_eq!(result.last()["verdict"]["verdict"], "INVALID");
    let mut held = Held::start(&load(
        &server,
        "--connections 4 --threads 2 --rate 1000 --overload drop-late --late-limit 50ms",
    ));
    held.send("go a 1 0 400");
    std::thread::sleep(Duration::from_millis(100));
    signal(server.child.id(), Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(500));
    signal(server.child.id(), Signal::SIGCONT);
    let slice = held.next("slice");
    let dropped = count(&slice, "/counts/dropped_late");
    assert!(dropped > 100, "{slice}");
    assert_eq!(count(&slice, "/end/planned"), 400);
    assert_eq!(
        count(&slice, "/counts/transactions") + count(&slice, "/end/ended_after_stop") + dropped,
        400
    );
    held.end();
}

#[test]
fn a_run_that_ends_early_accounts_for_what_was_due_by_then_and_a_failure_is_invalid() {
    let server = NullServer::start();
    let rest = "--connections 4 --threads 2 --rate 1000 --duration 30s --quiet";
    // One falls due every millisecond.
    let began = Instant::now();
    let (aborted, _) = freeze(
        server.child.id(),
        &load(&server, &format!("{rest} --overload abort --late-limit 150ms")),
        300,
    );
    assert_eq!(aborted.code, 1, "{}", aborted.stderr);
    assert_eq!(aborted.last()["verdict"]["verdict"], "INVALID");
    let rules = aborted.last()["verdict"]["findings"].to_string();
    assert!(rules.contains("\"failed\""), "{rules}");
    let by_then = began.elapsed().as_millis() as u64;
    assert!((100..=by_then).contains(&planned(&aborted)), "{}", aborted.last());
    let began = Instant::now();
    let mut running = start(&load(&server, &format!("{rest} --interval 50ms")));
    running.wait_for_transactions(100);
    signal(running.child.id(), Signal::SIGINT);
    let interrupted = running.end();
    assert_eq!(interrupted.code, 130, "{}", interrupted.stderr);
    let by_then = began.elapsed().as_millis() as u64;
    assert!(
        (100..=by_then).contains(&planned(&interrupted)),
        "{}",
        interrupted.last()
    );
}

#[test]
fn a_rate_that_nobody_can_keep_ends_by_the_clock_with_its_whole_plan() {
    let server = NullServer::start();
    let patience = Patience::seconds(12.0);
    let result = common::run(&load(
        &server,
        "--connections 4 --rate 1000000000 --duration 500ms --grace 200ms --quiet",
    ));
    patience.check("the end by the clock");
    assert_eq!(planned(&result), 500_000_000);
    assert!(result.count("/counts/transactions") > 0);
    assert_eq!(result.code, 4, "{}", result.stderr);
}

#[test]
fn every_interval_has_its_plan_also_of_the_warm_up_and_while_nothing_ends() {
    let server = NullServer::start();
    let is_stalled =
        |interval: &Value| count(interval, "/plan/in_flight") == 4 && count(interval, "/plan/not_started") > 100;
    for (rest, comes_back) in [
        ("--arrivals poisson", true),
        ("--overload drop-late --late-limit 50ms", true),
        // What is in flight stays unfinished.
        ("--grace 200ms", false),
    ] {
        let mut running = start(&load(
            &server,
            &format!(
                "{rest} --rate 2000 --connections 4 --threads 2 --warmup 300ms --duration 1s --interval 100ms --quiet"
            ),
        ));
        running.wait_for_measurement();
        signal(server.child.id(), Signal::SIGSTOP);
        running.wait_for_interval(is_stalled);
        if comes_back {
            signal(server.child.id(), Signal::SIGCONT);
        }
        let result = running.end();
        signal(server.child.id(), Signal::SIGCONT);
        assert!(planned(&result) > 1000, "{rest}: {}", result.last());
        let in_phase = |phase: &'static str| result.records.iter().filter(move |one| one["phase"] == phase);
        assert!(
            in_phase("warmup").any(|interval| count(interval, "/plan/planned") > 200),
            "{rest}"
        );
        assert!(in_phase("measure").any(is_stalled), "{rest}: {}", result.stdout);
    }
    let closed = common::run(&load(
        &server,
        "--connections 2 --duration 300ms --interval 100ms --quiet",
    ));
    assert!(closed.records.iter().all(|record| record.get("plan").is_none()));
}

#[test]
fn the_plans_of_agents_are_added_and_one_that_dies_leaves_its_last() {
    let server = NullServer::start();
    let agents = format!("--agent|{0} agent|--agent|{0} agent", common::PROGRAM);
    let rest = "--connections 4 --threads 2 --rate 1000 --warmup 200ms --duration 500ms --interval 100ms --quiet";
    let with_agents = |rest: &str| {
        let mut command = command(&load(&server, rest));
        Running::start(command.args(agents.split('|')))
    };
    let result = with_agents(rest).end();
    assert_eq!(planned(&result), 500, "{}", result.stderr);
    let rest = "--connections 4 --threads 2 --rate 1000 --duration 30s --interval 100ms --overload drop-late --late-limit 20ms \
                --quiet";
    let mut running = with_agents(rest);
    running.wait_for_transactions(300);
    signal(server.child.id(), Signal::SIGSTOP);
    running.wait_for_interval(|interval| count(interval, "/plan/not_started") > 100);
    signal(server.child.id(), Signal::SIGCONT);
    running.wait_for_interval(|interval| count(interval, "/counts/dropped_late") > 0);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.child.id())).unwrap();
    let agent: u32 = children.split_ascii_whitespace().next().unwrap().parse().unwrap();
    signal(agent, Signal::SIGKILL);
    let lost = running.end();
    assert_eq!(lost.code, 1, "{}", lost.stderr);
    assert!(lost.count("/counts/dropped_late") > 0, "{}", lost.last());
    assert!(planned(&lost) > 300, "{}", lost.last());
}
