//! memcached servers that die, come back, freeze or hang while they are loaded.
//!
//! DYNO_TEST_MEMCACHED is a memcached program; each test starts its own with it.

mod common;
#[path = "common/memcached.rs"]
mod memcached;

use common::freeze::{assert_closed_form, freeze, on_a_still_host};
use common::{command, run, signal, Running};
use dyno_patience::Patience;
use memcached::Memcached;
use nix::sys::signal::Signal;

fn start(arguments: &str) -> Running {
    Running::start(&mut command(arguments))
}

#[test]
fn a_killed_server_ends_the_run_and_what_was_measured_stays() {
    let Some(mut server) = Memcached::start("a_killed_server_ends_the_run_and_what_was_measured_stays", &[]) else {
        return;
    };
    let running = start(&format!(
        "kv run {} --connections 4 --fill 100% --duration 20s --quiet",
        server.place()
    ));
    server.wait_for_gets(1000);
    let patience = Patience::seconds(10.0);
    server.kill();
    let result = running.end();
    patience.check("the end of the run");
    assert_eq!(result.code, 1, "{}", result.stderr);
    assert!(result.stderr.contains("--ignore-errors 2003,2013"), "{}", result.stderr);
    assert!(result.count("/counts/transactions") > 0);
    assert_eq!(result.count("/failure/code"), 2013);
    assert!(result.number("/duration_s") < 20.0);
}

#[test]
fn a_server_that_comes_back_is_used_again_and_what_was_lost_is_counted() {
    let test = "a_server_that_comes_back_is_used_again_and_what_was_lost_is_counted";
    let Some(mut server) = Memcached::start(test, &[]) else {
        return;
    };
    let mut running = start(&format!(
        "kv run {} --connections 4 --rate 2000 --ignore-errors 2003,2013 --duration 2s --interval 100ms --ratio 1:1 --quiet",
        server.place()
    ));
    server.wait_for_gets(100);
    let port = server.port;
    server.kill();
    // Operations fall due in it.
    running.wait_for_interval(|interval| interval["counts"]["transactions"] == 0);
    let _again = Memcached::start_at(test, port, &[]).unwrap();
    let result = running.end();
    assert!(matches!(result.code, 0 | 4), "{}", result.stderr);
    assert!(result.count("/counts/reconnects") >= 4, "{}", result.last()["counts"]);
    let ended = result.count("/counts/transactions") + result.count("/ends/ended_after_stop");
    let lost = result.count("/kv/whole_load_counts/lost");
    let unfinished = result.count("/ends/unfinished");
    assert_eq!(ended + unfinished, result.count("/plan/planned"), "lost {lost}");
    assert_eq!(lost, unfinished);
}

#[test]
fn what_the_server_refuses_is_an_ignored_error_and_not_unfinished() {
    let test = "what_the_server_refuses_is_an_ignored_error_and_not_unfinished";
    let Some(server) = Memcached::start(test, &[]) else {
        return;
    };
    let result = run(&format!(
        "kv run {} --ratio 1:1 --value-size 2000000 --hit-ratio any --ignore-errors all --duration 300ms --quiet",
        server.place()
    ));
    assert_eq!(result.code, 4, "{}", result.stderr);
    assert!(result.count("/ends/refused") > 0, "{}", result.last()["ends"]);
    assert_eq!(result.count("/ends/unfinished"), 0);
    let findings = result.last()["verdict"]["findings"].to_string();
    assert!(
        findings.contains("ignored_errors") && !findings.contains("unfinished"),
        "{findings}"
    );
}

#[test]
fn a_frozen_server_shows_in_response_time_by_the_closed_form_and_not_in_service_time() {
    let Some(server) = Memcached::start("a_frozen_server_shows_in_response_time_by_the_closed_form", &[]) else {
        return;
    };
    let arguments = format!(
        "kv run {} --connections 4 --rate 400 --duration 2s --grace 5s --ratio 1:0 --quiet",
        server.place()
    );
    on_a_still_host("a_frozen_server_shows_in_response_time_by_the_closed_form", || {
        let (result, freeze_s) = freeze(server.child.id(), &arguments, 600);
        assert_closed_form(&result, 400.0, 2.0, freeze_s);
    });
}

#[test]
fn the_run_stops_by_the_clock_when_the_server_hangs() {
    let Some(server) = Memcached::start("the_run_stops_by_the_clock_when_the_server_hangs", &[]) else {
        return;
    };
    let patience = Patience::seconds(14.0);
    let running = start(&format!(
        "kv run {} --connections 4 --depth 2 --rate 100 --duration 1s --grace 300ms --quiet",
        server.place()
    ));
    server.wait_for_gets(10);
    signal(server.child.id(), Signal::SIGSTOP);
    let result = running.end();
    signal(server.child.id(), Signal::SIGCONT);
    patience.check("the hard stop");
    assert_eq!(result.code, 4, "{}", result.stderr);
    let (unfinished, not_started) = (result.count("/ends/unfinished"), result.count("/plan/not_started"));
    assert_eq!(unfinished, 8);
    let ended = result.count("/counts/transactions") + result.count("/ends/ended_after_stop");
    assert_eq!(ended + unfinished + not_started, result.count("/plan/planned"));
}
