//! A histogram as it travels between programs: its counts in HdrHistogram's V2 form, beside what that rounds.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{hdr, index_of, Histogram, HIGHEST_NS};

/// Every field of a histogram with values; one without travels as null.
#[derive(Serialize, Deserialize)]
struct Travelling {
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    above_range: u64,
    /// [`hdr::encode_plain`].
    counts: String,
}

impl Travelling {
    /// The histogram, when its parts agree with one another.
    fn restore(&self) -> Option<Histogram> {
        let mut histogram = Histogram::new();
        for bucket in hdr::decode(&self.counts).ok()?.iter_recorded() {
            let count = bucket.count_since_last_iteration();
            histogram.counts[index_of(bucket.value_iterated_to())] = count;
            histogram.total = histogram.total.checked_add(count)?;
        }
        let in_use = |index: &usize| histogram.counts[*index] > 0;
        let ends = [self.min_ns, self.max_ns].map(|value_ns| index_of(value_ns.min(HIGHEST_NS)));
        let found = [
            (0..histogram.counts.len()).find(in_use)?,
            (0..histogram.counts.len()).rfind(in_use)?,
        ];
        if found != ends || self.above_range > histogram.total {
            return None;
        }
        histogram.sum_ns = self.sum_ns;
        histogram.min_ns = self.min_ns;
        histogram.max_ns = self.max_ns;
        histogram.above_range = self.above_range;
        Some(histogram)
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.total == 0 {
            return serializer.serialize_none();
        }
        Travelling {
            sum_ns: self.sum_ns,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            above_range: self.above_range,
            counts: hdr::encode_plain(self).map_err(S::Error::custom)?,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<Travelling>::deserialize(deserializer)? {
            None => Ok(Self::new()),
            Some(travelling) => travelling
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

    fn travelling(change: impl FnOnce(&mut Travelling)) -> String {
        let mut histogram = Histogram::new();
        histogram.record_many(5, 3);
        histogram.record(9);
        let text = serde_json::to_string(&histogram).unwrap();
        let mut travelling: Travelling = serde_json::from_str(&text).unwrap();
        change(&mut travelling);
        serde_json::to_string(&travelling).unwrap()
    }

    #[test]
    fn the_counts_are_those_that_tools_of_hdrhistogram_read() {
        assert_eq!(serde_json::to_string(&Histogram::new()).unwrap(), "null");
        let sent: Travelling = serde_json::from_str(&travelling(|_| ())).unwrap();
        assert_eq!((sent.sum_ns, sent.min_ns, sent.max_ns, sent.above_range), (24, 5, 9, 0));
        let counts = hdr::decode(&sent.counts).unwrap();
        assert_eq!((counts.len(), counts.count_at(5), counts.count_at(9)), (4, 3, 1));
    }

    #[test]
    fn parts_that_do_not_agree_are_refused() {
        let refused = |text: &str| serde_json::from_str::<Histogram>(text).is_err();
        assert!(!refused(&travelling(|_| ())));
        assert!(refused(&travelling(|sent| sent.min_ns = 4)));
        assert!(refused(&travelling(|sent| sent.max_ns = 10)));
        assert!(refused(&travelling(|sent| sent.above_range = 5)));
        assert!(refused(&travelling(|sent| sent.counts.truncate(20))));
        let empty = hdr::encode_plain(&Histogram::new()).unwrap();
        assert!(refused(&travelling(|sent| sent.counts = empty)));
    }
}
