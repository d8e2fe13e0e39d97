//! Short connections that use up the local ports: the warning beforehand, and the cause when there are none left.

mod common;

use std::iter::from_fn;
use std::net::TcpStream;
use std::process::Command;

use common::freeze::aloud;
use common::{plain, NullServer, Run};
use nix::sched::{unshare, CloneFlags};

const FEW_PORTS: &str = "ip link set lo up && cd /proc/sys/net/ipv4 && echo 20000 20199 >ip_local_port_range && \
                         echo 20198-20199 >ip_local_reserved_ports && echo 0 >tcp_tw_reuse";

/// A server in a network namespace with 198 local ports, which is this thread's alone.
fn server_with_few_ports(test: &str) -> Option<NullServer> {
    let made = unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string());
    let set = made.and_then(|()| match Command::new("sh").args(["-c", FEW_PORTS]).output() {
        Ok(done) if done.status.success() => Ok(()),
        other => Err(format!("{other:?}")),
    });
    if let Err(error) = set {
        aloud(&format!("NOT RUN: {test}: a network namespace: {error}"));
        return None;
    }
    Some(NullServer::start())
}

fn load(server: &NullServer, rest: &str) -> Run {
    plain(&format!(
        "oltp run --workload connect --connections 4 --warmup 0s --quiet --any-server --port {} {rest}",
        server.port()
    ))
}

#[test]
fn connections_without_a_free_local_port_end_with_the_cause() {
    let test = "connections_without_a_free_local_port_end_with_the_cause";
    let Some(server) = server_with_few_ports(test) else {
        return;
    };
    let facts = "198 (net.ipv4.ip_local_port_range is 20000 to 20199, 2 of them reserved, net.ipv4.tcp_tw_reuse is 0)";
    let first = load(&server, "--duration 20s");
    assert_eq!(first.code, 1, "{}", first.stderr);
    let warning =
        "warning: workload connect: at only 200 a second on each connection, 800 new connections a second need 16000";
    for words in [warning, "no local port is free (EADDRNOTAVAIL)", facts] {
        assert!(first.stderr.contains(words), "{}", first.stderr);
    }
    assert!(first.stderr.matches(facts).count() >= 2, "{}", first.stderr);
    assert!(!first.stderr.contains("--ignore-errors"), "{}", first.stderr);
    // The next program's first connection, where others have the last ports.
    let others: Vec<TcpStream> = from_fn(|| TcpStream::connect(&server.place).ok()).collect();
    let second = load(&server, "--duration 20s");
    drop(others);
    assert_eq!(second.code, 3, "{}", second.stderr);
    for words in [
        "cannot connect to 127.0.0.1:",
        "no local port is free (EADDRNOTAVAIL)",
        facts,
    ] {
        assert!(second.stderr.contains(words), "{}", second.stderr);
    }
    assert!(!second.stderr.contains("check --host"), "{}", second.stderr);
}

#[test]
fn a_rate_that_the_ports_suffice_for_is_not_warned_of() {
    let Some(server) = server_with_few_ports("a_rate_that_the_ports_suffice_for_is_not_warned_of") else {
        return;
    };
    for (rest, is_warned) in [("--rate 40", false), ("--think-time 1s", false), ("--rate 400", true)] {
        let run = load(&server, &format!("--duration 1s {rest}"));
        assert_eq!(run.stderr.contains("local ports"), is_warned, "{}", run.stderr);
    }
}
