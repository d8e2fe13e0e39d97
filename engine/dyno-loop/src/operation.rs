//! An operation in flight.

/// An operation that has started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operation {
    /// Its number.
    pub number: u64,
    /// When it was due.
    pub intended_ns: u64,
    /// When its first byte was sent.
    pub started_ns: u64,
    /// Whether it belongs to the measurement (in an open loop, by its intended time).
    pub measured: bool,
}
