//! Servers that accept and then do not, or hardly, speak; and commands that start no agent.
//!
//! Short connections that use up the local ports: the warning beforehand, and the cause when there are none left.

mod common;

use std::io::{Read as _, Write as _};
use std::iter::from_fn;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use common::freeze::aloud;
use common::{plain, NullServer, Run};
use dyno_patience::Patience;
use nix::sched::{unshare, CloneFlags};

/// What a command may take beyond its own time limit, s.
const SLACK_S: f64 = 8.0;

/// Serves every connection with `serve`, each on a thread of its own; the port.
fn fake_server(serve: impl Fn(usize, TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(number, stream.unwrap()));
        }
    });
    port
}

/// Accepts, and never speaks.
fn silent_server() -> u16 {
    fake_server(|_, mut stream| while stream.read(&mut [0; 512]).is_ok_and(|count| count > 0) {})
}

/// The beginning of MySQL's packet of 60,000 bytes.
const GREETING: &[u8] = &[0x60, 0xea, 0, 0, 10];
/// The beginning of memcached's answer to what a client asks first.
const VERSION: &[u8] = b"VERSION 1.";

/// Sends the beginning of an answer, then a byte every `pause`.
fn dripping_server(beginning: &'static [u8], pause: Duration) -> u16 {
    fake_server(move |_, mut stream| {
        let mut bytes = beginning;
        while stream.write_all(bytes).is_ok() {
            std::thread::sleep(pause);
            bytes = b"8";
        }
    })
}

/// Passes the first connection on to `target`; the others get nothing.
fn server_for_one(target: String) -> u16 {
    fake_server(move |number, mut stream| {
        if number > 0 {
            while stream.read(&mut [0; 512]).is_ok_and(|count| count > 0) {}
            return;
        }
        let server = TcpStream::connect(&target).unwrap();
        let (mut from, mut to) = (server.try_clone().unwrap(), stream.try_clone().unwrap());
        // Either side may end first.
        std::thread::spawn(move || std::io::copy(&mut from, &mut to).ok());
        std::io::copy(&mut stream, &mut &server).ok();
    })
}

/// Runs a command; its result must come in time.
fn timed(arguments: &str, limit: Duration) -> Run {
    let patience = Patience::seconds(limit.as_secs_f64() + SLACK_S);
    let start = Instant::now();
    let run = plain(arguments);
    let elapsed = start.elapsed();
    assert!(
        elapsed >= limit,
        "{arguments}: gave up after {elapsed:?}: {}",
        run.stderr
    );
    patience.check(arguments);
    assert!(!run.stderr.contains("temporarily unavailable"), "{}", run.stderr);
    run
}

const SQL_COMMANDS: [&str; 8] = [
    "oltp prepare",
    "oltp verify",
    "oltp run --workload oltp_point_select",
    "oltp cleanup",
    "tpcc prepare",
    "tpcc run",
    "tpcc check",
    "tpcc cleanup",
];
const KV_COMMANDS: [&str; 3] = ["kv prepare", "kv run", "kv stats"];

/// Runs commands at the same time. Each must say after `limit` that there was no answer.
fn assert_given_up(commands: impl IntoIterator<Item = (String, u16)>, limit: Duration) {
    std::thread::scope(|scope| {
        for (command, port) in commands {
            scope.spawn(move || {
                let milliseconds = limit.as_millis();
                let run = timed(
                    &format!("{command} --port {port} --connect-timeout {milliseconds}ms"),
                    limit,
                );
                assert_eq!(run.code, 3, "{command}: {}", run.stderr);
                let expected = format!("no answer from 127.0.0.1:{port} within {} s", limit.as_secs_f64());
                assert!(run.stderr.contains(&expected), "{command}: {}", run.stderr);
            });
        }
    });
}

#[test]
fn a_server_that_accepts_and_never_speaks_is_given_up_by_every_command() {
    let port = silent_server();
    let commands = SQL_COMMANDS.iter().chain(&KV_COMMANDS);
    assert_given_up(
        commands.map(|command| (command.to_string(), port)),
        Duration::from_millis(1500),
    );
}

#[test]
fn bytes_that_drip_do_not_extend_the_time() {
    let dripping = [400, 70].into_iter().flat_map(|pause_ms| {
        [
            (SQL_COMMANDS[0], GREETING),
            (SQL_COMMANDS[2], GREETING),
            (SQL_COMMANDS[6], GREETING),
            (KV_COMMANDS[1], VERSION),
        ]
        .map(|(command, beginning)| {
            let port = dripping_server(beginning, Duration::from_millis(pause_ms));
            (command.to_string(), port)
        })
    });
    assert_given_up(dripping, Duration::from_millis(1500));
}

#[test]
fn the_connections_of_the_load_have_the_same_time() {
    let server = NullServer::start();
    let port = server_for_one(server.place.clone());
    let load = "oltp run --any-server --workload oltp_point_select --connections 3 --duration 20s";
    let run = timed(
        &format!("{load} --port {port} --connect-timeout 1s"),
        Duration::from_secs(1),
    );
    assert_eq!(run.code, 1, "{}", run.stderr);
    let expected = format!("no answer from 127.0.0.1:{port} within 1 s (0 of 3 connections were ready)");
    assert!(run.stderr.contains(&expected), "{}", run.stderr);
}

#[test]
fn a_command_that_starts_no_agent_is_refused_soon() {
    let server = NullServer::start();
    let load = format!(
        "oltp run --any-server --workload oltp_point_select --port {} --duration 20s",
        server.port()
    );
    // What is said to cat comes back: that is no greeting.
    let run = timed(&format!("{load} --agent cat"), Duration::ZERO);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("dynoload agent"), "{}", run.stderr);
    let run = common::parse(
        std::process::Command::new(common::PROGRAM)
            .args(load.split(' '))
            .args(["--connect-timeout", "1s", "--agent", "sleep 60"])
            .output()
            .unwrap(),
    );
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("does not answer within 1 s"), "{}", run.stderr);
}

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

fn load_with_few_ports(server: &NullServer, rest: &str) -> Run {
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
    let first = load_with_few_ports(&server, "--duration 20s");
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
    let second = load_with_few_ports(&server, "--duration 20s");
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
        let run = load_with_few_ports(&server, &format!("--duration 1s {rest}"));
        assert_eq!(run.stderr.contains("local ports"), is_warned, "{}", run.stderr);
    }
}
