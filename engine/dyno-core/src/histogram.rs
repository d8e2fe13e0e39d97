//! Latency histogram of the HDR class, in nanoseconds: 3 significant digits from 1 ns to 2.4 hours.
//!
//! The buckets are those of HdrHistogram with 2,048 sub-buckets (hdrhistogram.org), so conversion loses nothing. Our own
//! because a worker keeps one per statement and swaps it every second: clearing and merging touch only the part in use,
//! and memory that no value falls in is never made resident. A record is a shift, an increment and four scalars.
//! Nothing is clamped in silence: values above the range are counted in [`Histogram::above_range`] and in `max`.

pub mod hdr;

const SUB_BUCKET_BITS: u32 = 11;
const HALF: usize = 1 << (SUB_BUCKET_BITS - 1);
const RANGE_BITS: u32 = 43;
const BUCKETS: usize = (RANGE_BITS - SUB_BUCKET_BITS + 1) as usize;
const LENGTH: usize = (BUCKETS + 1) * HALF;

/// The greatest value that has a bucket of its own, ns.
pub const HIGHEST_NS: u64 = (1 << RANGE_BITS) - 1;

/// Counts of values by size; single-threaded, merged by [`Histogram::merge`].
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    above_range: u64,
}

/// The figures of a histogram that a result carries, µs.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// Least value.
    pub min_us: f64,
    /// Arithmetic mean, exact.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Greatest value, exact.
    pub max_us: f64,
    /// Values above the histogram's range; they are in every figure as the range's end, and in `max_us` exactly.
    pub above_range: u64,
}

#[inline]
fn index_of(value_ns: u64) -> usize {
    let bucket = 64 - SUB_BUCKET_BITS - (value_ns | ((1 << SUB_BUCKET_BITS) - 1)).leading_zeros();
    ((bucket as usize) << (SUB_BUCKET_BITS - 1)) + (value_ns >> bucket) as usize
}

fn lowest_of(index: usize) -> u64 {
    let bucket = (index / HALF).saturating_sub(1);
    ((index - bucket * HALF) as u64) << bucket
}

fn highest_of(index: usize) -> u64 {
    let bucket = (index / HALF).saturating_sub(1);
    lowest_of(index) + (1 << bucket) - 1
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram: 278 KB of address space, resident only where values fall.
    pub fn new() -> Self {
        Self {
            counts: vec![0; LENGTH],
            total: 0,
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            above_range: 0,
        }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.record_many(value_ns, 1);
    }

    /// Counts `count` equal values.
    #[inline]
    pub fn record_many(&mut self, value_ns: u64, count: u64) {
        let clipped = if value_ns > HIGHEST_NS {
            self.above_range += count;
            HIGHEST_NS
        } else {
            value_ns
        };
        self.counts[index_of(clipped)] += count;
        self.total += count;
        self.sum_ns = self.sum_ns.saturating_add(value_ns.saturating_mul(count));
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.total == 0 {
            return;
        }
        let range = other.used();
        for (mine, theirs) in self.counts[range.clone()].iter_mut().zip(&other.counts[range]) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.above_range += other.above_range;
    }

    /// Forgets all values; the cost is the part in use.
    pub fn clear(&mut self) {
        if self.total > 0 {
            let range = self.used();
            self.counts[range].fill(0);
            (self.total, self.sum_ns, self.min_ns, self.max_ns, self.above_range) = (0, 0, u64::MAX, 0, 0);
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Values above [`HIGHEST_NS`].
    pub fn above_range(&self) -> u64 {
        self.above_range
    }

    /// Greatest value, exact; 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Sum of the values, saturating.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The least value that at least `percentile` % of the values do not exceed, to 3 digits (the bucket's upper end, and
    /// never above the maximum); 0 when empty.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        if self.total == 0 {
            return 0;
        }
        let rank = ((percentile / 100.0 * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for index in self.used() {
            seen += self.counts[index];
            if seen >= rank {
                return highest_of(index).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// Each bucket in use: lowest value, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let range = if self.total == 0 { 0..0 } else { self.used() };
        range
            .filter(|index| self.counts[*index] > 0)
            .map(|index| (lowest_of(index), self.counts[index]))
    }

    /// The figures for a result; `None` when empty, so that the absent is never 0.
    pub fn summary(&self) -> Option<Summary> {
        if self.total == 0 {
            return None;
        }
        let at = |percentile| self.percentile_ns(percentile) as f64 / 1e3;
        Some(Summary {
            count: self.total,
            min_us: self.min_ns as f64 / 1e3,
            mean_us: self.sum_ns as f64 / self.total as f64 / 1e3,
            p50_us: at(50.0),
            p90_us: at(90.0),
            p95_us: at(95.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: self.max_ns as f64 / 1e3,
            above_range: self.above_range,
        })
    }

    fn used(&self) -> std::ops::Range<usize> {
        index_of(self.min_ns.min(HIGHEST_NS))..index_of(self.max_ns.min(HIGHEST_NS)) + 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    #[test]
    fn an_empty_histogram_has_no_figures() {
        assert_eq!(Histogram::new().summary(), None);
        assert_eq!(Histogram::new().buckets().count(), 0);
    }

    #[test]
    fn values_above_the_range_are_counted_and_keep_their_maximum() {
        let histogram = of(&[5, HIGHEST_NS + 1, u64::MAX]);
        assert_eq!(
            (histogram.above_range(), histogram.max_ns(), histogram.count()),
            (2, u64::MAX, 3)
        );
    }

    #[test]
    fn buckets_join_without_gap_or_overlap() {
        for index in 0..LENGTH - 1 {
            assert_eq!(highest_of(index) + 1, lowest_of(index + 1), "at {index}");
            assert_eq!(index_of(lowest_of(index)), index);
            assert_eq!(index_of(highest_of(index)), index);
        }
        assert_eq!(highest_of(LENGTH - 1), HIGHEST_NS);
    }

    #[test]
    fn clearing_leaves_nothing_behind() {
        let mut histogram = of(&[1, 1000, 1_000_000_000]);
        histogram.clear();
        assert!(histogram.counts.iter().all(|count| *count == 0) && histogram.summary().is_none());
    }

    proptest! {
        #[test]
        fn percentiles_are_right_to_three_digits(
            mut values in proptest::collection::vec(1u64..HIGHEST_NS, 1..300), percentile in 0.1f64..100.0,
        ) {
            let seen = of(&values).percentile_ns(percentile);
            values.sort_unstable();
            let rank = ((percentile / 100.0 * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            prop_assert!(seen >= exact && seen as f64 <= exact as f64 * 1.001, "{seen} for {exact}");
        }

        #[test]
        fn merging_parts_equals_the_whole(
            left in proptest::collection::vec(0u64..1 << 45, 0..100),
            right in proptest::collection::vec(0u64..1 << 45, 0..100),
        ) {
            let mut merged = of(&left);
            merged.merge(&of(&right));
            let whole = of(&[left, right].concat());
            prop_assert_eq!(merged.summary(), whole.summary());
            prop_assert_eq!(merged.counts, whole.counts);
        }
    }
}
