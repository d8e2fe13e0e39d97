//! What the server's bytes mean.

use crate::error::ServerError;

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
