//! What can go wrong: the request, the protocol, the server.

/// Why a request cannot be sent, or a connection is of no more use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key that the protocol does not carry; nothing was put into the output.
    #[error(
        "a key of {length} bytes{problem}; memcached accepts 1 to 250 bytes without spaces and control characters"
    )]
    Key {
        /// Its length.
        length: usize,
        /// What else is wrong with it.
        problem: &'static str,
    },
    /// A reply that is not the protocol's, or that nobody asked for.
    #[error("the server violated the {protocol} protocol: {what}")]
    Malformed {
        /// The protocol.
        protocol: &'static str,
        /// The bytes, made readable and cut short.
        what: String,
    },
    /// The server closed the connection while replies were due.
    #[error("the server closed the connection with {outstanding} replies due")]
    Closed {
        /// Requests without a reply.
        outstanding: usize,
    },
    /// The whole answer did not come in time (blocking client only).
    #[error("no answer from {endpoint} within {} s", .within.as_secs_f64())]
    NoAnswer {
        /// The server's address, or the path of its socket.
        endpoint: String,
        /// The time that it had.
        within: std::time::Duration,
    },
    /// The socket failed (blocking client only).
    #[error("{0}")]
    Io(String),
    /// The server refused (blocking client only).
    #[error("{0}")]
    Server(ServerError),
}

/// A refusal by the server; the connection stays usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ServerError {
    /// The binary protocol's status; absent in text and meta.
    pub status: Option<u16>,
    /// The server's words, as in `SERVER_ERROR out of memory storing object`.
    pub message: String,
}

/// Longest excerpt of foreign bytes in a message.
const EXCERPT: usize = 60;

impl Error {
    /// An error about bytes of the server.
    #[cold]
    pub(crate) fn malformed(protocol: &'static str, bytes: &[u8]) -> Self {
        Self::Malformed {
            protocol,
            what: readable(bytes),
        }
    }
}

/// Bytes for people: printable, and at most a line.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(EXCERPT)];
    let more = if bytes.len() > EXCERPT { "…" } else { "" };
    format!("'{}'{more}", shown.escape_ascii())
}
