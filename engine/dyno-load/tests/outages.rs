//! A server that is away for a part of the measurement.

mod common;
#[path = "common/memcached.rs"]
mod memcached;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{command, free_port, Running, PROGRAM};
use dyno_patience::wait_until;
use memcached::Memcached;

/// A null server on this port, once it listens.
fn null_server(port: u16) -> Child {
    let child = Command::new(PROGRAM)
        .args(["null", "--listen", &format!("127.0.0.1:{port}")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(20.0, "the null server listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    child
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Runs the load of `seconds`; the server is away from `from_s` to about `to_s` of it. The result, and how long it was, s.
fn run_with_outage(more: &str, seconds: u32, from_s: f64, to_s: f64) -> (common::Run, f64) {
    let port = free_port();
    let server = null_server(port);
    let load = format!(
        "oltp run --any-server --workload oltp_point_select --connections 4 --port {port} --duration {seconds}s \
         --ignore-errors 2003,2013 {more}"
    );
    let running = Running::start(&mut command(&load));
    std::thread::sleep(Duration::from_secs_f64(from_s));
    let ended = Instant::now();
    end(server);
    std::thread::sleep(Duration::from_secs_f64(to_s - from_s));
    let server = null_server(port);
    let away_s = ended.elapsed().as_secs_f64();
    let run = running.end();
    end(server);
    (run, away_s)
}

#[test]
fn an_outage_makes_the_run_invalid_although_its_errors_are_ignored() {
    for (more, seconds, from_s, to_s) in [("", 8, 1.5, 6.5), ("--rate 300", 5, 1.2, 3.6)] {
        let (run, away_s) = run_with_outage(more, seconds, from_s, to_s);
        let text = &run.stderr;
        assert_eq!(run.code, 4, "{text}");
        assert_eq!(run.last()["verdict"]["verdict"], "INVALID", "{text}");
        assert!(run.count("/counts/ignored_errors") > 4, "{text}");
        assert_eq!(run.count("/counts/errors"), 0);
        // Whole seconds without a transaction: at least all but the first and the last of the outage.
        let unavailable_s = run.number("/availability/unavailable_s");
        assert!(
            unavailable_s >= to_s - from_s - 2.0 && unavailable_s <= away_s + 1.0,
            "{unavailable_s}: {text}"
        );
        let available_pct = run.number("/availability/available_pct");
        assert!((available_pct - (1.0 - unavailable_s / f64::from(seconds)) * 100.0).abs() < 0.1);
        let ignored = format!("errors ignored: {}", run.count("/counts/ignored_errors"));
        for words in [&ignored[..], "the server was unavailable", "% of the time"] {
            assert!(text.contains(words), "no '{words}' in {text}");
        }
    }
}

#[test]
fn a_reconnect_without_an_outage_is_no_finding() {
    let (run, _) = run_with_outage("--interval 4s", 4, 1.0, 1.0);
    assert_eq!(run.number("/availability/unavailable_s"), 0.0, "{}", run.stderr);
    assert!(!run.stderr.contains("unavailable"), "{}", run.stderr);
}

#[test]
fn an_outage_of_memcached_is_found_in_the_same_way() {
    let Some(mut server) = Memcached::start("an_outage_of_memcached_is_found_in_the_same_way", &[]) else {
        return;
    };
    let load = format!(
        "kv run --keys 100 --fill 100% --connections 3 --duration 6s --ignore-errors 2003,2013 {}",
        server.place()
    );
    let begun = Instant::now();
    let running = Running::start(&mut command(&load));
    server.wait_for_gets(100);
    std::thread::sleep(Duration::from_millis(2000));
    let least_s = 6.0 - begun.elapsed().as_secs_f64() - 1.0;
    server.kill();
    let run = running.end();
    assert_eq!(run.code, 4, "{}", run.stderr);
    // Whole seconds; two of the six were before it.
    let unavailable_s = run.number("/availability/unavailable_s");
    assert!(
        unavailable_s >= least_s.max(1.0) && unavailable_s <= 4.0,
        "{unavailable_s}: {}",
        run.stderr
    );
    assert!(run.stderr.contains("the server was unavailable"), "{}", run.stderr);
}
