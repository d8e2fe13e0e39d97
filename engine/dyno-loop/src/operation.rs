//! An operation: due, and in flight.

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

/// An operation that is about to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextOperation {
    /// Its number.
    pub number: u64,
    /// When it is due.
    pub intended_ns: u64,
    /// From when on it may start: later than due where catching up is bounded.
    pub release_ns: u64,
}
