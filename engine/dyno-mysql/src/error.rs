//! Everything that can go wrong, by who must act.
//!
//! ```text
//! Error
//! ├── Server     the server refused: its own code, SQL state and message
//! ├── Protocol   bytes that the protocol does not allow (or a limit of this client)
//! ├── Setup      the options cannot be met: TLS files, cipher names
//! ├── UnknownPlugin   the account's authentication plugin is none of ours
//! ├── TlsOption  a TLS option cannot be met
//! ├── Tls        the TLS handshake or a TLS record failed
//! ├── Closed     the server closed the connection
//! ├── NoAnswer   nothing, or not all of it, came in time (only `blocking::Client` returns it)
//! └── Io         the socket failed (only `blocking::Client` returns it)
//! ```

use std::fmt;
use std::time::Duration;

use crate::endpoint::Endpoint;

/// The part of [`crate::TlsOptions`] that an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsField {
    /// `mode`.
    Mode,
    /// `ca_file`.
    Authority,
    /// `ca_file`, which is needed and missing.
    MissingAuthority,
    /// `certificate_file`.
    Certificate,
    /// `key_file`.
    Key,
    /// One of `certificate_file` and `key_file` without the other.
    OneOfPair,
    /// `versions`.
    Versions,
    /// `cipher_suites`.
    CipherSuites,
}

/// An error packet of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The server's error number, for example 1213 for a deadlock.
    pub code: u16,
    /// Five characters of SQL state; "HY000" when the server sent none (errors before the handshake).
    pub sql_state: [u8; 5],
    /// The server's text; bytes that are not UTF-8 are replaced.
    pub message: String,
}

impl ServerError {
    /// The SQL state as text.
    pub fn sql_state(&self) -> &str {
        std::str::from_utf8(&self.sql_state).unwrap_or("?????")
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server error {} ({}): {}", self.code, self.sql_state(), self.message)
    }
}

/// Why a connection, or one call on it, failed; after any of these but `Server` the connection must be dropped.
///
/// A server error in answer to a command is not an `Error` but `Event::Failed`: the connection lives on.
/// `Server` appears only when the connection phase, or the greeting, is refused.
#[derive(Debug)]
pub enum Error {
    /// The server refused the connection.
    Server(ServerError),
    /// What was expected, and what came instead.
    Protocol(String),
    /// An option that cannot be met, with what to try.
    Setup(String),
    /// The account's authentication plugin is none of ours.
    UnknownPlugin {
        /// The account.
        user: String,
        /// The plugin, by the server's name for it.
        plugin: String,
    },
    /// A TLS option that cannot be met.
    TlsOption {
        /// Which.
        field: TlsField,
        /// What is wrong with it, with what to try.
        problem: String,
    },
    /// The TLS layer refused.
    Tls(rustls::Error),
    /// The server closed the connection; the text names the phase.
    Closed(&'static str),
    /// The server did not answer in time.
    NoAnswer {
        /// The server.
        endpoint: Endpoint,
        /// The time that it had.
        within: Duration,
    },
    /// The socket failed; the text says at what.
    Io(&'static str, std::io::Error),
}

impl Error {
    /// A protocol violation, described.
    pub(crate) fn protocol(what: impl Into<String>) -> Error {
        Error::Protocol(what.into())
    }

    /// A TLS option that cannot be met, described.
    pub(crate) fn tls_option(field: TlsField, problem: impl Into<String>) -> Error {
        Error::TlsOption {
            field,
            problem: problem.into(),
        }
    }

    /// An option that cannot be met, described.
    pub(crate) fn setup(what: impl Into<String>) -> Error {
        Error::Setup(what.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Server(error) => error.fmt(f),
            Error::Protocol(what) => write!(f, "the server broke the MySQL protocol: {what}"),
            Error::Setup(what) => f.write_str(what),
            Error::UnknownPlugin { user, plugin } => write!(
                f,
                "the account of '{user}' uses the authentication plugin '{plugin}': use one of mysql_native_password, \
                 caching_sha2_password, ed25519"
            ),
            Error::TlsOption { problem, .. } => f.write_str(problem),
            Error::Tls(error) => write!(f, "TLS: {error}"),
            Error::Closed(during) => write!(f, "the server closed the connection {during}"),
            Error::NoAnswer { endpoint, within } => {
                write!(f, "no answer from {endpoint} within {} s", within.as_secs_f64())
            }
            Error::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Tls(error) => Some(error),
            Error::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

impl From<rustls::Error> for Error {
    fn from(error: rustls::Error) -> Error {
        Error::Tls(error)
    }
}
