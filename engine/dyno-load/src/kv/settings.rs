//! What a run is to do: resolved once, then frozen. Made by cli/, read by everything else.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use dyno_kv::Protocol;

use super::workload::Workload;
use crate::run::socket::Address;
use crate::run::{IgnoredErrors, Overload, Pace, Priority, Think};

/// Where the server listens, in the user's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Host and port.
    Tcp(String, u16),
    /// Path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(formatter, "{host}:{port}"),
            Self::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// One run.
#[derive(Debug)]
pub struct KvSettings {
    /// What the run is called in results: kv, fill, memslap_set …
    pub name: String,
    /// Where the server listens.
    pub endpoint: Endpoint,
    /// The same, name resolved.
    pub address: Address,
    /// Which protocol to speak.
    pub protocol: Protocol,
    /// Times and shares.
    pub pace: Pace,
    /// Operations under way on a connection at a time.
    pub depth: u32,
    /// Operations after which the run ends, in place of the time; closed loop only.
    pub operations: Option<u64>,
    /// What to ask.
    pub workload: Workload,
    /// What happens to planned operations that are late.
    pub overload: Overload,
    /// The pause in a closed loop.
    pub think: Think,
    /// Errors that only cost their operation.
    pub ignored_errors: IgnoredErrors,
    /// At which priority the workers run.
    pub priority: Priority,
    /// Whether the pacer burns CPU for the last 50 µs before a planned time.
    pub spin: bool,
    /// Time for all connections to be ready.
    pub connect_timeout_ns: u64,
    /// When the last worker saw its last reply, where operations end the run; 0 before.
    pub ended_ns: Arc<AtomicU64>,
}
