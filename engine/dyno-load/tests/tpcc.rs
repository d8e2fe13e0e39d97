//! TPC-C against a real server: the same tables from any number of threads, conditions after everything that may happen.
//!
//! DYNO_TEST_SERVER_COMMAND starts a private server in a folder, and starts it again there after it was killed (see
//! common/mod.rs).

mod common;

use std::process::{Command, Stdio};

use common::{client, command, is_everything, parse, plain, run, signal, PrivateServer, Run};
use dyno_mysql::blocking::Client;
use dyno_patience::wait_until;
use nix::sys::signal::Signal;

const TABLES: &str = "warehouse, district, customer, history, item, stock, orders, new_orders, order_line";

fn prepare(server: &PrivateServer, database: &str, rest: &str) -> Run {
    let made = plain(&format!(
        "tpcc prepare --socket {} --database {database} {rest}",
        server.socket()
    ));
    assert_eq!(made.code, 0, "{}", made.stderr);
    made
}

fn checksums(control: &mut Client, database: &str) -> Vec<Option<String>> {
    control.exec(&format!("USE {database}")).unwrap();
    let answer = control.query(&format!("CHECKSUM TABLE {TABLES}")).unwrap();
    answer.texts().into_iter().map(|row| row[1].clone()).collect()
}

fn number(control: &mut Client, question: &str) -> f64 {
    control.query_text(question).unwrap().unwrap().parse().unwrap()
}

/// The twelve conditions, and that every acknowledged order is there.
fn assert_consistent(server: &PrivateServer, rest: &str) {
    let checked = plain(&format!(
        "tpcc check --socket {} --database tpcc {rest}",
        server.socket()
    ));
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    assert_eq!(
        checked.stdout.matches(" 0 violations").count(),
        12,
        "{}",
        checked.stdout
    );
}

/// No order is delivered twice: as many deliveries as orders that have a carrier, beyond those of the load.
fn assert_delivered_once(control: &mut Client, warehouses: u32) {
    control.exec("USE tpcc").unwrap();
    let deliveries = number(control, "SELECT SUM(c_delivery_cnt) FROM customer");
    let delivered = number(control, "SELECT COUNT(*) FROM orders WHERE o_carrier_id IS NOT NULL");
    assert!(deliveries > 0.0);
    assert_eq!(deliveries, delivered - f64::from(warehouses) * 10.0 * 2100.0);
}

/// One server for three tests: loading a warehouse takes longer than all of them.
#[test]
fn the_same_tables_are_made_serve_terminals_and_survive_a_killed_server() {
    let test = "the_same_tables_are_made_serve_terminals_and_survive_a_killed_server";
    let Some(mut server) = PrivateServer::start("tpcc-one", test) else {
        return;
    };
    any_number_of_threads_and_any_interruption_make_the_same_tables(&server);
    ten_thousand_terminals_share_few_connections(&server);
    every_acknowledged_order_survives_a_killed_server(&mut server);
}

fn any_number_of_threads_and_any_interruption_make_the_same_tables(server: &PrivateServer) {
    let mut control = client(&server.socket());
    prepare(server, "one", "--threads 1");
    prepare(server, "tpcc", "--threads 5");
    let expected = checksums(&mut control, "one");
    assert_eq!(expected.len(), 9);
    assert_eq!(checksums(&mut control, "tpcc"), expected);
    assert_consistent(server, "");
    // As after an interruption: whole chunks and an index are missing.
    control
        .exec(
            "USE tpcc; DELETE FROM orders WHERE o_d_id = 3; DELETE FROM new_orders WHERE no_d_id = 3; DELETE FROM order_line \
             WHERE ol_d_id = 3; DELETE FROM stock WHERE s_i_id > 90000; DROP INDEX idx_orders ON orders",
        )
        .unwrap();
    let broken = plain(&format!("tpcc check --socket {} --database tpcc", server.socket()));
    assert_eq!(broken.code, 4, "{}", broken.stdout);
    prepare(server, "tpcc", "--threads 3 --resume");
    assert_eq!(checksums(&mut control, "tpcc"), expected);
    let index = control
        .query("SHOW INDEX FROM tpcc.orders WHERE Key_name = 'idx_orders'")
        .unwrap();
    assert_eq!(index.rows.len(), 4);
    let other = plain(&format!(
        "tpcc prepare --socket {} --database tpcc --seed 2 --resume",
        server.socket()
    ));
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(other.stderr.contains("--seed"), "{}", other.stderr);
    let again = plain(&format!("tpcc prepare --socket {} --database tpcc", server.socket()));
    assert!(again.code == 2 && again.stderr.contains("--resume"), "{}", again.stderr);
    prepare(server, "one", "--resume --foreign-keys");
    let keys =
        "SELECT COUNT(*) FROM information_schema.table_constraints WHERE table_schema = 'one' AND constraint_type = \
                'FOREIGN KEY'";
    assert_eq!(number(&mut control, keys), 10.0);
}

#[test]
fn the_database_is_consistent_after_a_run_with_the_standards_mix() {
    let test = "the_database_is_consistent_after_a_run_with_the_standards_mix";
    let Some(server) = PrivateServer::start("tpcc-run", test) else {
        return;
    };
    let (socket, mut control) = (server.socket(), client(&server.socket()));
    prepare(&server, "tpcc", "--warehouses 2");
    let orders = server.folder.join("orders.txt");
    let (connections, length_s) = if is_everything() { (16, 15) } else { (8, 4) };
    let result = run(&format!(
        "tpcc run --socket {socket} --database tpcc --connections {connections} --threads 2 --warmup 500ms \
         --duration {length_s}s --quiet --acknowledged {}",
        orders.display()
    ));
    assert!(result.code == 0 || result.code == 4, "{}", result.stderr);
    assert_consistent(&server, &format!("--acknowledged {}", orders.display()));
    assert_delivered_once(&mut control, 2);
    assert_mix(&result, f64::from(connections), f64::from(length_s));
    // Every order that is there beyond the load's was acknowledged, unless its answer came after the end.
    let lines = std::fs::read_to_string(&orders).unwrap().lines().count() as f64;
    let made = number(&mut control, "SELECT COUNT(*) FROM orders") - 60_000.0;
    assert!(
        made - lines >= 0.0 && made - lines <= f64::from(connections),
        "{made} orders, {lines} lines"
    );
    // Text statements and the join, another seed, homes at random; then statements ahead of their answers.
    for rest in [
        "--connections 4 --db-ps-mode disable --stock-level join --home random --seed 9",
        "--connections 16 --pipelining on --seed 10",
        "--connections 16 --stored-procedures on --seed 11 --home random --acknowledged {orders}",
        "--connections 4 --stored-procedures on --db-ps-mode disable --seed 12",
    ] {
        let rest = rest.replace("{orders}", &orders.display().to_string());
        let other = run(&format!(
            "tpcc run --socket {socket} --database tpcc --duration 1s --quiet {rest}"
        ));
        assert!(other.code == 0 || other.code == 4, "{rest}: {}", other.stderr);
        assert!(
            other.count("/tpcc/transactions/new_order/committed") > 0,
            "{rest}: {}",
            other.stderr
        );
        if is_everything() {
            assert_consistent(&server, &format!("--acknowledged {}", orders.display()));
        }
    }
    // No load mends what an earlier one has broken.
    assert_consistent(&server, &format!("--acknowledged {}", orders.display()));
    assert_delivered_once(&mut control, 2);
}

fn assert_mix(result: &Run, connections: f64, length_s: f64) {
    let of = |name: &str, key: &str| result.number(&format!("/tpcc/transactions/{name}/{key}"));
    // Each connection has a deck of 23 cards begun before the measurement, one not ended, and a transaction under way. Of
    // a type with ten cards in it, such a deck has more or less than its share by 1.2 cards (standard deviation): four
    // times that.
    let ended = result.count("/counts/transactions") as f64;
    let allowed_pct = 100.0 * (4.0 * 1.2 * (2.0 * connections).sqrt() + connections) / ended;
    for (name, share_pct) in [
        ("new_order", 43.48),
        ("payment", 43.48),
        ("order_status", 4.35),
        ("delivery", 4.35),
        ("stock_level", 4.35),
    ] {
        let seen = of(name, "share_pct");
        assert!((seen - share_pct).abs() < allowed_pct, "{name}: {seen} %");
        assert!(of(name, "response/p90_us") > 0.0);
    }
    let (committed, rolled_back) = (of("new_order", "committed"), of("new_order", "rolled_back"));
    let asked = committed + rolled_back;
    // 1 %, to within four standard deviations of the binomial distribution.
    let deviation = (asked * 0.01 * 0.99).sqrt();
    assert!(
        (rolled_back - asked * 0.01).abs() < 4.0 * deviation + 1.0,
        "{rolled_back} of {asked}"
    );
    let tpmc_like = result.number("/tpcc/tpmc_like");
    assert!((tpmc_like - committed * 60.0 / length_s).abs() < 0.01, "{tpmc_like}");
    for check in result.last()["reconciliation"].as_array().unwrap() {
        assert!(check["difference_pct"].as_f64().unwrap().abs() <= 0.1, "{check}");
    }
}

fn every_acknowledged_order_survives_a_killed_server(server: &mut PrivateServer) {
    let orders = server.folder.join("orders.txt");
    let child = command(&format!(
        "tpcc run --socket {} --database tpcc --connections 16 --duration 600s --quiet --acknowledged {}",
        server.socket(),
        orders.display()
    ))
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let acknowledged = || std::fs::read_to_string(&orders).map_or(0, |text| text.lines().count());
    wait_until(50.0, "300 orders are acknowledged", || acknowledged() >= 300);
    signal(server.id, Signal::SIGKILL);
    let result = parse(child.wait_with_output().unwrap());
    assert_eq!(result.code, 1, "{}", result.stderr);
    restart(server);
    assert_consistent(server, &format!("--acknowledged {}", orders.display()));
    assert_delivered_once(&mut client(&server.socket()), 1);
    // An order that is gone is found.
    let mut text = std::fs::read_to_string(&orders).unwrap();
    text.push_str("1 1 99999999\n");
    std::fs::write(&orders, text).unwrap();
    let checked = plain(&format!(
        "tpcc check --socket {} --database tpcc --acknowledged {}",
        server.socket(),
        orders.display()
    ));
    assert_eq!(checked.code, 4, "{}", checked.stdout);
    assert!(checked.stdout.contains("1 are missing"), "{}", checked.stdout);
}

/// Waits until the killed server is gone, and starts it again on the same data.
fn restart(server: &mut PrivateServer) {
    let old = format!("/proc/{}/fd", server.id);
    wait_until(20.0, "the killed server is gone", || {
        std::fs::read_dir(&old).map_or(true, |mut entries| entries.next().is_none())
    });
    let command = std::env::var("DYNO_TEST_SERVER_COMMAND").unwrap();
    let status = Command::new(command)
        .arg(&server.folder)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let id = std::fs::read_to_string(server.folder.join("pid")).unwrap();
    server.id = id.trim().parse().unwrap();
}

fn assert_accounted_for(result: &Run) {
    let ended = result.count("/counts/transactions") + result.count("/ends/ended_after_stop");
    let left = result.count("/ends/unfinished") + result.count("/plan/not_started");
    assert_eq!(
        ended + result.count("/counts/dropped_late") + left,
        result.count("/plan/planned"),
        "{}",
        result.last()
    );
}

fn ten_thousand_terminals_share_few_connections(server: &PrivateServer) {
    let result = run(&format!(
        "tpcc run --socket {} --database tpcc --connections 8 --threads 1 --terminals 10000 --key-and-think-times on \
         --time-factor 4 --duration 2s --grace 60s --quiet",
        server.socket()
    ));
    assert!(result.code == 0 || result.code == 4, "{}", result.stderr);
    assert_eq!(result.last()["settings"]["mode"], "terminals");
    // First times spread over 96 s: 10,000 / 96 a second for 2 s, each at most once.
    let ended = result.count("/response/count") as f64;
    assert!((ended - 208.0).abs() < 60.0, "{ended}");
    assert_accounted_for(&result);
    assert_consistent(server, "");
    // Terminals wait for their turn: nothing is dropped without a rate.
    let dropping = plain(&format!(
        "tpcc run --socket {} --database tpcc --connections 1 --terminals 2000 --key-and-think-times on \
         --overload drop-late",
        server.socket()
    ));
    assert!(
        dropping.code == 2 && dropping.stderr.contains("--rate"),
        "{}",
        dropping.stderr
    );
    let refused = plain(&format!(
        "tpcc run --socket {} --database tpcc --connections 8 --terminals 100",
        server.socket()
    ));
    assert!(
        refused.code == 2 && refused.stderr.contains("--key-and-think-times"),
        "{}",
        refused.stderr
    );
}
