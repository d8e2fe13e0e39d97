//! Against a real server: every number that matters is held against a second source.
//!
//! DYNO_TEST_SERVER_SOCKET is the socket of a server that nobody else uses meanwhile; root has no password.

mod common;

use std::io::Write as _;
use std::time::Duration;

use common::Probe;
use dyno_mysql::blocking::Client;
use dyno_mysql::{Endpoint, Options};
use dyno_patience::wait_until;
use serde_json::Value;

const SCHEMA: &str = "dyno_probe_test";
const TRANSACTIONS: u64 = 400;
const SELECTS: u64 = 300;

/// The number after a label in the text of SHOW ENGINE INNODB STATUS, found without the probe's own parser.
fn labelled(text: &str, label: &str) -> u64 {
    let rest = &text[text.rfind(label).unwrap_or_else(|| panic!("no {label}")) + label.len()..];
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

fn engine_status(client: &mut Client) -> [u64; 4] {
    let table = client.query("SHOW ENGINE INNODB STATUS").unwrap().texts();
    let text = table[0][2].clone().unwrap();
    let age = labelled(&text, "\nLog sequence number") - labelled(&text, "\nLast checkpoint at");
    [
        age,
        labelled(&text, "\nModified db pages"),
        labelled(&text, "\nDatabase pages"),
        labelled(&text, "\nFree buffers"),
    ]
}

fn prepare(client: &mut Client) {
    client.exec(&format!("DROP DATABASE IF EXISTS {SCHEMA}")).unwrap();
    client.exec(&format!("CREATE DATABASE {SCHEMA}")).unwrap();
    client
        .exec(&format!(
            "CREATE TABLE {SCHEMA}.t (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB"
        ))
        .unwrap();
    for id in 0..100 {
        client
            .exec(&format!("INSERT INTO {SCHEMA}.t VALUES ({id}, REPEAT('x', 200))"))
            .unwrap();
    }
}

/// Waits until the server has closed the connections of test programs that ended before.
fn until_alone(client: &mut Client) {
    let connected =
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Threads_connected'";
    wait_until(20.0, "no other connection is open", || {
        client.query_text(connected).unwrap().as_deref() == Some("1")
    });
}

#[test]
fn status_metrics_agree_with_the_clients_counts_and_with_the_engines_own_text() {
    let Ok(socket) = std::env::var("DYNO_TEST_SERVER_SOCKET") else {
        // Past the test harness, which keeps what a passing test prints to itself.
        let _ = writeln!(
            std::io::stderr(),
            "NOT RUN: status metrics on a server: DYNO_TEST_SERVER_SOCKET is not set"
        );
        return;
    };
    let options = Options::new(Endpoint::unix(&socket), "root");
    let mut client = Client::connect(&options, Duration::from_secs(10)).unwrap();
    let pid_file = client.query_text("SELECT @@pid_file").unwrap().unwrap();
    let pid = std::fs::read_to_string(pid_file).unwrap().trim().to_owned();
    let instance = format!("1:{pid},socket={socket},user=root");
    prepare(&mut client);
    until_alone(&mut client);
    let mut probe = Probe::start(&["--interval-ms", "0", "--instance", &instance]);
    probe.until("header");
    probe.say("sample 0");
    probe.until("sample");
    let statements = work(&mut client);
    // One second on the manual clock: rates are counts.
    probe.say("sample 1000000000");
    let metrics = probe.until("sample").pop().unwrap()["metrics"]["instance:1"].clone();
    assert_eq!(metrics["qps"], statements + 1, "and the probe's own");
    assert_eq!(metrics["tps"], TRANSACTIONS);
    assert_eq!(metrics["com_commit_per_s"], TRANSACTIONS - 1);
    assert_eq!(metrics["com_rollback_per_s"], 1);
    assert_eq!(metrics["com_select_per_s"], SELECTS);
    assert_eq!(metrics["com_update_per_s"], TRANSACTIONS);
    assert_eq!(metrics["threads_connected"], 2);
    assert!(metrics["innodb_redo_written_bytes_per_s"].as_f64().unwrap() > 0.0);
    assert!(metrics["server_rss_bytes"].as_u64().unwrap() > 1 << 20);
    let ([age, modified, database, free], metrics) = at_rest(&mut client, &mut probe);
    assert!(modified > 0, "nothing is dirty, so nothing is shown");
    assert_eq!(metrics["innodb_checkpoint_age_bytes"], age);
    let pct = 100.0 * modified as f64 / (database + free) as f64;
    let told = metrics["innodb_dirty_pages_pct"].as_f64().unwrap();
    assert!((told - pct).abs() < 1e-4, "{told} is not {pct}");
    assert!(metrics["innodb_checkpoint_max_age_bytes"].as_u64().unwrap_or(u64::MAX) >= age);
    // After FLUSH STATUS there are no rates for one sample, and then again.
    client.exec("FLUSH STATUS").unwrap();
    probe.say("sample 100000000000");
    assert!(probe.until("sample").pop().unwrap()["metrics"]["instance:1"]
        .get("qps")
        .is_none());
    probe.say("sample 101000000000");
    let records = probe.until("sample");
    assert!(records.iter().any(|record| record["record"] == "reset"));
    assert_eq!(records.last().unwrap()["metrics"]["instance:1"]["qps"], 1);
    client.exec(&format!("DROP DATABASE {SCHEMA}")).unwrap();
}

/// Runs the transactions and the queries; gives the number of statements.
fn work(client: &mut Client) -> u64 {
    for number in 0..TRANSACTIONS {
        client.exec("BEGIN").unwrap();
        let id = number % 100;
        client
            .exec(&format!(
                "UPDATE {SCHEMA}.t SET v = REPEAT('{}', 200) WHERE id = {id}",
                number % 10
            ))
            .unwrap();
        client.exec(if number == 7 { "ROLLBACK" } else { "COMMIT" }).unwrap();
    }
    for _ in 0..SELECTS {
        client.query(&format!("SELECT v FROM {SCHEMA}.t WHERE id = 5")).unwrap();
    }
    3 * TRANSACTIONS + SELECTS
}

/// What the engine says and what the probe says, when nothing changed from before the sample to after it.
fn at_rest(client: &mut Client, probe: &mut Probe) -> ([u64; 4], Value) {
    for second in 2..60u64 {
        let before = engine_status(client);
        probe.say(&format!("sample {second}000000000"));
        let sample = probe.until("sample").pop().unwrap();
        if engine_status(client) == before {
            return (before, sample["metrics"]["instance:1"].clone());
        }
    }
    panic!("the server did not come to rest");
}
