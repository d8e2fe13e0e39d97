//! `dynoload … --slices` with its standard input and output in a test's hands.
#![allow(dead_code)] // each test program uses its own part

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use dyno_mysql::blocking::Client;
use dyno_patience::{wait_until, Patience};
use serde_json::Value;

use crate::common::{plain, PrivateServer, PROGRAM};

/// How long any record may take, s.
const LIMIT_S: f64 = 60.0;

/// A load on hold, its connections ready.
pub struct Held {
    pub child: Child,
    pub header: Value,
    pub ready: Value,
    input: Option<ChildStdin>,
    records: Receiver<Value>,
}

impl Held {
    pub fn start(arguments: &str) -> Held {
        let mut child = Command::new(PROGRAM)
            .args(arguments.split_ascii_whitespace())
            .arg("--slices")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, records) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                let record = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(record).is_err() {
                    break;
                }
            }
        });
        let mut held = Held {
            input: child.stdin.take(),
            child,
            header: Value::Null,
            ready: Value::Null,
            records,
        };
        held.header = held.next("header");
        held.ready = held.next("ready");
        held
    }

    pub fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next record, which must have this name.
    pub fn next(&mut self, name: &str) -> Value {
        let Some(record) = self.receive() else {
            let _ = self.child.kill();
            let mut said = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("no record {name}; stderr: {said}");
        };
        assert_eq!(record["record"], name, "{record}");
        record
    }

    /// None: there is none any more, or it takes too long.
    fn receive(&self) -> Option<Value> {
        let patience = Patience::seconds(LIMIT_S);
        loop {
            match self.records.recv_timeout(Duration::from_millis(100)) {
                Ok(record) => return Some(record),
                Err(RecvTimeoutError::Timeout) if !patience.is_over() => {}
                Err(_) => return None,
            }
        }
    }

    /// Runs a slice. Its length is the mean of the workers' times between the limits of its counted part: one that
    /// starts or ends late on a busy host changes it, but never beyond the time from the command to the record. Where
    /// all waited for a CPU until the counted part was over, it is 0.
    pub fn slice(&mut self, command: &str) -> Value {
        let sent = Instant::now();
        self.send(command);
        let slice = self.next("slice");
        let (length_s, passed_s) = (number(&slice, "/length_s"), sent.elapsed().as_secs_f64());
        assert!(length_s >= 0.0 && length_s <= passed_s, "of {passed_s} s: {slice}");
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(slice["id"], words[1]);
        assert_eq!(slice["stream"].to_string(), words[2]);
        slice
    }

    /// A slice that shows what is looked at. On a busy host workers may miss a part of a slice, or all of it: then the
    /// next one is twice as long, with another stream. Fails where none of six is so.
    pub fn slice_that(
        &mut self,
        stream: u32,
        washout_ms: u32,
        measure_ms: u32,
        mut is_so: impl FnMut(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        for round in 0..6 {
            let (washout_ms, measure_ms) = (washout_ms << round, measure_ms << round);
            let stream = stream + 1000 * round;
            last = self.slice(&format!("go s {stream} {washout_ms} {measure_ms}"));
            if is_so(&last) {
                return last;
            }
        }
        panic!("no slice was as it has to be, nor the last: {last}");
    }

    /// A slice in which all that was planned began. A host that stands still at its end leaves out the last: then the
    /// same slice again. Fails where none of six is so.
    pub fn slice_of_whole_plan(&mut self, command: &str) -> Value {
        (0..6)
            .map(|_| self.slice(command))
            .find(|slice| count(slice, "/end/not_started") == 0)
            .expect("all that was planned begins in one of six slices")
    }

    /// A slice with transactions in washout and counted part.
    pub fn slice_with_load(&mut self, stream: u32, washout_ms: u32, measure_ms: u32) -> Value {
        self.slice_that(stream, washout_ms, measure_ms, |slice| {
            let counted = count(slice, "/counts/transactions");
            counted > 0 && counted < transactions(slice)
        })
    }

    /// The exit code, after there is no record left.
    pub fn exit_code(&mut self) -> i32 {
        if let Some(record) = self.receive() {
            panic!("a record too many: {record}");
        }
        self.child.wait().unwrap().code().unwrap()
    }

    /// Ends the load with `end`.
    pub fn end(mut self) {
        self.send("end");
        assert_eq!(self.exit_code(), 0);
    }

    /// Ends it by the end of the input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// The same once all threads are asleep after a slice.
    pub fn settled_activity(&self) -> (u64, u64) {
        let mut before = (0, 0);
        wait_until(LIMIT_S, "all threads sleep", || {
            let seen = std::mem::replace(&mut before, self.activity());
            std::thread::sleep(Duration::from_millis(50));
            seen == before && self.statuses().iter().all(|status| status.contains("State:\tS"))
        });
        before
    }

    /// Waits until a closed loop of load is under way: until it has used a tenth of a second of CPU time.
    pub fn wait_for_load(&self) {
        let before = cpu_ticks(self.child.id());
        wait_until(LIMIT_S, "the load begins", || cpu_ticks(self.child.id()) >= before + 10);
    }

    /// proc_pid_status(5) of each thread.
    fn statuses(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        tasks
            .map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap())
            .collect()
    }

    /// Clock ticks of CPU that the program has used, and how often its threads have gone to sleep.
    pub fn activity(&self) -> (u64, u64) {
        let mut switches = 0;
        for status in self.statuses() {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            switches += line.unwrap().trim().parse::<u64>().unwrap();
        }
        (cpu_ticks(self.child.id()), switches)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It has ended, or a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// User and system time of a process, in clock ticks (proc_pid_stat(5), fields 14 and 15).
pub fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Every counter that is compared is equal on both sides, and there are some. What a transaction did that was then
/// restarted is in the server's counters alone.
pub fn assert_reconciled(slice: &Value, names: &[&str]) {
    let checks = slice["counters"].as_array().unwrap();
    for name in names {
        assert!(checks.iter().any(|check| check["counter"] == *name), "{name}: {slice}");
    }
    for check in checks {
        assert_eq!(check["difference_pct"], 0.0, "{check} in {slice}");
        if slice["whole_counts"]["ignored_errors"] == 0 {
            assert_eq!(check["server"], check["client"], "{check} in {slice}");
        }
        assert!(check["client"].as_u64().unwrap() > 0, "{check}");
        let growth = &slice["server_counters"][check["counter"].as_str().unwrap()];
        assert_eq!(*growth, check["server"], "{slice}");
    }
}

/// Transactions of the washout and the counted part.
pub fn transactions(slice: &Value) -> u64 {
    count(slice, "/whole_counts/transactions")
}

pub fn count(record: &Value, path: &str) -> u64 {
    let value = record.pointer(path).unwrap_or_else(|| panic!("no {path} in {record}"));
    value.as_u64().unwrap_or_else(|| panic!("{path} is {value}"))
}

pub fn number(record: &Value, path: &str) -> f64 {
    let value = record.pointer(path).unwrap_or_else(|| panic!("no {path} in {record}"));
    value.as_f64().unwrap_or_else(|| panic!("{path} is {value}"))
}

/// How the table of such a server is made.
pub const TABLE: &str = "--table-size 1000";

/// A server of its own with that table, and its socket.
pub fn server(name: &str, test: &str) -> Option<(PrivateServer, String)> {
    let server = PrivateServer::start(name, test)?;
    let socket = server.socket();
    let made = plain(&format!("oltp prepare --socket {socket} {TABLE}"));
    assert_eq!(made.code, 0, "{}", made.stderr);
    Some((server, socket))
}

/// Connections of the load: the first is the one that reads the counters.
pub fn connection_ids(control: &mut Client) -> Vec<String> {
    let question = "SELECT id FROM information_schema.processlist WHERE db = 'sbtest' ORDER BY id";
    let answer = control.query(question).unwrap();
    answer.texts().into_iter().map(|row| row[0].clone().unwrap()).collect()
}
