//! What the server's bytes mean, errors included.

/// How much of a value the caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Whether it was there: its bytes are skipped as they come, whatever their length.
    Skip,
    /// Its bytes, in one piece.
    Deliver,
}

/// How the server answered a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done: stored, deleted, touched, found. For a multi-get, whatever was found.
    Success,
    /// The key is not there.
    NotFound,
    /// add of a key that is there, or replace of one that is not, in the words of text and meta.
    NotStored,
    /// The item has changed since its cas value was read; the binary protocol says so for add, too.
    Exists,
    /// The new value of incr or decr.
    Number(u64),
}

/// The end of the reply to the oldest request without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// How the server answered.
    pub status: Status,
    /// Values found; only gets have any.
    pub hits: u32,
    /// Keys asked for by a get or multi-get; 0 for other requests.
    pub keys: u32,
}

/// One step of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A value, where the request asked for it.
    Value {
        /// Its key; empty for a single get by binary or meta, which do not repeat it.
        key: &'a [u8],
        /// Its client flags; 0 where the request did not ask for its cas value by meta.
        flags: u32,
        /// Its cas value, where asked for (binary always tells).
        cas: Option<u64>,
        /// Its bytes; none with [`Detail::Skip`] when only the cas value was asked for.
        data: &'a [u8],
    },
    /// One line of stats.
    Stat {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The server's version.
    Version(&'a [u8]),
    /// The end of a reply.
    Done(Done),
    /// The server refused the oldest request without a reply; that is its whole reply.
    Failed(ServerError),
    /// A quiet request failed. It has no other reply, and text never tells.
    QuietFailed(Status),
}

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
