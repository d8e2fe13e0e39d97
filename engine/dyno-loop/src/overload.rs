//! What happens to planned operations that cannot start in time because every connection is busy.

use super::failure::Failure;

/// The policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overload {
    /// They wait as long as it takes; their response time shows it.
    Queue,
    /// They are dropped, and counted, once they are later than this.
    DropLate {
        /// Longest wait.
        limit_ns: u64,
    },
    /// The run ends with an error once one is later than this.
    Abort {
        /// Longest wait.
        limit_ns: u64,
    },
}

impl Overload {
    /// Whether an operation that would start `late_ns` after its time is dropped.
    #[inline]
    pub fn drops(self, late_ns: u64) -> bool {
        match self {
            Self::Queue => false,
            Self::DropLate { limit_ns } | Self::Abort { limit_ns } => late_ns > limit_ns,
        }
    }

    /// The failure that a dropped operation is; none where dropping is the policy. `operation` is the workload's word.
    #[cold]
    pub fn failure(self, late_ns: u64, operation: &str) -> Option<Failure> {
        let Self::Abort { limit_ns } = self else { return None };
        Some(Failure::new(format!(
            "the server does not keep up: a planned {operation} was {:.1} ms late, the limit is {:.1} ms; lower --rate, or \
             choose --overload queue",
            late_ns as f64 / 1e6,
            limit_ns as f64 / 1e6
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_later_than_the_limit_is_dropped_and_only_abort_fails() {
        let (drop, abort) = (Overload::DropLate { limit_ns: 5 }, Overload::Abort { limit_ns: 5 });
        assert_eq!([drop, abort, Overload::Queue].map(|policy| policy.drops(5)), [false; 3]);
        assert_eq!(
            [drop, abort, Overload::Queue].map(|policy| policy.drops(6)),
            [true, true, false]
        );
        assert_eq!(drop.failure(6, "transaction"), None);
        let failure = abort.failure(2_000_000, "transaction").unwrap();
        assert!(failure.message.contains("a planned transaction was 2.0 ms late"));
    }
}
