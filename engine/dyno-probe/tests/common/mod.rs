//! The real program, steered by hand, on a copy of the fake host.

#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::Value;

/// Folder of the fixtures.
pub fn fixtures() -> PathBuf {
    Path::new("tests/fixtures").to_owned()
}

/// Copies files over those that are there, in place: the probe holds them open, as it holds those of /proc.
pub fn overlay(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            overlay(&entry.path(), &target);
        } else {
            fs::write(&target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// A running probe.
pub struct Probe {
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Probe {
    /// Starts the program.
    pub fn start<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dynoprobe"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Starts it on a fake host in `root`, with a sample only when it is asked for.
    pub fn on_fake_host(root: &Path, more: &[&str]) -> Self {
        let mut arguments = vec![
            "--interval-ms".to_owned(),
            "0".to_owned(),
            format!("--proc-root={}", root.join("proc").display()),
            format!("--sys-root={}", root.join("sys").display()),
        ];
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        Self::start(&arguments)
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// The next record.
    pub fn record(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the stream ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Records up to and with the next one of that kind.
    pub fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut records = Vec::new();
        loop {
            records.push(self.record());
            if records.last().unwrap()["record"] == kind {
                return records;
            }
        }
    }

    /// Whether it ended with success.
    pub fn succeeded(mut self) -> bool {
        self.end().success()
    }

    fn end(&mut self) -> ExitStatus {
        self.input = None;
        // It must not find its output closed before its own end.
        let _ = self.output.read_to_end(&mut Vec::new());
        self.child.wait().unwrap()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.end();
    }
}
