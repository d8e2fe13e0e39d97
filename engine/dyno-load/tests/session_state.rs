//! The program against a server whose global values would change what its sessions do.
//!
//! DYNO_TEST_SERVER_COMMAND starts a private server (see common/mod.rs).
//!
//! What `--ssl-mode` and its companions say when they cannot be met, and when they are not.

mod common;

use common::{assert_ended, client, plain, run, NullServer, PrivateServer, Run};
use dyno_mysql::blocking::Client;

const DATA: &str = "--tables 1 --table-size 1000";
/// Values that break BEGIN, empty strings or comparisons, commit nothing, begin a transaction after each one, or cut off rows.
const HOSTILE: &[&str] = &[
    "autocommit = 0",
    "completion_type = 1",
    "sql_select_limit = 3",
    "sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
];
const HOSTILE_IN_MARIADB: &str = "sql_mode = 'ORACLE,EMPTY_STRING_IS_NULL'";

fn done(arguments: &str) -> Run {
    let result = plain(arguments);
    assert_eq!(result.code, 0, "{arguments}: {}{}", result.stderr, result.stdout);
    result
}

/// A server where the account that loads is given hostile values at each login.
fn hostile(name: &str, test: &str) -> Option<(PrivateServer, Client)> {
    let server = PrivateServer::start(name, test)?;
    let mut control = client(&server.socket());
    let is_mariadb = control
        .query_text("SELECT VERSION()")
        .unwrap()
        .unwrap()
        .contains("MariaDB");
    for setting in HOSTILE.iter().chain(is_mariadb.then_some(&HOSTILE_IN_MARIADB)) {
        control.exec(&format!("SET GLOBAL {setting}")).unwrap();
    }
    Some((server, control))
}

#[test]
fn the_servers_limit_of_a_statements_time_ends_the_load_and_not_the_preparation() {
    let test = "the_servers_limit_of_a_statements_time_ends_the_load_and_not_the_preparation";
    let Some((server, mut control)) = hostile("limited", test) else {
        return;
    };
    let version = control.query_text("SELECT VERSION()").unwrap().unwrap();
    if version.contains("MariaDB") {
        // 1 µs: what is slower than that is ended.
        control.exec("SET GLOBAL max_statement_time = 0.000001").unwrap();
    } else {
        control.exec("SET GLOBAL max_execution_time = 1").unwrap();
    }
    let place = format!("--socket {}", server.socket());
    done(&format!("oltp prepare {place} --tables 1 --table-size 20000"));
    done(&format!("oltp verify {place} --tables 1 --table-size 20000"));
    if version.contains("MariaDB") {
        let load = format!("oltp run {place} --tables 1 --table-size 20000 --workload oltp_update_index --warmup 0s");
        let run = run(&format!("{load} --connections 1 --duration 300ms --quiet"));
        assert!(
            run.stderr.contains("1969"),
            "the measured sessions keep it: {}",
            run.stderr
        );
    }
}

/// How often a rule of the verdict found something.
fn found(result: &Run, rule: &str) -> usize {
    let findings = result.last()["verdict"]["findings"].as_array().unwrap();
    findings.iter().filter(|finding| finding["rule"] == rule).count()
}

/// The run ended well, its statements were compared with the server's, and it left something in the tables.
fn is_kept(control: &mut Client, result: &Run, question: &str) {
    assert_ended(result, question);
    assert!(!result.last()["reconciliation"].as_array().unwrap().is_empty());
    assert_eq!(found(result, "reconciliation"), 0, "{}", result.last());
    assert_ne!(
        control.query_text(question).unwrap().as_deref(),
        Some("0"),
        "{question}"
    );
}

#[test]
fn what_the_program_does_does_not_depend_on_the_servers_global_values() {
    let test = "what_the_program_does_does_not_depend_on_the_servers_global_values";
    let Some((server, mut control)) = hostile("state", test) else {
        return;
    };
    let place = format!("--socket {}", server.socket());
    done(&format!("oltp prepare {place} {DATA}"));
    done(&format!("oltp prepare {place} {DATA} --resume"));
    done(&format!("oltp verify {place} {DATA}"));
    let load = "--connections 2 --warmup 0s --duration 500ms --quiet";
    let inserted = run(&format!("oltp run --workload oltp_insert {place} {DATA} {load}"));
    is_kept(&mut control, &inserted, "SELECT COUNT(*) - 1000 FROM sbtest.sbtest1");
    let mixed = run(&format!("oltp run --workload oltp_read_write {place} {DATA} {load}"));
    is_kept(&mut control, &mixed, "SELECT COUNT(*) FROM sbtest.sbtest1");
    assert!(mixed.count("/counts/rows") > 3 * mixed.count("/counts/transactions"));
    done(&format!("tpcc prepare {place} --database tpcc --warehouses 1"));
    let load = "--connections 2 --warmup 0s --duration 2s --quiet";
    let ordered = run(&format!("tpcc run {place} --database tpcc {load}"));
    is_kept(&mut control, &ordered, "SELECT COUNT(*) - 30000 FROM tpcc.orders");
    done(&format!("tpcc check {place} --database tpcc"));
    done(&format!("oltp cleanup {place} --tables 1"));
}

#[test]
fn idle_connections_outlive_the_servers_wait_timeout_and_the_counters_are_compared() {
    let test = "idle_connections_outlive_the_servers_wait_timeout_and_the_counters_are_compared";
    let Some(server) = PrivateServer::start("idle", test) else {
        return;
    };
    let place = format!("--socket {}", server.socket());
    done(&format!("oltp prepare {place} {DATA}"));
    let mut control = client(&server.socket());
    control.exec("SET GLOBAL wait_timeout = 1").unwrap();
    let load = format!("oltp run {place} {DATA} --workload oltp_point_select --warmup 0s --quiet");
    let thinking = run(&format!("{load} --connections 2 --duration 2s --think-time 1500ms"));
    is_kept(&mut control, &thinking, "SELECT 1");
    // The connection that reads the counters is idle during the load; most of the others too.
    let rare = run(&format!("{load} --connections 16 --duration 2s --rate 4"));
    is_kept(&mut control, &rare, "SELECT 1");
    let connecting = run(&format!(
        "oltp run {place} --workload connect --connections 1 --warmup 0s --duration 2s --quiet"
    ));
    assert_eq!(found(&connecting, "reconciliation"), 0, "{}", connecting.last());
}

#[test]
fn a_script_inherits_the_state_and_the_program_says_so() {
    let test = "a_script_inherits_the_state_and_the_program_says_so";
    let Some(server) = PrivateServer::start("inherits", test) else {
        return;
    };
    let mut control = client(&server.socket());
    control
        .exec("CREATE DATABASE sbtest; CREATE TABLE sbtest.t (a INT) ENGINE=InnoDB")
        .unwrap();
    control.exec("SET GLOBAL autocommit = 0").unwrap();
    let file = server.folder.join("insert.sql");
    std::fs::write(&file, "INSERT INTO t VALUES (1);\n").unwrap();
    let place = format!("--socket {} --database sbtest", server.socket());
    let load = "--connections 1 --warmup 0s --duration 300ms --quiet";
    let result = run(&format!("sql run {place} {load} {}", file.display()));
    assert!(
        result.stderr.contains("autocommit of the server is OFF"),
        "{}",
        result.stderr
    );
    assert_eq!(
        control.query_text("SELECT COUNT(*) FROM sbtest.t").unwrap().as_deref(),
        Some("0")
    );
}

fn load(port: &str, more: &str) -> String {
    format!("oltp run --any-server --workload oltp_point_select --duration 300ms --port {port} {more}")
}

#[test]
fn a_server_without_tls_is_reported_where_tls_was_preferred() {
    let server = NullServer::start();
    let result = run(&load(server.port(), "--quiet --ssl-mode preferred"));
    let warning = format!(
        "warning: --ssl-mode preferred, and the server at {} offers no TLS",
        server.place
    );
    assert!(result.stderr.contains(&warning), "{}", result.stderr);
    assert!(
        result.stderr.contains("TLS                   none"),
        "{}",
        result.stderr
    );
    for record in [&result.records[0], result.last()] {
        assert_eq!(record["settings"]["tls_mode"], "preferred");
        assert_eq!(record["settings"]["tls_in_use"], "none");
    }
    let plain_text = run(&load(server.port(), "--quiet"));
    assert!(!plain_text.stderr.contains("TLS"), "{}", plain_text.stderr);
    assert_eq!(plain_text.last()["settings"]["tls_in_use"], "none");
}

#[test]
fn tls_options_that_cannot_be_met_are_named_as_they_were_given() {
    let folder = std::env::temp_dir().join(format!("dynoload-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let empty = folder.join("empty.pem");
    std::fs::write(&empty, "no certificate").unwrap();
    let empty = empty.display();
    let cases = [
        ("--ssl-mode verify".into(), "--ssl-mode: TLS mode 'verify' is not known"),
        ("--ssl-mode verify_ca".into(), "--ssl-mode verify_ca needs --ssl-ca"),
        (
            "--ssl-mode verify_identity".into(),
            "--ssl-mode verify_identity needs --ssl-ca",
        ),
        (format!("--ssl-mode verify_ca --ssl-ca {empty}"), "--ssl-ca: PEM file"),
        (
            format!("--ssl-mode required --ssl-cert {empty}"),
            "--ssl-cert and --ssl-key belong together",
        ),
        (
            format!("--ssl-mode required --ssl-key {empty}"),
            "--ssl-cert and --ssl-key belong together",
        ),
        (
            format!("--ssl-mode required --ssl-key {empty} --ssl-cert {empty}"),
            "--ssl-key: PEM file",
        ),
        (
            "--ssl-mode required --tls-versions 1.1".into(),
            "--tls-versions: TLS version '1.1'",
        ),
        (
            "--ssl-mode required --ssl-ciphers RC4".into(),
            "--ssl-ciphers: cipher suite 'RC4'",
        ),
    ];
    for (options, expected) in cases {
        let run = plain(&load("1", &options));
        assert_eq!(run.code, 2, "{options}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{options}: {}", run.stderr);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_server_that_requires_tls_is_not_taken_for_a_wrong_password() {
    let test = "a_server_that_requires_tls_is_not_taken_for_a_wrong_password";
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let options = [&format!("--port={port}")[..], "--require-secure-transport=ON"];
    let Some(_server) = PrivateServer::start_with("secure", test, &options) else {
        return;
    };
    for command in [
        "oltp cleanup",
        "oltp prepare",
        "tpcc check",
        "oltp run --workload oltp_point_select",
    ] {
        let run = plain(&format!("{command} --port {port}"));
        assert_eq!(run.code, 2, "{command}: {}", run.stderr);
        for words in ["require_secure_transport", "--ssl-mode required"] {
            assert!(run.stderr.contains(words), "{command}: {}", run.stderr);
        }
    }
}
