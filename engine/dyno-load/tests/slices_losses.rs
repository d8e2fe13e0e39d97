//! What goes wrong in and between slices: servers that die or hang, lost connections, wrong commands and options.
//!
//! DYNO_TEST_SERVER_COMMAND starts a private server (see common/mod.rs).

mod common;
#[path = "common/held.rs"]
mod held;

use std::time::Duration;

use common::{client, plain, signal, NullServer};
use dyno_mysql::blocking::Client;
use dyno_patience::{wait_until, Patience};
use held::{assert_reconciled, connection_ids, count, server, transactions, Held, TABLE};
use nix::sys::signal::Signal;

/// Closes connections, and waits until they are gone.
fn kill(control: &mut Client, victims: &[String]) {
    for victim in victims {
        control.exec(&format!("KILL {victim}")).unwrap();
    }
    wait_until(20.0, "the killed connections are gone", || {
        !connection_ids(control).iter().any(|id| victims.contains(id))
    });
}

#[test]
fn a_server_that_dies_ends_the_load_with_a_failure() {
    let test = "a_server_that_dies_ends_the_load_with_a_failure";
    let Some((server, socket)) = server("dies", test) else {
        return;
    };
    let load = format!("oltp run --workload oltp_point_select --socket {socket} {TABLE} --connections 4");
    let (mut on_hold, mut hanging, mut loading) = (
        Held::start(&load),
        Held::start(&format!("{load} --grace 2s")),
        Held::start(&load),
    );
    on_hold.slice("go a 1 0 100");
    signal(server.id, Signal::SIGSTOP);
    // The counters cannot be read then: the frozen server keeps the program waiting, up to the control connection's limit.
    hanging.send("go a 1 0 100");
    std::thread::sleep(Duration::from_millis(2300));
    signal(server.id, Signal::SIGCONT);
    hanging.next("slice");
    loading.send("go a 1 0 60000");
    loading.wait_for_load();
    signal(server.id, Signal::SIGKILL);
    let failed = loading.next("failed");
    assert!(failed["message"].as_str().unwrap().contains("connection"), "{failed}");
    assert_eq!(loading.exit_code(), 1);
    let patience = Patience::seconds(10.0);
    on_hold.send("go b 2 500 30000");
    let failed = on_hold.next("failed");
    patience.check("the failure");
    assert_eq!(failed["code"], 2013, "{failed}");
    assert_eq!(on_hold.exit_code(), 1);
}

#[test]
fn transactions_that_do_not_end_within_the_grace_end_the_load() {
    let test = "transactions_that_do_not_end_within_the_grace_end_the_load";
    let Some((_server, socket)) = server("grace", test) else {
        return;
    };
    let mut control = client(&socket);
    let mut held = Held::start(&format!(
        "oltp run --workload oltp_update_index --socket {socket} {TABLE} --connections 2 --grace 1s"
    ));
    held.slice("go a 1 0 100");
    control.exec("USE sbtest; LOCK TABLES sbtest1 READ").unwrap();
    let patience = Patience::seconds(15.0);
    held.send("go b 2 0 200");
    let failed = held.next("failed");
    assert!(failed["message"].as_str().unwrap().contains("--grace"), "{failed}");
    patience.check("the end after the grace");
    assert_eq!(held.exit_code(), 1);
}

#[test]
fn closed_connections_are_made_again_where_losses_are_ignored_and_the_control_connection_always() {
    let test = "closed_connections_are_made_again_where_losses_are_ignored_and_the_control_connection_always";
    let Some((_server, socket)) = server("lost", test) else {
        return;
    };
    let mut control = client(&socket);
    let load = format!("oltp run --workload oltp_point_select --socket {socket} {TABLE} --connections 3");
    let mut held = Held::start(&format!("{load} --ignore-errors 2003,2013,1927,1053"));
    let connected = connection_ids(&mut control);
    assert_eq!(connected.len(), 4);
    kill(&mut control, &connected[..1]);
    wait_until(20.0, "the control connection is closed, and no other", || {
        connection_ids(&mut control) == connected[1..]
    });
    let slice = held.slice_that(1, 0, 200, |slice| transactions(slice) > 0);
    assert_reconciled(&slice, &["Com_select", "Questions"]);
    // The control connection was made again: it is among the three of the second round.
    for (round, victims, of_load) in [(1, 1, 1), (2, 3, 2)] {
        let connected = connection_ids(&mut control);
        kill(&mut control, &connected[..victims]);
        let mut made = 0;
        let slice = held.slice_that(round, 0, 400, |slice| {
            made += count(slice, "/whole_counts/reconnects");
            transactions(slice) > 0 && made >= of_load
        });
        assert_eq!(made, of_load, "{slice}");
    }
    held.end();
    let mut strict = Held::start(&load);
    let victim = connection_ids(&mut control).pop().unwrap();
    kill(&mut control, &[victim]);
    strict.send("go a 1 0 200");
    strict.next("failed");
    assert_eq!(strict.exit_code(), 1);
}

#[test]
fn commands_are_refused_and_signals_and_the_end_of_the_input_end_the_load() {
    let server = NullServer::start();
    let load = format!(
        "oltp run --workload oltp_point_select --port {} --connections 2 --any-server",
        server.port()
    );
    let mut held = Held::start(&load);
    for line in ["go", "go a x 0 100", "go a 1 0 0", "stop"] {
        held.send(line);
        let refused = held.next("refused");
        assert!(
            refused["message"].as_str().unwrap().contains("go ID STREAM"),
            "{refused}"
        );
    }
    held.slice_that(1, 0, 100, |slice| count(slice, "/counts/transactions") > 0);
    // Commands that come together are done one after another, and the end of the input comes after them.
    held.send("go b 2 0 100");
    held.send("go c 3 0 100");
    held.close_input();
    assert_eq!(held.next("slice")["id"], "b");
    assert_eq!(held.next("slice")["id"], "c");
    assert_eq!(held.exit_code(), 0);
    for during_slice in [false, true] {
        let mut held = Held::start(&load);
        if during_slice {
            held.send("go a 1 0 60000");
            held.wait_for_load();
        }
        signal(held.child.id(), Signal::SIGTERM);
        if during_slice {
            held.next("failed");
        }
        assert_eq!(held.exit_code(), 130);
    }
}

#[test]
fn options_of_one_measurement_are_refused_beside_slices() {
    let load = "oltp run --workload oltp_point_select --slices";
    for rest in [
        "--duration 3s",
        "--warmup 3s",
        "--interval 2s",
        "--hdr x.hlog",
        "--json -",
        "--openmetrics x.prom",
    ] {
        let refused = plain(&format!("{load} {rest}"));
        assert_eq!(refused.code, 2, "{rest}: {}", refused.stderr);
        let option = rest.split(' ').next().unwrap();
        assert!(
            refused.stderr.contains(option) && refused.stderr.contains("--slices"),
            "{rest}: {}",
            refused.stderr
        );
    }
    for (command, option) in [
        ("kv run --slices --preset memaslap", "--preset"),
        ("kv run --slices --operations 100", "--operations"),
        ("tpcc run --slices --duration 3s", "--duration"),
        ("oltp run --workload oltp_point_select --server-pid 1", "--slices"),
    ] {
        let refused = plain(command);
        assert_eq!(refused.code, 2, "{command}: {}", refused.stderr);
        assert!(refused.stderr.contains(option), "{command}: {}", refused.stderr);
    }
}
