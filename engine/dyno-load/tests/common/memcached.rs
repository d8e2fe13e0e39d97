//! A real memcached, started by the program that DYNO_TEST_MEMCACHED names.
#![allow(dead_code)] // each test program uses its own part

use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use dyno_patience::wait_until;
use nix::sys::signal::Signal;

use crate::common::{free_port, signal, variable};

/// A memcached of one test's own.
pub struct Memcached {
    pub child: Child,
    pub port: u16,
    socket: Option<PathBuf>,
}

impl Memcached {
    pub fn start(test: &str, more: &[&str]) -> Option<Memcached> {
        Self::start_at(test, free_port(), more)
    }

    pub fn start_at(test: &str, port: u16, more: &[&str]) -> Option<Memcached> {
        let program = variable("DYNO_TEST_MEMCACHED", test)?;
        let mut command = Command::new(program);
        command.args([
            "-l",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-U",
            "0",
            "-t",
            "1",
            "-m",
            "256",
        ]);
        if is_root() {
            command.args(["-u", "nobody"]);
        }
        let child = command.args(more).spawn().unwrap();
        let server = Memcached {
            child,
            port,
            socket: None,
        };
        wait_until(20.0, "memcached answers", || answers(port));
        Some(server)
    }

    /// One that listens on a Unix socket.
    pub fn start_unix(test: &str) -> Option<Memcached> {
        let program = variable("DYNO_TEST_MEMCACHED", test)?;
        let folder = std::env::temp_dir().join(format!("dynoload-kv-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("m.sock");
        let mut command = Command::new(program);
        command.arg("-s").arg(&socket).args(["-a", "0700", "-t", "1"]);
        if is_root() {
            command.args(["-u", "root"]);
        }
        let child = command.spawn().unwrap();
        wait_until(20.0, "memcached answers at its socket", || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        Some(Memcached {
            child,
            port: 0,
            socket: Some(socket),
        })
    }

    pub fn place(&self) -> String {
        match &self.socket {
            Some(path) => format!("--socket {}", path.display()),
            None => format!("--port {}", self.port),
        }
    }

    /// Waits until the server has counted so many gets.
    pub fn wait_for_gets(&self, count: u64) {
        wait_until(60.0, "memcached has counted these gets", || gets(self.port) >= count);
    }

    pub fn kill(&mut self) {
        signal(self.child.id(), Signal::SIGKILL);
        self.child.wait().unwrap();
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::SIGCONT);
        signal(self.child.id(), Signal::SIGKILL);
        // Killed already by a test, or now.
        let _ = self.child.wait();
        if let Some(folder) = self.socket.as_deref().and_then(std::path::Path::parent) {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}

/// Whether a memcached answers. That somebody listens is not enough: a child of another test that is being started has the
/// socket that found the port until its program runs.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        socket.write_all(b"version\r\n")?;
        let mut answer = vec![0; 7];
        socket.read_exact(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer == b"VERSION")
}

/// The server's own counter `cmd_get`.
fn gets(port: u16) -> u64 {
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(b"stats\r\nquit\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find_map(|line| line.strip_prefix("STAT cmd_get "));
    line.unwrap_or_else(|| panic!("no cmd_get in {answer}"))
        .trim()
        .parse()
        .unwrap()
}

/// memcached will not run as root without being told as whom.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}
