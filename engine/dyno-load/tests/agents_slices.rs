//! Slices and memcached's operations from agents, which are reached by Unix sockets.
//!
//! DYNO_TEST_MEMCACHED is a memcached program.

mod common;
#[path = "common/held.rs"]
mod held;
#[path = "common/memcached.rs"]
mod memcached;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, Receiver};

use common::{command, parse, signal, NullServer, PROGRAM};
use held::{assert_reconciled, count, number, transactions, Held};
use memcached::Memcached;
use nix::sys::signal::Signal;

/// A socket that leads to an agent for each connection.
struct Door {
    path: PathBuf,
    /// The agents' processes.
    pids: Receiver<u32>,
}

impl Door {
    fn open(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dynoload-{name}-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let (started, pids) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut child = Command::new(PROGRAM)
                    .arg("agent")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                started.send(child.id()).unwrap();
                let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
                let from = stream.try_clone().unwrap();
                std::thread::spawn(move || pump(from, input));
                std::thread::spawn(move || {
                    pump(output, stream.try_clone().unwrap());
                    let _ = stream.shutdown(Shutdown::Both);
                    child.wait().unwrap();
                });
            }
        });
        Self { path, pids }
    }

    fn option(&self) -> String {
        format!("--agent unix:{}", self.path.display())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn pump(mut from: impl Read, mut to: impl Write) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
            break;
        }
    }
}

#[test]
fn agents_load_in_slices_and_hold_in_between() {
    let (server, door) = (NullServer::start(), Door::open("slices"));
    let port = server.port();
    let mut held = Held::start(&format!(
        "oltp run --any-server --workload oltp_read_only --port {port} --connections 6 --server-pid {} {} {}",
        std::process::id(),
        door.option(),
        door.option()
    ));
    assert_eq!(held.ready["connections"], 6);
    for (stream, washout_ms) in [(1, 300), (2, 0)] {
        let slice = held.slice_that(stream, washout_ms, 300, |slice| {
            count(slice, "/counts/transactions") > 0 && number(slice, "/length_s") > 0.1
        });
        // What was under way at the end counts by what it has waited where the server, or this host, stood still.
        let ended = count(&slice, "/counts/transactions");
        let counted = count(&slice, "/response/count");
        assert!(
            (ended..=ended + count(&slice, "/end/in_flight_at_hold")).contains(&counted),
            "{slice}"
        );
        assert!(number(&slice, "/cpu/user_us") + number(&slice, "/cpu/system_us") > 0.0);
        // Read by this side, where the server is.
        assert!(
            slice["server_cpu_us"].is_f64() && slice["host_cpu"].is_object(),
            "{slice}"
        );
    }
    let pid = door.pids.recv().unwrap();
    signal(pid, Signal::SIGKILL);
    held.send("go s3 3 0 300");
    let failed = held.next("failed");
    let message = failed["message"].as_str().unwrap();
    assert!(
        message.contains("agent 'unix:") && message.contains("closed"),
        "{message}"
    );
    assert_eq!(held.exit_code(), 1);
}

#[test]
fn a_socket_without_a_listener_is_refused() {
    let refused = parse(
        command("oltp run --any-server --port 1 --workload connect --agent unix:/nowhere")
            .output()
            .unwrap(),
    );
    assert_ne!(refused.code, 0);
}

#[test]
fn agents_do_with_memcached_what_it_counts() {
    let test = "agents_do_with_memcached_what_it_counts";
    let Some(server) = Memcached::start(test, &[]) else {
        return;
    };
    let door = Door::open("kv");
    let load = format!(
        "kv run --port {} --connections 6 --keys 500 --fill 100% --ratio 80:20 --verify 100% {} {}",
        server.port,
        door.option(),
        door.option()
    );
    let result = parse(command(&format!("{load} --quiet --duration 1s")).output().unwrap());
    assert!(matches!(result.code, 0 | 4), "{}", result.stderr);
    assert_eq!(result.last()["agents"].as_array().unwrap().len(), 2);
    assert!(result.count("/kv/counts/verified") > 0);
    assert_eq!(result.count("/kv/counts/wrong_values"), 0);
    assert_eq!(result.count("/kv/counts/get_misses"), 0);
    for check in result.last()["reconciliation"].as_array().unwrap() {
        assert_eq!(check["server"], check["client"], "{check}");
    }
    let mut held = Held::start(&load);
    let slice = held.slice_that(1, 100, 300, |slice| transactions(slice) > 100);
    assert_reconciled(&slice, &["cmd_get", "cmd_set"]);
    held.end();
    let refused = parse(
        command(&format!("kv run --preset memslap {}", door.option()))
            .output()
            .unwrap(),
    );
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--preset"), "{}", refused.stderr);
}
