//! A histogram as it travels between programs: the buckets in use alone, each with its distance from the one before.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{index_of, Histogram, HIGHEST_NS, LENGTH};

/// Every field of a histogram with values; one without travels as null.
#[derive(Serialize, Deserialize)]
struct Sparse {
    total: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    above_range: u64,
    /// Places from the last bucket in use (the first: from the lowest there is) to this one, and its count.
    buckets: Vec<(usize, u64)>,
}

impl Sparse {
    fn of(histogram: &Histogram) -> Self {
        let mut last = 0;
        let gap_and_count = |index: usize| {
            let gap = index - std::mem::replace(&mut last, index);
            (gap, histogram.counts[index])
        };
        let in_use = histogram.used().filter(|index| histogram.counts[*index] > 0);
        Self {
            buckets: in_use.map(gap_and_count).collect(),
            total: histogram.total,
            sum_ns: histogram.sum_ns,
            min_ns: histogram.min_ns,
            max_ns: histogram.max_ns,
            above_range: histogram.above_range,
        }
    }

    /// The histogram, when its parts agree with one another.
    fn restore(&self) -> Option<Histogram> {
        let mut histogram = Histogram::new();
        let mut index = 0usize;
        let mut total = 0u64;
        for (position, (gap, count)) in self.buckets.iter().enumerate() {
            index = index.checked_add(*gap).filter(|index| *index < LENGTH)?;
            if position == 0 && index != index_of(self.min_ns.min(HIGHEST_NS)) {
                return None;
            }
            histogram.counts[index] += count;
            total = total.checked_add(*count)?;
        }
        let ends_at_maximum = index == index_of(self.max_ns.min(HIGHEST_NS));
        if total != self.total || total == 0 || !ends_at_maximum || self.above_range > total {
            return None;
        }
        histogram.total = total;
        histogram.sum_ns = self.sum_ns;
        histogram.min_ns = self.min_ns;
        histogram.max_ns = self.max_ns;
        histogram.above_range = self.above_range;
        Some(histogram)
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.total > 0).then(|| Sparse::of(self)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<Sparse>::deserialize(deserializer)? {
            None => Ok(Self::new()),
            Some(sparse) => sparse
                .restore()
                .ok_or_else(|| D::Error::custom("a histogram whose buckets are not those of its figures")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(left: &Histogram, right: &Histogram) -> bool {
        left.counts == right.counts
            && (left.total, left.sum_ns, left.min_ns, left.max_ns, left.above_range)
                == (right.total, right.sum_ns, right.min_ns, right.max_ns, right.above_range)
    }

    proptest! {
        #[test]
        fn what_travels_arrives_whole(
            values in proptest::collection::vec((0u32..64, any::<u64>(), 1u64..1000), 0..100),
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|(shift, value, count)| histogram.record_many(value >> shift, *count));
            let text = serde_json::to_string(&histogram).unwrap();
            let arrived: Histogram = serde_json::from_str(&text).unwrap();
            prop_assert!(same(&histogram, &arrived), "{}", text);
        }
    }

    #[test]
    fn only_the_buckets_in_use_travel() {
        let mut histogram = Histogram::new();
        assert_eq!(serde_json::to_string(&histogram).unwrap(), "null");
        histogram.record_many(5, 3);
        histogram.record(9);
        assert_eq!(
            serde_json::to_string(&histogram).unwrap(),
            r#"{"total":4,"sum_ns":24,"min_ns":5,"max_ns":9,"above_range":0,"buckets":[[5,3],[4,1]]}"#
        );
    }

    #[test]
    fn parts_that_do_not_agree_are_refused() {
        let text = |total: u64, min_ns: u64, buckets: &str| {
            format!(
                r#"{{"total":{total},"sum_ns":24,"min_ns":{min_ns},"max_ns":9,"above_range":0,"buckets":{buckets}}}"#
            )
        };
        let refused = |text: String| serde_json::from_str::<Histogram>(&text).is_err();
        assert!(!refused(text(4, 5, "[[5,3],[4,1]]")));
        assert!(refused(text(5, 5, "[[5,3],[4,1]]")));
        assert!(refused(text(4, 4, "[[5,3],[4,1]]")));
        assert!(refused(text(4, 5, "[[5,3],[9,1]]")));
        assert!(refused(text(4, 5, "[[5,3],[99999999,1]]")));
        assert!(refused(text(0, 5, "[]")));
    }
}
