//! A server that is away for a part of the measurement.

mod common;
#[path = "common/memcached.rs"]
mod memcached;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{command, parse, PROGRAM};
use memcached::Memcached;

/// A null server on this port, once it listens.
fn null_server(port: u16) -> Child {
    let child = Command::new(PROGRAM)
        .args(["null", "--listen", &format!("127.0.0.1:{port}")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Runs the load of `seconds`; the server is away from `from_s` to `to_s` of it.
fn run_with_outage(more: &str, seconds: u32, from_s: f64, to_s: f64) -> (common::Run, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let server = null_server(port);
    let load = format!(
        "oltp run --any-server --workload oltp_point_select --connections 4 --port {port} --duration {seconds}s \
         --ignore-errors 2003,2013 {more}"
    );
    let child = command(&load)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs_f64(from_s));
    end(server);
    std::thread::sleep(Duration::from_secs_f64(to_s - from_s));
    let server = null_server(port);
    let output = child.wait_with_output().unwrap();
    end(server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (parse(output), text)
}

#[test]
fn an_outage_makes_the_run_invalid_although_its_errors_are_ignored() {
    for (more, seconds, from_s, to_s) in [("", 8, 1.5, 6.5), ("--rate 300", 5, 1.2, 3.6)] {
        let (run, text) = run_with_outage(more, seconds, from_s, to_s);
        assert_eq!(run.code, 4, "{text}");
        assert_eq!(run.last()["verdict"]["verdict"], "INVALID", "{text}");
        assert!(run.count("/counts/ignored_errors") > 4, "{text}");
        assert_eq!(run.count("/counts/errors"), 0);
        // Whole seconds without a transaction: at least all but the first and the last of the outage.
        let unavailable_s = run.number("/availability/unavailable_s");
        assert!(
            unavailable_s >= to_s - from_s - 2.0 && unavailable_s <= to_s - from_s + 1.0,
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
    let (run, text) = run_with_outage("--interval 4s", 4, 1.0, 1.0);
    assert_eq!(run.number("/availability/unavailable_s"), 0.0, "{text}");
    assert!(!text.contains("unavailable"), "{text}");
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
    let child = command(&load)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(2200));
    server.kill();
    let output = child.wait_with_output().unwrap();
    let run = parse(output);
    assert_eq!(run.code, 4, "{}", run.stderr);
    let unavailable_s = run.number("/availability/unavailable_s");
    assert!((2.0..=4.5).contains(&unavailable_s), "{unavailable_s}: {}", run.stderr);
    assert!(run.stderr.contains("the server was unavailable"), "{}", run.stderr);
}
