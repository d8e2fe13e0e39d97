//! The whole program against its own null server: plans, counts, time, secrets, hanging servers.

mod common;

use common::freeze::{assert_closed_form, freeze, on_a_still_host};
use common::{command, parse, plain, run, signal, NullServer, Running};
use dyno_core::clock::shared_monotonic_s;
use dyno_patience::Patience;
use nix::sys::signal::Signal;

fn base(server: &NullServer, rest: &str) -> String {
    format!("oltp run --any-server --quiet --port {} {rest}", server.port())
}

#[test]
fn an_open_loop_does_exactly_what_its_plan_says() {
    let server = NullServer::start();
    let began_s = shared_monotonic_s();
    let result = run(&base(
        &server,
        "--workload oltp_read_write --connections 8 --threads 2 --rate 100..500@1s --warmup 300ms --duration 1s",
    ));
    // The ramp has 300 operations in its first second, the first at 0.
    assert_eq!(result.count("/plan/planned"), 300, "{}", result.stderr);
    let ended = result.count("/counts/transactions") + result.count("/ends/ended_after_stop");
    assert_eq!(ended, 300);
    assert_eq!(result.count("/response/count"), 300);
    assert_eq!(result.count("/lag/count"), 300);
    assert_eq!(result.last()["settings"]["mode"], "open_loop");
    // It is placed by the clock that this program has too, whatever the wall clock does.
    let measured_s = result.number("/measure_monotonic_s");
    assert!(
        began_s < measured_s && measured_s + 1.0 < shared_monotonic_s(),
        "{measured_s}"
    );
}

#[test]
fn statements_are_counted_by_kind_and_class() {
    let server = NullServer::start();
    let result = run(&base(
        &server,
        "--workload oltp_read_write --connections 3 --duration 1s",
    ));
    assert!(matches!(result.code, 0 | 4), "{}", result.stderr);
    let whole = |key: &str| result.count(&format!("/whole_load_counts/{key}"));
    let transactions = whole("transactions");
    assert!(transactions > 10);
    assert_eq!(whole("reads"), transactions * 14);
    assert_eq!(whole("writes"), transactions * 4);
    assert_eq!(whole("other"), transactions * 2);
    assert_eq!(result.records[0]["record"], "header");
    let intervals: Vec<_> = result
        .records
        .iter()
        .filter(|record| record["record"] == "interval")
        .collect();
    let sum: u64 = intervals
        .iter()
        .filter(|interval| interval["phase"] == "measure")
        .map(|interval| interval["counts"]["transactions"].as_u64().unwrap())
        .sum();
    assert_eq!(sum, result.count("/counts/transactions"));
}

#[test]
fn text_statements_and_connection_churn_run_too() {
    let server = NullServer::start();
    let text = run(&base(
        &server,
        "--workload oltp_write_only --db-ps-mode disable --connections 2 --duration 1s",
    ));
    assert!(text.count("/whole_load_counts/transactions") > 10, "{}", text.stderr);
    let churn = run(&base(
        &server,
        "--workload connect --connections 2 --rate 100 --duration 1s",
    ));
    assert_eq!(churn.count("/plan/planned"), 100, "{}", churn.stderr);
    // Those that ended after the stop are in the response times, and not among the measured statements.
    assert_eq!(churn.count("/response/count"), 100);
    let connected = churn.count("/statements/connect/count");
    assert_eq!(connected + churn.count("/ends/ended_after_stop"), 100);
    assert!(churn.last().get("tls").is_none());
    // Each connection's bytes count, not those of the two that were there at the end alone.
    for count in ["wire_sent", "wire_received", "compressed_sent", "compressed_received"] {
        let bytes = churn.count(&format!("/traffic/{count}_bytes"));
        assert!(
            bytes > connected * 25,
            "{count}: {bytes} bytes over {connected} connections"
        );
    }
}

#[test]
fn think_time_paces_a_closed_loop() {
    let server = NullServer::start();
    let arguments = "--workload oltp_point_select --connections 10 --think-time 20ms --duration 1s";
    on_a_still_host("think_time_paces_a_closed_loop", || {
        let result = run(&base(&server, arguments));
        // 10 connections, one transaction each 20 ms and a little.
        let transactions = result.count("/counts/transactions");
        assert!((250..=510).contains(&transactions), "{transactions}");
    });
}

#[test]
fn the_run_stops_by_the_clock_when_the_server_hangs() {
    on_a_still_host("the_run_stops_by_the_clock_when_the_server_hangs", || {
        let server = NullServer::start();
        let arguments =
            "--workload oltp_point_select --connections 4 --rate 100 --duration 1s --grace 300ms --interval 100ms";
        let patience = Patience::seconds(8.0);
        let mut running = Running::start(&mut command(&base(&server, arguments)));
        running.wait_for_measurement();
        signal(server.child.id(), Signal::SIGSTOP);
        let result = running.end();
        patience.check("the hard stop");
        signal(server.child.id(), Signal::SIGCONT);
        assert_eq!(result.code, 4, "{}", result.stderr);
        assert_eq!(result.last()["verdict"]["verdict"], "INVALID");
        let (unfinished, not_started) = (result.count("/ends/unfinished"), result.count("/plan/not_started"));
        assert_eq!(unfinished, 4);
        let ended = result.count("/counts/transactions") + result.count("/ends/ended_after_stop");
        assert_eq!(ended + unfinished + not_started, result.count("/plan/planned"));
        assert_eq!(result.count("/plan/planned"), 100);
    });
}

#[test]
fn a_frozen_server_shows_in_response_time_by_the_closed_form_and_not_in_service_time() {
    let server = NullServer::start();
    let arguments = "--workload oltp_point_select --connections 4 --rate 400 --duration 2s --grace 5s";
    on_a_still_host("a_frozen_server_shows_in_response_time_by_the_closed_form", || {
        let (result, freeze_s) = freeze(server.child.id(), &base(&server, arguments), 600);
        assert_closed_form(&result, 400.0, 2.0, freeze_s);
    });
}

#[test]
fn late_transactions_are_dropped_and_counted_or_end_the_run_as_asked() {
    let server = NullServer::start();
    let frozen = |policy: &str| {
        let arguments = format!(
            "--workload oltp_point_select --connections 2 --rate 200 --duration 1s --overload {policy} --late-limit 100ms"
        );
        freeze(server.child.id(), &base(&server, &arguments), 600)
    };
    on_a_still_host(
        "late_transactions_are_dropped_and_counted_or_end_the_run_as_asked",
        || {
            let (dropping, freeze_s) = frozen("drop-late");
            let dropped = dropping.count("/counts/dropped_late");
            // All but those due in the last 100 ms are later than 100 ms; the two under way are not dropped.
            let expected = (freeze_s - 0.1) * 200.0;
            assert!((dropped as f64 - expected).abs() < 15.0, "{dropped} not {expected}");
            assert_eq!(
                dropping.count("/response/count") + dropped,
                dropping.count("/plan/planned")
            );
            let (aborting, _) = frozen("abort");
            assert_eq!(aborting.code, 1, "{}", aborting.stderr);
            assert!(aborting.stderr.contains("does not keep up"), "{}", aborting.stderr);
        },
    );
}

#[test]
fn the_password_is_nowhere_in_the_result_nor_in_the_arguments() {
    let server = NullServer::start();
    let mut command = command(&base(&server, "--workload oltp_point_select --duration 200ms"));
    let result = parse(command.env("DYNO_PASSWORD", "hunter2-secret").output().unwrap());
    assert!(result.count("/counts/transactions") > 0);
    assert!(!result.stdout.contains("hunter2") && !result.stderr.contains("hunter2"));
    assert!(plain("oltp run --workload oltp_point_select --password x").code == 2);
}

#[test]
fn wrong_input_is_refused_before_any_load_with_the_value_and_a_way_out() {
    let server = NullServer::start();
    let port = server.port();
    let cases = [
        ("oltp run --workload oltp_readonly".to_string(), 2, "oltp_read_only"),
        (
            format!("oltp run --any-server --port {port} --workload oltp_point_select --rate 0"),
            2,
            "rate of 0",
        ),
        (
            format!("oltp run --any-server --port {port} --workload oltp_point_select --duration 0s"),
            2,
            "above 0",
        ),
        (
            format!("oltp run --any-server --port {port} --workload oltp_point_select --connections 0"),
            2,
            "at least 1",
        ),
        (
            format!("oltp run --any-server --port {port} --workload oltp_point_select --rand-type normal"),
            2,
            "normal",
        ),
        (
            format!("oltp run --any-server --port {port} --workload select_random_points --tables 2"),
            2,
            "--tables is 2",
        ),
        (
            format!("oltp run --port {port} --workload oltp_point_select"),
            3,
            "unknown kind",
        ),
        (
            "oltp run --port 1 --workload oltp_point_select".to_string(),
            3,
            "no server answers",
        ),
        (
            "oltp run --socket /nowhere/s.sock --workload oltp_point_select".to_string(),
            3,
            "/nowhere/s.sock",
        ),
    ];
    for (arguments, code, word) in cases {
        let result = plain(&arguments);
        assert_eq!(result.code, code, "{arguments}: {}", result.stderr);
        assert!(result.stderr.contains(word), "{arguments}: {}", result.stderr);
    }
}

#[test]
fn sessions_are_made_one_after_the_other_and_printed_as_one_object() {
    let server = NullServer::start();
    let port = server.port();
    let made = plain(&format!(
        "session --port {port} --sessions 2 --sql SELECT/**/1 --sql SELECT/**/2"
    ));
    assert_eq!((made.code, made.records.len()), (0, 1), "{}", made.stderr);
    let report = made.last();
    assert_eq!(
        (report["format"].as_str(), report["format_version"].as_u64()),
        (Some("dynoload-session"), Some(1))
    );
    let sessions = report["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2);
    for session in sessions {
        assert_eq!(session["results"].as_array().unwrap().len(), 2, "{session}");
        assert!(session.get("tls").is_none(), "{session}");
    }
    let refused = plain(&format!("session --port {port} --compression gzip"));
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
    let refused = plain(&format!("session --port {port} --ssl-mode required"));
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("does not offer"), "{}", refused.stderr);
}
