//! What a run writes beside its table: the parts of connecting, and OpenMetrics.

mod common;

use std::process::Command;

use common::freeze::on_a_still_host;
use common::{plain, run, NullServer, PROGRAM};

fn base(server: &NullServer, rest: &str) -> String {
    format!("oltp run --any-server --quiet --port {} {rest}", server.port())
}

#[test]
fn the_parts_of_connecting_have_their_times() {
    let server = NullServer::start();
    let result = run(&base(
        &server,
        "--workload oltp_point_select --connections 5 --duration 200ms",
    ));
    for part in ["greeting", "authentication", "statements"] {
        assert_eq!(
            result.count(&format!("/connecting/{part}/count")),
            5,
            "{part}: {}",
            result.stderr
        );
    }
    assert_eq!(result.last()["connecting"].get("tls"), None);
    let arguments = "--workload connect --connections 2 --rate 200 --duration 500ms";
    on_a_still_host("the_parts_of_connecting_have_their_times", || {
        let churn = run(&base(&server, arguments));
        assert_eq!(churn.count("/connecting/greeting/count"), 100, "{}", churn.stderr);
        assert_eq!(churn.count("/connecting/authentication/count"), 100);
        assert_eq!(churn.last()["connecting"].get("statements"), None);
        let mean_us = |part: &str| churn.last()["connecting"][part]["mean_us"].as_f64().unwrap();
        let whole_us = churn.last()["service"]["mean_us"].as_f64().unwrap();
        let parts_us = mean_us("greeting") + mean_us("authentication");
        assert!(
            (0.8..=1.01).contains(&(parts_us / whole_us)),
            "{parts_us} of {whole_us}"
        );
    });
}

#[test]
fn openmetrics_hold_the_counts_of_the_run() {
    let server = NullServer::start();
    let folder = std::env::temp_dir().join(format!("dynoload-openmetrics-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("load.prom");
    let result = run(&base(
        &server,
        &format!(
            "--workload oltp_read_only --connections 2 --duration 1200ms --openmetrics {}",
            path.display()
        ),
    ));
    let text = std::fs::read_to_string(&path).unwrap();
    let value = |start: &str| -> f64 {
        let line = text
            .lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("{start}: {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let transactions = result.count("/whole_load_counts/transactions") as f64;
    assert_eq!(value("dynoload_transactions_total{"), transactions);
    let quantile = text
        .lines()
        .find(|line| line.contains("service_seconds{") && line.contains("quantile=\"0.99\""));
    assert!(quantile.is_some(), "{text}");
    assert_eq!(value("dynoload_service_seconds_count{"), transactions);
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        1,
        "a half-written file is left"
    );
    std::fs::remove_dir_all(&folder).unwrap();
    let refused = plain(&base(
        &server,
        "--workload oltp_read_only --duration 1s --openmetrics /nowhere/load.prom",
    ));
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("/nowhere/load.prom"), "{}", refused.stderr);
}

#[test]
fn an_output_that_is_an_input_or_another_output_is_refused() {
    let folder = std::env::temp_dir().join(format!("dynoload-same-file-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (log, link, absent) = (folder.join("slow.log"), folder.join("link"), folder.join("absent"));
    let text = "# User@Host: app[app] @ web []  Id:     8\n# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\nSELECT 1;\n";
    std::fs::write(&log, text).unwrap();
    std::os::unix::fs::symlink(&log, &link).unwrap();
    std::fs::write(folder.join("absent.unfinished"), text).unwrap();
    let load = folder.join("load.sql");
    std::fs::write(&load, "SELECT 1;").unwrap();
    let (trace, times) = (folder.join("day.csv"), "0\n0.1\n0.2\n");
    std::fs::write(&trace, times).unwrap();
    let (load, trace) = (load.display(), trace.display());
    let (log, link, absent) = (log.display(), link.display(), absent.display());
    let server = NullServer::start();
    for (command, option, other) in [
        (format!("capture {log} -o {link}"), "--output", "FILE"),
        (format!("capture {absent}.unfinished -o {absent}"), "--output", "FILE"),
        (format!("replay {log} --results {link}"), "--results", "CAPTURE"),
        (format!("replay {log} --json {log}"), "--json", "CAPTURE"),
        (
            format!("replay {log} --results {absent} --json {absent}"),
            "--json",
            "--results",
        ),
        (format!("compare-replays {log} {log} --json {log}"), "--json", "A"),
        (
            format!("statements {log} --server x --server y --json {log}"),
            "--json",
            "CAPTURE",
        ),
        (
            base(
                &server,
                &format!("--workload oltp_point_select --duration 1s --json {absent} --hdr {absent}"),
            ),
            "--hdr",
            "--json",
        ),
        (
            format!("sql run {load} --any-server --port {} --hdr {load}", server.port()),
            "--hdr",
            "a file of the load",
        ),
        (
            format!(
                "tpcc run --warehouses 1 --any-server --port {} --rate trace:{trace} --acknowledged {trace}",
                server.port()
            ),
            "--acknowledged",
            "a file of the load",
        ),
    ] {
        let refused = plain(&command);
        assert_eq!(refused.code, 2, "{command}: {}", refused.stderr);
        let said = format!("{option} '");
        assert!(refused.stderr.contains(&said), "{command}: {}", refused.stderr);
        let said = format!("is the same file as {other}, ");
        assert!(refused.stderr.contains(&said), "{command}: {}", refused.stderr);
    }
    assert_eq!(std::fs::read_to_string(folder.join("slow.log")).unwrap(), text);
    assert_eq!(std::fs::read_to_string(folder.join("day.csv")).unwrap(), times);
    assert!(folder.join("absent.unfinished").exists() && !folder.join("absent").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_reader_that_goes_away_ends_neither_the_run_nor_its_record() {
    let server = NullServer::start();
    let path = std::env::temp_dir().join(format!("dynoload-unread-{}.json", std::process::id()));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = format!(
        "oltp run --any-server --port {} --workload oltp_point_select --connections 2 --duration 1200ms --json {}",
        server.port(),
        path.display()
    );
    let status = Command::new(PROGRAM)
        .args(run.split(' '))
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .status()
        .unwrap();
    let records = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(
        records.lines().last().unwrap().contains("\"record\":\"final\""),
        "{records}"
    );
}
