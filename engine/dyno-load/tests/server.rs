//! The program against a real server: checks before the load, errors, loss, freezing, preparing.
//!
//! DYNO_TEST_SERVER_SOCKET is a server's socket (root without password). DYNO_TEST_SERVER_COMMAND starts a private server
//! that may be frozen and killed (see common/mod.rs).
//!
//! A server that is away for a part of the measurement.

mod common;
#[path = "common/memcached.rs"]
mod memcached;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::freeze::{assert_closed_form, freeze, on_a_still_host};
use common::{
    assert_ended, client, command, free_port, is_everything, plain, run, signal, variable, PrivateServer, Run, Running,
    PROGRAM,
};
use dyno_mysql::blocking::Client;
use dyno_patience::{wait_until, Patience};
use memcached::Memcached;
use nix::sys::signal::Signal;
use serde_json::Value;

fn prepare(socket: &str, database: &str, rest: &str) {
    let made = plain(&format!("oltp prepare --socket {socket} --database {database} {rest}"));
    assert_eq!(made.code, 0, "{}", made.stderr);
}

#[test]
fn checks_speak_before_any_load() {
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", "checks_speak_before_any_load") else {
        return;
    };
    let database = "dyno_checks";
    let mut control = client(&socket);
    control.exec(&format!("DROP DATABASE IF EXISTS {database}")).unwrap();
    let base = format!("oltp run --workload oltp_read_only --socket {socket} --database {database}");
    let refuse = |arguments: &str, word: &str| {
        let result = plain(&format!("{base} {arguments}"));
        assert_eq!(result.code, 2, "{arguments}: {}", result.stderr);
        assert!(result.stderr.contains(word), "{arguments}: {}", result.stderr);
    };
    refuse("", "no database 'dyno_checks'");
    prepare(&socket, database, "--table-size 500");
    refuse("--tables 2 --table-size 500", "no table sbtest2");
    refuse("--table-size 501", "ids from 1 to 500, --table-size is 501");
    refuse("--table-size 500 --connections 100000", "max_connections is");
    refuse("--table-size 500 --user nobody_here", "refused user 'nobody_here'");
    // The account's own limit; the control connection is one of the four.
    let few = "dyno_few@localhost";
    control
        .exec(&format!("CREATE OR REPLACE USER {few} WITH MAX_USER_CONNECTIONS 4"))
        .unwrap();
    control.exec(&format!("GRANT ALL ON {database}.* TO {few}")).unwrap();
    let load = "--table-size 500 --user dyno_few --warmup 0s --duration 200ms --connections";
    refuse(&format!("{load} 4"), "max_user_connections is 4, 1 in use");
    let fits = plain(&format!("{base} {load} 3"));
    assert!(matches!(fits.code, 0 | 4), "{}", fits.stderr);
    control.exec(&format!("DROP USER {few}")).unwrap();
    // Rows are missing, then all ids are others.
    let load = "--table-size 500 --warmup 0s --duration 200ms";
    control
        .exec(&format!("DELETE FROM {database}.sbtest1 WHERE id BETWEEN 2 AND 499"))
        .unwrap();
    let result = run(&format!("{base} {load} --quiet"));
    assert_eq!(result.code, 4, "{}", result.stdout);
    assert!(result.last()["verdict"].to_string().contains("missing_rows"));
    assert!(result.count("/counts/empty_reads") >= result.count("/counts/missing_rows"));
    control
        .exec(&format!("UPDATE {database}.sbtest1 SET id = id + 1000000"))
        .unwrap();
    refuse(load, "ids from 1000001 to 1000500");
    control.exec(&format!("DROP DATABASE {database}")).unwrap();
}

#[test]
fn prepared_statements_of_others_are_counted_beforehand() {
    let test = "prepared_statements_of_others_are_counted_beforehand";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let mut control = client(&socket);
    let allowed = control.query_text("SELECT @@max_prepared_stmt_count").unwrap().unwrap();
    let allowed: u64 = allowed.parse().unwrap();
    let refused = |connections: u64| {
        let run = plain(&format!(
            "oltp run --workload oltp_read_only --socket {socket} --database mysql --tables 20 --connections {connections}"
        ));
        assert_eq!(run.code, 2, "{}", run.stderr);
        run.stderr
    };
    let words = refused(allowed / 20);
    let each = words
        .split("connections prepare ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let each: u64 = each.unwrap_or_else(|| panic!("{words}")).parse().unwrap();
    // As many connections as there could be with no other statement.
    let connections = allowed / each;
    let others: Vec<_> = (0..=allowed - connections * each)
        .map(|_| control.prepare("SELECT 1").unwrap())
        .collect();
    let words = refused(connections);
    assert!(words.contains("max_prepared_stmt_count is"), "{words}");
    let in_use = words
        .split(", ")
        .find_map(|part| part.split_once(" in use: raise")?.0.parse().ok());
    assert!(in_use.is_some_and(|in_use: usize| in_use >= others.len()), "{words}");
}

#[test]
fn whole_tables_are_waited_for_longer_than_questions() {
    let test = "whole_tables_are_waited_for_longer_than_questions";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let database = "dyno_locked";
    prepare(&socket, database, "--table-size 500");
    let mut control = client(&socket);
    control.exec(&format!("LOCK TABLES {database}.sbtest1 WRITE")).unwrap();
    let arguments = format!("oltp cleanup --socket {socket} --database {database}");
    let cleanup = std::thread::spawn(move || plain(&arguments));
    // A question is waited for for 10 s.
    std::thread::sleep(Duration::from_millis(if is_everything() { 11_000 } else { 300 }));
    control.exec("UNLOCK TABLES").unwrap();
    let done = cleanup.join().unwrap();
    assert_eq!(done.code, 0, "{}", done.stderr);
    control.exec(&format!("DROP DATABASE {database}")).unwrap();
}

#[test]
fn every_workload_reconciles_with_the_server() {
    let Some(server) = PrivateServer::start("counts", "every_workload_reconciles_with_the_server") else {
        return;
    };
    let socket = server.socket();
    prepare(&socket, "sbtest", "--tables 2 --table-size 2000");
    // Below what a CPU can do, for other tests' sake.
    let rate = if is_everything() { "" } else { "--rate 100" };
    for workload in dyno_load::sql::oltp::CATALOGUE {
        let tables = if workload.single_table { 1 } else { 2 };
        let result = run(&format!(
            "oltp run --workload {} --socket {socket} --tables {tables} --table-size 2000 --connections 4 --threads 2 \
             --warmup 200ms --duration 500ms --quiet {rate}",
            workload.name
        ));
        assert_ended(&result, workload.name);
        assert!(result.count("/counts/transactions") > 0, "{}", workload.name);
        let checks = result.last()["reconciliation"].as_array().unwrap();
        assert!(!checks.is_empty() || workload.name == "connect", "{}", workload.name);
        for check in checks {
            let difference = check["difference_pct"].as_f64().unwrap();
            assert!(difference.abs() <= 0.1, "{}: {check}", workload.name);
        }
    }
}

#[test]
fn a_frozen_server_shows_in_response_time_by_the_closed_form() {
    let Some(server) = PrivateServer::start("freeze", "a_frozen_server_shows_in_response_time_by_the_closed_form")
    else {
        return;
    };
    let socket = server.socket();
    prepare(&socket, "sbtest", "--table-size 1000");
    let arguments = format!(
        "oltp run --workload oltp_point_select --socket {socket} --table-size 1000 --connections 8 --rate 400 \
         --warmup 200ms --duration 3s --quiet"
    );
    on_a_still_host("a_frozen_server_shows_in_response_time_by_the_closed_form", || {
        let (result, freeze_s) = freeze(server.id, &arguments, 1000);
        assert_closed_form(&result, 400.0, 3.0, freeze_s);
    });
}

/// Starts a load, and waits until the server has counted 20 more statements of a kind.
fn start_and_wait_for(arguments: &str, control: &mut Client, counter: &str) -> Running {
    let question =
        format!("SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{counter}'");
    let mut count = || -> u64 { control.query_text(&question).unwrap().unwrap().parse().unwrap() };
    let before = count();
    let running = Running::start(&mut command(arguments));
    wait_until(30.0, "the load begins", || count() > before + 20);
    running
}

#[test]
fn a_killed_connection_is_made_again_when_asked_and_ends_the_run_otherwise() {
    let test = "a_killed_connection_is_made_again_when_asked_and_ends_the_run_otherwise";
    let Some(server) = PrivateServer::start("kill", test) else {
        return;
    };
    let socket = server.socket();
    prepare(&socket, "sbtest", "--table-size 1000");
    let load = |rest: &str| {
        let arguments = format!(
            "oltp run --workload oltp_read_write --socket {socket} --table-size 1000 --connections 4 --duration 1500ms --quiet \
             {rest}"
        );
        let mut control = client(&socket);
        let running = start_and_wait_for(&arguments, &mut control, "COM_COMMIT");
        let question = "SELECT id FROM information_schema.processlist WHERE db = 'sbtest' ORDER BY id DESC LIMIT 1";
        let victim = control.query_text(question).unwrap().unwrap();
        control.exec(&format!("KILL {victim}")).unwrap();
        running.end()
    };
    let ended = load("");
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended.last()["failure"]["message"]
            .as_str()
            .unwrap()
            .contains("connection"),
        "{}",
        ended.last()
    );
    let resumed = load("--ignore-errors 1213,1020,1205,2013,1927,1053");
    assert_ended(&resumed, test);
    assert_eq!(resumed.count("/counts/reconnects"), 1);
    assert!(resumed.last()["errors_by_code"]
        .as_object()
        .unwrap()
        .keys()
        .any(|code| code == "2013" || code == "1927"));
}

#[test]
fn a_killed_server_ends_the_run_with_what_was_measured() {
    let Some(server) = PrivateServer::start("gone", "a_killed_server_ends_the_run_with_what_was_measured") else {
        return;
    };
    let socket = server.socket();
    prepare(&socket, "sbtest", "--table-size 1000");
    let arguments = format!(
        "oltp run --workload oltp_point_select --socket {socket} --table-size 1000 --connections 4 --duration 30s --quiet"
    );
    let running = start_and_wait_for(&arguments, &mut client(&socket), "COM_SELECT");
    let patience = Patience::seconds(8.0);
    signal(server.id, Signal::SIGKILL);
    let result = running.end();
    patience.check("the end of the run");
    assert_eq!(result.code, 1, "{}", result.stderr);
    assert!(result.count("/counts/transactions") > 0);
    assert!(
        result.last()["failure"]["message"]
            .as_str()
            .unwrap()
            .contains("connection"),
        "{}",
        result.last()
    );
}

#[test]
fn an_interrupted_prepare_is_resumed_and_any_number_of_threads_makes_the_same_tables() {
    let test = "an_interrupted_prepare_is_resumed_and_any_number_of_threads_makes_the_same_tables";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let database = "dyno_resume";
    let mut control = client(&socket);
    control.exec(&format!("DROP DATABASE IF EXISTS {database}")).unwrap();
    let size = "--tables 2 --table-size 45000";
    prepare(&socket, database, &format!("{size} --threads 3"));
    let verify = |arguments: &str| {
        plain(&format!(
            "oltp verify --socket {socket} --database {database} {arguments}"
        ))
    };
    let checked = verify(size);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    // As after an interruption: whole chunks and an index are missing.
    control
        .exec(&format!(
            "USE {database}; DELETE FROM sbtest2 WHERE id BETWEEN 10001 AND 20000 OR id > 40000; DROP INDEX k_2 ON sbtest2"
        ))
        .unwrap();
    assert_eq!(verify(size).code, 4);
    let resumed = plain(&format!(
        "oltp prepare --socket {socket} --database {database} {size} --threads 1 --resume"
    ));
    assert!(
        resumed.stdout.contains("15000 rows loaded"),
        "{}{}",
        resumed.stdout,
        resumed.stderr
    );
    assert_eq!(verify(size).code, 0);
    let index = control.query("SHOW INDEX FROM sbtest2 WHERE Key_name = 'k_2'").unwrap();
    assert_eq!(index.rows.len(), 1);
    let other = plain(&format!(
        "oltp prepare --socket {socket} --database {database} {size} --seed 9 --resume"
    ));
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(other.stderr.contains("--seed"), "{}", other.stderr);
    control.exec(&format!("DROP DATABASE {database}")).unwrap();
}

#[test]
fn compression_shows_in_the_bytes_on_the_wire() {
    let Some(server) = PrivateServer::start("zlib", "compression_shows_in_the_bytes_on_the_wire") else {
        return;
    };
    let socket = server.socket();
    prepare(&socket, "sbtest", "--table-size 1000");
    let received = |compression: &str| {
        let result = run(&format!(
            "oltp run --workload oltp_read_only --socket {socket} --table-size 1000 --connections 2 --duration 500ms --quiet \
             --compression {compression}"
        ));
        assert_ended(&result, compression);
        let bytes = |layer: &str| result.number(&format!("/traffic/{layer}_received_bytes"));
        assert_eq!(bytes("compressed"), bytes("wire"), "there is no TLS");
        bytes("compressed") / bytes("raw")
    };
    assert_eq!(received("off"), 1.0);
    // Rows of random digits: half of each byte is news.
    let ratio = received("zlib:6");
    assert!((0.4..0.7).contains(&ratio), "{ratio}");
}

#[test]
fn a_statement_of_ones_own_that_never_finds_a_row_is_named() {
    let test = "a_statement_of_ones_own_that_never_finds_a_row_is_named";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let database = "dyno_found";
    prepare(&socket, database, "--table-size 100");
    let file = std::env::temp_dir().join(format!("dynoload-{database}-{}.sql", std::process::id()));
    let text = "-- name: there\nSELECT k FROM sbtest1 WHERE id = {uniform(1, 100)};\n\
                -- name: nowhere\nSELECT k FROM sbtest1 WHERE id = {uniform(1001, 1100)};\n";
    std::fs::write(&file, text).unwrap();
    let load = "--connections 2 --warmup 0s --duration 300ms --quiet";
    let result = run(&format!(
        "sql run {} --socket {socket} --database {database} {load}",
        file.display()
    ));
    let findings = result.last()["verdict"]["findings"].as_array().unwrap();
    let finding = findings
        .iter()
        .find(|finding| finding["rule"] == "empty_reads")
        .unwrap();
    assert_eq!(finding["level"], "SUSPECT", "{finding}");
    let words = finding["text"].as_str().unwrap();
    assert!(words.contains("never a row: nowhere: do the values"), "{words}");
    assert_eq!(
        result.count("/named/nowhere/empty_reads"),
        result.count("/counts/empty_reads")
    );
    assert_eq!(result.count("/named/there/empty_reads"), 0);
    std::fs::remove_file(&file).unwrap();
    client(&socket).exec(&format!("DROP DATABASE {database}")).unwrap();
}

#[test]
fn transactions_that_wait_for_a_lock_at_the_end_count_with_what_they_have_waited() {
    let test = "transactions_that_wait_for_a_lock_at_the_end_count_with_what_they_have_waited";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let database = "dyno_locked_to_the_end";
    prepare(&socket, database, "--table-size 100");
    let mut control = client(&socket);
    let mut running = Running::start(&mut command(&format!(
        "oltp run --workload oltp_point_select --socket {socket} --database {database} --table-size 100 --connections 2 \
         --warmup 100ms --duration 1s --interval 100ms --grace 300ms"
    )));
    running.wait_for_transactions(1);
    control.exec(&format!("LOCK TABLES {database}.sbtest1 WRITE")).unwrap();
    let result = running.end();
    assert_eq!(result.count("/ends/unfinished"), 2, "{}", result.last());
    assert_eq!(result.count("/ends/counted_with_their_wait"), 2);
    assert_eq!(
        result.count("/response/count"),
        result.count("/counts/transactions") + 2
    );
    assert!(
        result.number("/response/max_us") >= 290_000.0,
        "{}",
        result.last()["response"]
    );
    control.exec("UNLOCK TABLES").unwrap();
    control.exec(&format!("DROP DATABASE {database}")).unwrap();
}

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
