//! The key-value workload: what is asked of memcached servers, and the workers that ask it.
//!
//! Schedule, clock, recorder, verdicts and output are those of SQL; what differs is one connection with many operations
//! under way, keys and values, hits and misses.

mod client;
pub mod distribution;
pub mod keys;
mod losses;
mod operations;
mod record;
pub mod server;
mod settings;
pub mod sizes;
pub mod values;
mod worker;
pub mod workload;

pub use record::{Command, KvCounts, KvRecord};
pub use settings::{Endpoint, KvSettings};
pub use worker::{run, spawn};
