//! Slices of TPC-C and of memcached operations.
//!
//! DYNO_TEST_SERVER_COMMAND starts a private server, DYNO_TEST_MEMCACHED is a memcached program.

mod common;
#[path = "common/held.rs"]
mod held;
#[path = "common/memcached.rs"]
mod memcached;

use std::time::Duration;

use common::freeze::on_a_still_host;
use common::{client, plain, signal, PrivateServer};
use dyno_kv::blocking::Client;
use dyno_kv::{Detail, Event, Protocol};
use dyno_patience::Patience;
use held::{assert_reconciled, count, number, transactions, Held};
use memcached::Memcached;
use nix::sys::signal::Signal;
use serde_json::Value;

#[test]
fn tpcc_runs_in_slices_with_every_way_of_asking() {
    let test = "tpcc_runs_in_slices_with_every_way_of_asking";
    let Some(server) = PrivateServer::start("slices-tpcc", test) else {
        return;
    };
    let socket = server.socket();
    let made = plain(&format!(
        "tpcc prepare --socket {socket} --database tpcc --warehouses 1"
    ));
    assert_eq!(made.code, 0, "{}", made.stderr);
    let mut control = client(&socket);
    let mut held = Held::start(&format!(
        "tpcc run --socket {socket} --database tpcc --connections 4 --threads 2 --stored-procedures on"
    ));
    let slice = held.slice_that(1, 100, 300, |slice| transactions(slice) > 0);
    assert_reconciled(&slice, &["Com_call_procedure"]);
    held.end();
    for rest in [
        "--connections 4 --threads 2",
        "--connections 2 --pipelining on",
        "--connections 3 --terminals 300 --key-and-think-times on --time-factor 0.1",
    ] {
        let mut held = Held::start(&format!("tpcc run --socket {socket} --database tpcc {rest}"));
        for stream in 1..4 {
            let slice = held.slice_that(stream, 200, 600, |slice| new_orders(slice) > 0);
            assert_reconciled(&slice, &["Com_select", "Com_commit", "Questions"]);
            let ended: u64 = ["new_order", "payment", "order_status", "delivery", "stock_level"]
                .iter()
                .map(|name| {
                    count(&slice, &format!("/tpcc/transactions/{name}/committed"))
                        + count(&slice, &format!("/tpcc/transactions/{name}/rolled_back"))
                })
                .sum();
            assert_eq!(ended, count(&slice, "/counts/transactions"), "{rest}");
            let expected = new_orders(&slice) as f64 * 60.0 / number(&slice, "/length_s");
            let tpmc_like = number(&slice, "/tpcc/tpmc_like");
            assert!((tpmc_like - expected).abs() < 1e-6, "{rest}: {slice}");
        }
        held.end();
    }
    let checked = plain(&format!("tpcc check --socket {socket} --database tpcc"));
    assert_eq!(checked.code, 0, "{}", checked.stdout);
    same_customers_in_the_same_stream(&mut control, &socket);
}

/// 0 also where no transaction of any type ended.
fn new_orders(slice: &Value) -> u64 {
    let committed = slice.pointer("/tpcc/transactions/new_order/committed");
    committed.and_then(Value::as_u64).unwrap_or(0)
}

/// The customers that New-Orders ask for depend on the stream alone.
fn same_customers_in_the_same_stream(control: &mut dyno_mysql::blocking::Client, socket: &str) {
    control.exec("SET GLOBAL log_output = 'TABLE'").unwrap();
    let mut asked_in = |stream: u32, measure_ms: u32| -> Vec<String> {
        let mut held = Held::start(&format!(
            "tpcc run --socket {socket} --database tpcc --connections 1 --db-ps-mode disable"
        ));
        control
            .exec("TRUNCATE mysql.general_log; SET GLOBAL general_log = 1")
            .unwrap();
        held.slice(&format!("go s {stream} 0 {measure_ms}"));
        control.exec("SET GLOBAL general_log = 0").unwrap();
        held.end();
        let question = "SELECT CONVERT(argument USING latin1) FROM mysql.general_log WHERE argument LIKE \
                        'SELECT c_discount%'";
        let answer = control.query(question).unwrap();
        let texts = answer.texts().into_iter().map(|row| row[0].clone().unwrap());
        texts.take(5).collect()
    };
    // On a busy host five New-Orders may take longer than a slice.
    let mut customers = |stream: u32| {
        (0..6)
            .map(|round| asked_in(stream, 250 << round))
            .find(|customers| customers.len() == 5)
            .expect("no slice had five New-Orders")
    };
    let first = customers(7);
    assert_eq!(customers(7), first);
    assert_ne!(customers(8), first);
}

#[test]
fn memcached_operations_run_in_slices() {
    let test = "memcached_operations_run_in_slices";
    let Some(server) = Memcached::start(test, &[]) else {
        return;
    };
    let mut control = Client::tcp(("127.0.0.1", server.port), Protocol::Text, Duration::from_secs(5)).unwrap();
    let mut connections = || -> u64 {
        let stats = control.stats("").unwrap();
        let (_, value) = stats.iter().find(|(name, _)| name == "total_connections").unwrap();
        value.parse().unwrap()
    };
    for rest in [
        "--connections 6 --threads 2",
        "--connections 5 --threads 2 --depth 4 --protocol binary --cas 10%",
        "--connections 3 --noreply --protocol meta",
        "--connections 4 --threads 2 --rate 2000 --arrivals poisson",
        "--connections 3 --depth 2 --think-time 5ms",
    ] {
        let mut held = Held::start(&format!(
            "kv run --port {} --keys 500 --fill 100% --server-pid {} {rest}",
            server.port,
            server.child.id()
        ));
        let made = connections();
        for stream in 1..4 {
            // The first of two workers reads the server's CPU time: it may have missed what the other has counted.
            let slice = held.slice_that(stream, 100, 200, |slice| {
                let (counted, hits) = (
                    count(slice, "/counts/transactions"),
                    count(slice, "/kv/counts/get_hits"),
                );
                hits > 0 && counted < transactions(slice) && number(slice, "/server_cpu_us") > 0.0
            });
            assert_reconciled(&slice, &["cmd_get", "cmd_set"]);
            let (whole, measured) = ("/kv/whole_load_counts/get_hits", "/kv/counts/get_hits");
            assert!(count(&slice, whole) >= count(&slice, measured));
            let activity = held.settled_activity();
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(held.activity(), activity, "{rest}");
        }
        assert_eq!(connections(), made, "{rest}");
        held.end();
    }
}

/// The value of each key.
fn values(control: &mut Client) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    for number in 0..100 {
        let key = format!("{number:02x}");
        let mut value = Vec::new();
        control
            .exchange(
                |connection| connection.get(key.as_bytes(), false, Detail::Deliver),
                |event| {
                    if let Event::Value { data, .. } = event {
                        value.extend_from_slice(data);
                    }
                },
            )
            .unwrap();
        values.push(value);
    }
    values
}

#[test]
fn memcached_operations_follow_from_the_stream() {
    let test = "memcached_operations_follow_from_the_stream";
    let Some(server) = Memcached::start(test, &[]) else {
        return;
    };
    let mut control = Client::tcp(("127.0.0.1", server.port), Protocol::Text, Duration::from_secs(5)).unwrap();
    // 600 planned sets of 100 keys on one connection: what is left in the end depends on the numbers alone.
    let mut after = |commands: &[&str]| {
        let mut held = Held::start(&format!(
            "kv run --port {} --connections 1 --keys 100 --key-size 2 --key-prefix= --ratio 0:100 --key-choice uniform \
             --rate 1000 --overload queue",
            server.port
        ));
        for command in commands {
            held.slice_of_whole_plan(command);
        }
        held.end();
        values(&mut control)
    };
    let original = after(&["go a 7 0 600"]);
    assert!(original.iter().filter(|value| !value.is_empty()).count() > 90);
    let other = after(&["go b 8 0 600"]);
    assert_ne!(original, other);
    assert_eq!(after(&["go c 9 0 300", "go d 7 0 600"]), original);
}

#[test]
fn the_counted_part_ends_in_time_when_memcached_does_not_answer() {
    let test = "the_counted_part_ends_in_time_when_memcached_does_not_answer";
    let Some(server) = Memcached::start(test, &[]) else {
        return;
    };
    on_a_still_host(test, || {
        let mut held = Held::start(&format!("kv run --port {} --connections 2 --keys 100", server.port));
        held.slice("go a 1 0 100");
        // Stopped workers woke up only every 200 ms: the limits of the counted part were up to that late.
        held.send("go b 2 150 330");
        std::thread::sleep(Duration::from_millis(60));
        signal(server.child.id(), Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(500));
        signal(server.child.id(), Signal::SIGCONT);
        let slice = held.next("slice");
        assert!((number(&slice, "/length_s") - 0.33).abs() < 0.03, "{slice}");
        held.end();
    });
}

#[test]
fn a_memcached_that_dies_on_hold_ends_the_load_with_a_failure() {
    let test = "a_memcached_that_dies_on_hold_ends_the_load_with_a_failure";
    let Some(mut server) = Memcached::start(test, &[]) else {
        return;
    };
    let mut held = Held::start(&format!("kv run --port {} --connections 2 --keys 100", server.port));
    held.slice("go a 1 0 100");
    server.kill();
    let patience = Patience::seconds(10.0);
    held.send("go b 2 0 30000");
    assert_eq!(held.next("failed")["code"], 2013);
    patience.check("the failure");
    assert_eq!(held.exit_code(), 1);
}
