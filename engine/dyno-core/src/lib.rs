//! What every program of the engine shares: clock, schedule, histogram, wire format.

pub mod wire;
