//! How captured times become times of the replay.

/// When captured times are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// This many times as fast as captured.
    Times(f64),
    /// As fast as each session goes.
    Max,
}

impl Pace {
    /// When what was captured at this time is due, since the beginning of the replay, ns.
    pub fn due_ns(self, at_us: u64) -> u64 {
        match self {
            Self::Times(factor) => (at_us as f64 * 1000.0 / factor) as u64,
            Self::Max => 0,
        }
    }

    /// The same on the clock of a replay that began at `begin_ns`; what is beyond that clock is due at its end.
    pub fn due_at_ns(self, begin_ns: u64, at_us: u64) -> u64 {
        begin_ns.saturating_add(self.due_ns(at_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_captured_later_is_never_due_earlier() {
        let due_at_ns = |at_us| Pace::Times(0.5).due_at_ns(1_000, at_us);
        assert_eq!(due_at_ns(3), 7_000);
        assert_eq!(due_at_ns(u64::MAX), u64::MAX);
        assert_eq!(Pace::Max.due_at_ns(1_000, u64::MAX), 1_000);
    }
}
