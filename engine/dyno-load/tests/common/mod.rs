//! What the tests share: the program, the null server, real servers when there are some, sysbench when it is there.
#![allow(dead_code)] // each test program uses its own part

pub mod freeze;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dyno_mysql::blocking::Client;
use dyno_mysql::{Endpoint, Options};
use dyno_patience::{wait_until, Patience};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_dynoload");

/// The value of a variable that a test needs; says aloud when the test cannot run without.
pub fn variable(name: &str, test: &str) -> Option<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    if value.is_none() {
        freeze::aloud(&format!("NOT RUN: {test}: {name} is not set"));
    }
    value
}

/// Sends a signal to a process that a test started. After SIGSTOP none of its threads runs any more: on a busy host the
/// kernel stops each one only when it would run next.
pub fn signal(id: u32, signal: Signal) {
    // A process that has ended by itself is what the sender wanted, or the test fails by another assertion.
    let sent = kill(Pid::from_raw(id as i32), signal);
    if signal == Signal::SIGSTOP && sent.is_ok() {
        wait_until(10.0, "a stopped process", || has_stopped(id));
    }
}

fn has_stopped(id: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else {
        return true;
    };
    let stopped = |thread: PathBuf| {
        let state = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
        state
            .rsplit(") ")
            .next()
            .is_none_or(|rest| !rest.starts_with(['R', 'S', 'D']))
    };
    threads.flatten().all(|thread| stopped(thread.path()))
}

/// `dynoload null` in a process of its own.
pub struct NullServer {
    pub child: Child,
    pub place: String,
}

impl NullServer {
    pub fn start() -> NullServer {
        let mut child = Command::new(PROGRAM)
            .arg("null")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut place = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut place)
            .unwrap();
        NullServer {
            child,
            place: place.trim().to_string(),
        }
    }

    pub fn port(&self) -> &str {
        self.place.rsplit(':').next().unwrap()
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::SIGCONT);
        signal(self.child.id(), Signal::SIGTERM);
        self.child.wait().unwrap();
    }
}

/// A private server that a test may freeze and kill, started by DYNO_TEST_SERVER_COMMAND: given a folder, the command
/// leaves a running server with its socket at s.sock and its process id in the file pid.
pub struct PrivateServer {
    pub folder: PathBuf,
    pub id: u32,
}

impl PrivateServer {
    pub fn start(name: &str, test: &str) -> Option<PrivateServer> {
        Self::start_with(name, test, &[])
    }

    /// One with more options.
    pub fn start_with(name: &str, test: &str, options: &[&str]) -> Option<PrivateServer> {
        let command = variable("DYNO_TEST_SERVER_COMMAND", test)?;
        let folder = std::env::temp_dir().join(format!("dynoload-test-{name}-{}", std::process::id()));
        let status = Command::new(&command)
            .arg(&folder)
            .args(options)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{command} {} failed", folder.display());
        let id = std::fs::read_to_string(folder.join("pid"))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        Some(PrivateServer { folder, id })
    }

    pub fn socket(&self) -> String {
        self.folder.join("s.sock").display().to_string()
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        signal(self.id, Signal::SIGCONT);
        signal(self.id, Signal::SIGKILL);
        // Its parent, which is not this process, may never wait for it.
        let patience = Patience::seconds(10.0);
        while Path::new(&format!("/proc/{}", self.id)).exists() && !patience.is_over() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// Whether this is `./test --all`, which loads servers for longer.
pub fn is_everything() -> bool {
    std::env::var("MYDYNO_TEST_ALL").is_ok_and(|value| value == "1")
}

/// A run's exit code, table, messages, and JSON records.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub records: Vec<Value>,
}

impl Run {
    pub fn last(&self) -> &Value {
        self.records
            .last()
            .unwrap_or_else(|| panic!("no record; stderr: {}", self.stderr))
    }

    pub fn count(&self, path: &str) -> u64 {
        let value = self
            .last()
            .pointer(path)
            .unwrap_or_else(|| panic!("no {path} in {}", self.last()));
        value.as_u64().unwrap_or_else(|| panic!("{path} is {value}"))
    }

    pub fn number(&self, path: &str) -> f64 {
        let value = self
            .last()
            .pointer(path)
            .unwrap_or_else(|| panic!("no {path} in {}", self.last()));
        value.as_f64().unwrap_or_else(|| panic!("{path} is {value}"))
    }
}

/// The command line in words, with `--json -`.
pub fn command(arguments: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments.split_ascii_whitespace()).args(["--json", "-"]);
    command
}

/// A run under way.
pub struct Running {
    pub child: Child,
    output: BufReader<ChildStdout>,
    /// What was read of it.
    read: Vec<u8>,
}

impl Running {
    pub fn spawn(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Running {
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            read: Vec::new(),
        }
    }

    /// One that has written its header: it connects now, and then the load begins.
    pub fn start(command: &mut Command) -> Running {
        let mut running = Self::spawn(command);
        running.wait_for_record(|record| record["record"] == "header");
        running
    }

    /// Waits for the first interval of the measurement.
    pub fn wait_for_measurement(&mut self) {
        self.wait_for_interval(|_| true);
    }

    /// Waits until its intervals of the measurement have so many transactions.
    pub fn wait_for_transactions(&mut self, count: u64) {
        let mut seen = 0;
        self.wait_for_interval(|interval| {
            seen += interval["counts"]["transactions"].as_u64().unwrap();
            seen >= count
        });
    }

    /// Waits for an interval of the measurement that is so, or for the end.
    pub fn wait_for_interval(&mut self, mut is_so: impl FnMut(&Value) -> bool) {
        self.wait_for_record(|record| record["phase"] == "measure" && is_so(record));
    }

    fn wait_for_record(&mut self, mut is_so: impl FnMut(&Value) -> bool) {
        loop {
            let before = self.read.len();
            let count = self.output.read_until(b'\n', &mut self.read).unwrap();
            if count == 0 || is_so(&serde_json::from_slice(&self.read[before..]).unwrap()) {
                return;
            }
        }
    }

    /// Its result when it has ended.
    pub fn end(mut self) -> Run {
        self.read.extend_from_slice(self.output.buffer());
        self.child.stdout = Some(self.output.into_inner());
        let mut output = self.child.wait_with_output().unwrap();
        output.stdout.splice(..0, self.read);
        parse(output)
    }
}

/// A port that is free, and that no client gets meanwhile: the kernel takes those from 32768 on (ip(7)).
pub fn free_port() -> u16 {
    /// How many ports this program has looked at.
    static LOOKED_AT: AtomicU32 = AtomicU32::new(0);
    // Programs that look at the same time begin at different places.
    let first = std::process::id().wrapping_mul(97);
    loop {
        let offset = first.wrapping_add(LOOKED_AT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        let port = 10_000 + offset as u16;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The run ended, and nothing but the speed of this host makes it invalid.
pub fn assert_ended(result: &Run, what: &str) {
    if result.code == 0 {
        return;
    }
    assert_eq!(result.code, 4, "{what}: {}", result.stderr);
    for finding in result.last()["verdict"]["findings"].as_array().unwrap() {
        let rule = finding["rule"].as_str().unwrap();
        let is_slow = ["lag", "cpu", "cpu_wait", "network"].contains(&rule);
        assert!(is_slow || finding["level"] != "INVALID", "{what}: {finding}");
    }
}

/// The run ended, and nothing but the speed of this host is against its figures.
pub fn assert_sound(result: &Run, what: &str) {
    assert!(matches!(result.code, 0 | 4), "{what}: {}", result.stderr);
    for finding in result.last()["verdict"]["findings"].as_array().unwrap() {
        let rule = finding["rule"].as_str().unwrap();
        let is_slow = ["lag", "cpu", "cpu_wait", "network", "stalled", "paused"].contains(&rule);
        assert!(is_slow || finding["level"] == "VALID", "{what}: {finding}");
    }
}

/// Runs the program to its end.
pub fn run(arguments: &str) -> Run {
    parse(command(arguments).output().unwrap())
}

pub fn parse(output: Output) -> Run {
    let stdout = String::from_utf8(output.stdout).unwrap();
    let records = stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout,
        stderr,
        records,
    }
}

/// Runs the program without `--json`.
pub fn plain(arguments: &str) -> Run {
    parse(
        Command::new(PROGRAM)
            .args(arguments.split_ascii_whitespace())
            .output()
            .unwrap(),
    )
}

/// A client of root at a socket.
pub fn client(socket: &str) -> Client {
    Client::connect(&Options::new(Endpoint::unix(socket), "root"), Duration::from_secs(30)).unwrap()
}
