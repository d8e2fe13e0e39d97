//! The client's side of the memcached protocols: text, binary and meta; no I/O policy.
//!
//! A [`Connection`] turns requests into bytes to send and bytes received into [`Event`]s, in the order of the requests.
//! Replies are parsed where they lie; only what a read cuts in two is copied. Nothing is allocated per operation once the
//! buffers have grown. Any bytes, cut anywhere, give the same events or an [`Error`], never a panic.
//!
//! Sources: doc/protocol.txt of memcached 1.6.18 (text and meta) and the wiki's BinaryProtocolRevamped (binary, deprecated
//! as of 1.6.0). The InnoDB memcached plugin of MySQL 5.6 to 8.2 speaks text and binary, not meta.

mod binary;
pub mod blocking;
mod connection;
mod event;
mod intake;
mod meta;
mod request;
mod text;

pub use connection::Connection;
pub use event::{Detail, Done, Error, Event, ServerError, Status};
pub use request::{Arithmetic, Item, Protocol, Store};
