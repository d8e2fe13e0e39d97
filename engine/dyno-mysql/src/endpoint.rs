//! Where the server listens.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A host name or address, and a port.
    Tcp {
        /// Name, IPv4 or IPv6 address (without brackets).
        host: String,
        /// 3306 by custom.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// TCP to `host` and `port`.
    pub fn tcp(host: impl Into<String>, port: u16) -> Endpoint {
        Endpoint::Tcp {
            host: host.into(),
            port,
        }
    }

    /// A Unix socket.
    pub fn unix(path: impl AsRef<Path>) -> Endpoint {
        Endpoint::Unix(path.as_ref().to_path_buf())
    }

    /// Whether nobody but this machine's own processes can read what passes.
    pub fn is_local(&self) -> bool {
        match self {
            Endpoint::Unix(_) => true,
            Endpoint::Tcp { host, .. } => {
                host == "localhost"
                    || host
                        .parse::<std::net::IpAddr>()
                        .is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
