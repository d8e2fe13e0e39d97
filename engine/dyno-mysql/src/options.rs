//! What a connection should be: where, who, how, and in which state its session begins.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::tls::TlsContext;

/// A password, or other bytes that must never be printed, in whichever encoding; `Debug` shows only that they are there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(bytes.into())
    }

    /// The first line of a file, without its end: so that no password stands in a list of processes.
    pub fn first_line(path: &Path) -> std::io::Result<Secret> {
        let bytes = std::fs::read(path)?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(Secret::new(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// The bytes themselves: only for making the authentication answer.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is no password.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "Secret(empty)"
        } else {
            "Secret(***)"
        })
    }
}

/// Which compression to ask for; a server without it is an error, never a silent fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// None.
    #[default]
    Off,
    /// zlib, level 0 to 9 (6 is libmysql's).
    Zlib {
        /// 0 stores, 1 is fastest, 9 is smallest.
        level: u32,
    },
    /// zstd (MySQL from 8.0.18; MariaDB has it not), level 1 to 22 (3 is libmysql's).
    Zstd {
        /// 1 is fastest, 22 is smallest. The server takes the same level.
        level: u32,
    },
}

/// The character set of the session (`character_set_client`, `_connection` and `_results`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Charset {
    /// utf8mb4_general_ci; MySQL from 5.5.3.
    #[default]
    Utf8mb4,
    /// utf8_general_ci, three bytes a character.
    Utf8mb3,
    /// latin1_swedish_ci.
    Latin1,
    /// ascii_general_ci.
    Ascii,
    /// binary: the server converts nothing.
    Binary,
}

impl Charset {
    /// The set of this name; an error lists the names.
    pub fn from_name(name: &str) -> Result<Charset, Error> {
        match name {
            "utf8mb4" => Ok(Charset::Utf8mb4),
            "utf8mb3" | "utf8" => Ok(Charset::Utf8mb3),
            "latin1" => Ok(Charset::Latin1),
            "ascii" => Ok(Charset::Ascii),
            "binary" => Ok(Charset::Binary),
            other => Err(Error::setup(format!(
                "character set '{other}' is not known: use utf8mb4, utf8mb3, latin1, ascii or binary"
            ))),
        }
    }

    /// The number of its default collation in the handshake.
    pub(crate) fn collation(self) -> u8 {
        match self {
            Charset::Utf8mb4 => 45,
            Charset::Utf8mb3 => 33,
            Charset::Latin1 => 8,
            Charset::Ascii => 11,
            Charset::Binary => 63,
        }
    }
}

/// All that a connection needs to know; share one behind an `Arc` among any number of connections.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the server is. `Connection` uses it for the TLS name and to judge whether the path is local.
    pub endpoint: Endpoint,
    /// The account.
    pub user: String,
    /// Its password.
    pub password: Secret,
    /// The default database, if any.
    pub database: Option<String>,
    /// TLS, made once by `TlsContext::new`; `None` is mode "disabled".
    pub tls: Option<Arc<TlsContext>>,
    /// Compression of the protocol.
    pub compression: Compression,
    /// Character set of the session.
    pub charset: Charset,
    /// Statements run after authentication, before `Event::Ready`; one that fails ends the connection.
    pub init_statements: Vec<String>,
    /// Shown by the server as `program_name` in its connection attributes.
    pub program_name: String,
    /// Whether an RSA key sent over an open network is believed (caching_sha2_password without TLS).
    /// Off by default, as in libmysql: who can alter the traffic can read the password. Local endpoints need no leave.
    pub allow_public_key_retrieval: bool,
    /// Whether MariaDB (from 10.6) may leave out column definitions that a prepared statement already had.
    /// On by default, as in MariaDB's own client library.
    pub cache_metadata: bool,
    /// Whether the shorter end-of-rows form is used where the server has it. On by default. Without it a packet ends
    /// definitions, which MySQL before 8.0.38 and 8.4.1 needs: for a statement with `ORDER BY ?` it sends fewer than it
    /// announces.
    pub deprecate_eof: bool,
    /// Whether one text may have several statements. On by default.
    pub multi_statements: bool,
    /// Time for name resolution, connect, greeting, TLS and authentication together; `blocking::Client` enforces it.
    /// 10 s by default.
    pub connect_timeout: Duration,
}

impl Options {
    /// Options for `user` at `endpoint`, all else at its default: no password, no database, no TLS, no compression.
    pub fn new(endpoint: Endpoint, user: impl Into<String>) -> Options {
        Options {
            endpoint,
            user: user.into(),
            password: Secret::default(),
            database: None,
            tls: None,
            compression: Compression::Off,
            charset: Charset::default(),
            init_statements: Vec::new(),
            program_name: "mydyno".into(),
            allow_public_key_retrieval: false,
            cache_metadata: true,
            deprecate_eof: true,
            multi_statements: true,
            connect_timeout: Duration::from_secs(10),
        }
    }
}

// What a session is set to right after its login, so that it does not depend on the server's global values.
//
// Every variable exists on all versions of MySQL and MariaDB, or stands in a comment that only those execute that have it,
// and any account may set it. One statement each: one round trip.

/// For a program's own statements: as [`MEASURED_STATE`], and without the server's limit of a statement's time, which would
/// end the preparation of large tables (`max_statement_time` of MariaDB, `max_execution_time` of MySQL).
pub const OWN_STATE: &str = "SET SESSION autocommit = 1, completion_type = 0, \
     sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
     wait_timeout = 2147483 /*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */";

/// For the statements of a built-in load. Each is committed by itself; what the statements mean, and how many rows they
/// return, is not for the server's configuration to decide; and the session may be idle for 24 days.
pub const MEASURED_STATE: &str = "SET SESSION autocommit = 1, completion_type = 0, \
     sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
     wait_timeout = 2147483";

/// As [`MEASURED_STATE`], for work in which COMMIT and ROLLBACK are the only limits of transactions.
pub const OWN_STATE_IN_TRANSACTIONS: &str = "SET SESSION autocommit = 0, completion_type = 0, \
     sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
     wait_timeout = 2147483";

/// For the statements of a dump: it sets what else it needs. It was written for the default meaning of quotes and
/// backslashes, or sets another `sql_mode` itself: a server's own modes that change it are taken away, with those that
/// contain them. A server ignores the commas at both ends.
pub const STATE_FOR_A_DUMP: &str = "SET SESSION autocommit = 1, wait_timeout = 2147483, sql_mode = \
     REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(CONCAT(',', @@sql_mode, ','), \
     ',ANSI,', ','), ',ANSI_QUOTES,', ','), ',DB2,', ','), ',MAXDB,', ','), ',MSSQL,', ','), \
     ',NO_BACKSLASH_ESCAPES,', ','), ',ORACLE,', ','), ',POSTGRESQL,', ',') \
     /*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */";

/// For captured statements: what a server's autocommit was is in the capture.
pub const CAPTURED_STATE: &str = "SET SESSION autocommit = 1, wait_timeout = 2147483";

/// For the user's statements, which run in the state that the server gives each session, however long it is idle.
pub const INHERITED_STATE: &str = "SET SESSION wait_timeout = 2147483";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let mut options = Options::new(Endpoint::unix("/tmp/s"), "root");
        options.password = Secret::new("hunter2");
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn a_password_is_the_bytes_of_the_first_line() {
        let path = std::env::temp_dir().join(format!("dyno-password-{}", std::process::id()));
        for (content, password) in [
            (&b"se\xdf\xffcret\r\nmore"[..], &b"se\xdf\xffcret"[..]),
            (b"", b""),
            (b"x", b"x"),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(Secret::first_line(&path).unwrap().reveal(), password);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Secret::first_line(&path).is_err());
    }

    #[test]
    fn only_loopback_and_sockets_are_local() {
        assert!(Endpoint::unix("/x").is_local() && Endpoint::tcp("::1", 1).is_local());
        assert!(Endpoint::tcp("127.0.0.7", 1).is_local() && Endpoint::tcp("localhost", 1).is_local());
        assert!(!Endpoint::tcp("10.0.0.1", 1).is_local() && !Endpoint::tcp("localhost.example", 1).is_local());
    }
}
