//! Servers that accept and then do not, or hardly, speak; and commands that start no agent.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::{plain, NullServer, Run};
use dyno_patience::Patience;

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
