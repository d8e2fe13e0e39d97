//! What every program of the engine shares: clock, schedule, random streams, histogram, wire format.

pub mod clock;
pub mod distribution;
pub mod duration;
pub mod hdr_log;
pub mod histogram;
pub mod local_ports;
pub mod operation;
pub mod panics;
pub mod prefetch;
pub mod queue;
pub mod random;
pub mod schedule;
pub mod streams;
pub mod wire;
