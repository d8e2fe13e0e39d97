//! Plans of an open loop, as a user gives them: waves, traces, and how a stall is made up for.

mod common;

use common::freeze::{freeze, on_a_still_host};
use common::{plain, run, NullServer, Run};

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
