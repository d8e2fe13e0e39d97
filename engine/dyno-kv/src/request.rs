//! What is asked, and what is kept of it until the reply is complete.

use std::ops::Range;

use crate::event::{Detail, ServerError, Status};

/// Which protocol a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The classic text commands; every server has them.
    Text,
    /// The binary protocol; the InnoDB plugin has it, memcached has it and calls it deprecated.
    Binary,
    /// The meta commands of memcached 1.6; what they lack (stats, version, flush_all) goes as text.
    Meta,
}

impl Protocol {
    /// Its name in messages and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Meta => "meta",
        }
    }
}

/// How an item is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Whatever is there.
    Set,
    /// Only where nothing is.
    Add,
    /// Only where something is.
    Replace,
    /// Only where the item still has this cas value.
    Cas(u64),
}

/// An item to store.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// What the server keeps for the client.
    pub flags: u32,
    /// Seconds to live; 0 for ever, above 30 days a time since 1970.
    pub ttl_s: u32,
    /// Its bytes.
    pub value: &'a [u8],
}

/// incr or decr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Add, modulo 2^64.
    Increment,
    /// Subtract, not below 0.
    Decrement,
}

/// What a request was, as far as its reply depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    MultiGet,
    Store,
    Delete,
    Arithmetic,
    Touch,
    Flush,
    Stats,
    Version,
    Noop,
}

/// A request without its whole reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub kind: Kind,
    pub detail: Detail,
    pub keys: u32,
    pub hits: u32,
    /// Whether only the [`Done`] is left to be told.
    pub complete: bool,
}

/// What one unit of the stream means; places are offsets in the unit.
#[derive(Debug)]
pub(crate) enum Step {
    /// A value; the last one where `last`.
    Value {
        key: Range<usize>,
        flags: u32,
        cas: Option<u64>,
        data: Range<usize>,
        last: bool,
    },
    /// A value whose bytes, still to come, are dropped.
    Skip { data: usize, trailer: bool, last: bool },
    /// A line of stats.
    Stat { name: Range<usize>, value: Range<usize> },
    /// The version; the whole reply.
    Version(Range<usize>),
    /// The end of a reply.
    Done(Status),
    /// The request was refused.
    Failed(ServerError),
    /// A quiet request failed.
    QuietFailed(Status),
}
