//! memcached: keys, values and operations, the control connection, and the session of the load loop.
//!
//! Schedule, clock, recorder, quality rules and output are those of SQL; what differs is one connection with several
//! operations in flight, keys and values, hits and misses.

pub mod distribution;
mod flights;
pub mod keys;
mod record;
mod requests;
pub mod server;
mod session;
mod settings;
pub mod sizes;
pub mod values;
pub mod workload;

pub use record::{Command, KvCounts, KvRecord, KvRecorder};
pub use session::KvSession;
pub use settings::{Endpoint, KvSettings};
