//! A server that is away for a part of the measurement.

mod common;
#[path = "common/memcached.rs"]
mod memcached;

use std::process::{Child, Command, Stdio};

use common::{command, free_port, Run, Running, PROGRAM};
use dyno_patience::wait_until;
use memcached::Memcached;
use serde_json::Value;

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

/// No transaction ended in it, and connections were lost or could not be made again.
fn is_outage(interval: &Value) -> bool {
    let errors = interval["counts"]["ignored_errors"].as_u64().unwrap();
    interval["counts"]["transactions"] == 0 && errors > 0
}

/// The run is invalid, with as much time without the server as its intervals show.
fn assert_outage(run: &Run) {
    let text = &run.stderr;
    assert_eq!(run.code, 4, "{text}");
    assert_eq!(run.last()["verdict"]["verdict"], "INVALID", "{text}");
    let measured: Vec<&Value> = run.records.iter().filter(|one| one["phase"] == "measure").collect();
    let (mut is_away, mut away_s) = (false, 0.0);
    for interval in measured {
        is_away = interval["counts"]["transactions"] == 0 && (is_away || is_outage(interval));
        away_s += if is_away {
            interval["length_s"].as_f64().unwrap()
        } else {
            0.0
        };
    }
    let unavailable_s = run.number("/availability/unavailable_s");
    assert!(
        unavailable_s > 0.0 && (unavailable_s - away_s).abs() < 1e-6,
        "{unavailable_s} not {away_s}"
    );
    let expected_pct = (1.0 - unavailable_s / run.number("/duration_s")) * 100.0;
    assert!((run.number("/availability/available_pct") - expected_pct).abs() < 1e-6);
    let ignored = format!("errors ignored: {}", run.count("/counts/ignored_errors"));
    for words in [&ignored[..], "the server was unavailable", "% of the time"] {
        assert!(text.contains(words), "no '{words}' in {text}");
    }
}

#[test]
fn an_outage_makes_the_run_invalid_although_its_errors_are_ignored() {
    let port = free_port();
    let server = null_server(port);
    let mut running = Running::start(&mut command(&format!(
        "oltp run --any-server --workload oltp_point_select --connections 4 --port {port} --duration 2s --interval 100ms \
         --ignore-errors 2003,2013"
    )));
    running.wait_for_transactions(100);
    end(server);
    running.wait_for_interval(is_outage);
    let server = null_server(port);
    let run = running.end();
    end(server);
    assert_outage(&run);
    assert_eq!(run.count("/counts/errors"), 0);
    assert!(run.count("/counts/reconnects") > 0, "{}", run.last());
}

#[test]
fn an_outage_of_memcached_is_found_in_the_same_way() {
    let Some(mut server) = Memcached::start("an_outage_of_memcached_is_found_in_the_same_way", &[]) else {
        return;
    };
    let running = Running::start(&mut command(&format!(
        "kv run --keys 100 --connections 3 --duration 1500ms --interval 100ms --ignore-errors 2003,2013 {}",
        server.place()
    )));
    server.wait_for_gets(100);
    server.kill();
    assert_outage(&running.end());
}
