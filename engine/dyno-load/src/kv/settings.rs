//! What a run is to do: resolved once, then frozen. Made by cli/, read by everything else.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use dyno_kv::Protocol;
use dyno_loop::LoadSettings;

use super::workload::Workload;

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
    /// Which protocol to speak.
    pub protocol: Protocol,
    /// How the load runs.
    pub load: LoadSettings,
    /// Operations in flight on a connection at a time.
    pub depth: u32,
    /// Keys, values and operations.
    pub workload: Workload,
}

impl KvSettings {
    /// Time for a connection to be made and to give its first answer.
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_nanos(self.load.connect_timeout_ns)
    }
}
