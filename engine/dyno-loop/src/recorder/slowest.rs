//! The slowest transactions of a run, with their times, to line up with telemetry.

/// One slow transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Slow {
    /// Response time.
    pub response_ns: u64,
    /// Service time.
    pub service_ns: u64,
    /// When it ended, on the engine's clock.
    pub ended_ns: u64,
    /// The operation's number.
    pub number: u64,
}

/// The `limit` slowest by response time; most calls are one comparison.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Slowest {
    entries: Vec<Slow>,
    limit: usize,
    threshold_ns: u64,
}

impl Slowest {
    /// Keeps `limit` transactions; 0 keeps none.
    pub fn new(limit: usize) -> Self {
        Self {
            entries: Vec::with_capacity(limit),
            limit,
            threshold_ns: if limit == 0 { u64::MAX } else { 0 },
        }
    }

    /// Considers one transaction.
    #[inline]
    pub fn offer(&mut self, slow: Slow) {
        if slow.response_ns > self.threshold_ns {
            self.insert(slow);
        }
    }

    #[cold]
    fn insert(&mut self, slow: Slow) {
        if self.entries.len() == self.limit {
            self.entries.pop();
        }
        let position = self
            .entries
            .partition_point(|entry| entry.response_ns >= slow.response_ns);
        self.entries.insert(position, slow);
        if self.entries.len() == self.limit {
            self.threshold_ns = self.entries[self.limit - 1].response_ns;
        }
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        other.entries.iter().for_each(|slow| self.offer(*slow));
    }

    /// Moves the times to another clock, which is `behind_ns` behind the one that they were read on.
    pub fn set_back(&mut self, behind_ns: i64) {
        for slow in &mut self.entries {
            slow.ended_ns = slow.ended_ns.saturating_add_signed(-behind_ns);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.threshold_ns = if self.limit == 0 { u64::MAX } else { 0 };
    }

    /// From the slowest down.
    pub fn entries(&self) -> &[Slow] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slow(response_ns: u64) -> Slow {
        Slow {
            response_ns,
            service_ns: 0,
            ended_ns: 0,
            number: 0,
        }
    }

    proptest! {
        #[test]
        fn the_slowest_are_those_that_sorting_finds(values in proptest::collection::vec(1u64..1000, 0..50)) {
            let (mut left, mut right) = (Slowest::new(5), Slowest::new(5));
            for (position, value) in values.iter().enumerate() {
                if position % 2 == 0 { left.offer(slow(*value)) } else { right.offer(slow(*value)) }
            }
            left.merge(&right);
            let mut sorted = values;
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            sorted.truncate(5);
            let kept: Vec<u64> = left.entries().iter().map(|entry| entry.response_ns).collect();
            prop_assert_eq!(kept, sorted);
        }
    }
}
