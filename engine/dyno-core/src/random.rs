//! Random numbers from the operation's number: the same operation draws the same values whatever the thread or the order.
//!
//! The generator is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014),
//! started at a point hashed from seed, domain and operation number. About 1 ns a draw.

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the numbers are for; different domains of one seed never share a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Parameters of the statements of one transaction.
    Operation,
    /// Gap before an arrival.
    Arrival,
    /// Content of a row.
    Row,
    /// Think time after a transaction.
    Think,
}

/// The stream of random numbers that belongs to one operation.
#[derive(Debug, Clone)]
pub struct RandomStream {
    state: u64,
}

#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl RandomStream {
    /// The stream of operation `number` under `seed`; its first draw is the same on every machine.
    #[inline]
    pub fn of(seed: u64, domain: Domain, number: u64) -> Self {
        let domain = mix(seed ^ (domain as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        Self {
            state: mix(domain ^ mix(number.wrapping_mul(GOLDEN_GAMMA).wrapping_add(GOLDEN_GAMMA))),
        }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }

    /// A double in [0, 1) with 53 random bits.
    #[inline]
    pub fn next_double(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// An exponential variate of mean 1 (inversion); never infinite.
    #[inline]
    pub fn next_exponential(&mut self) -> f64 {
        -(1.0 - self.next_double()).ln()
    }

    /// Fills `groups` groups of 11 random digits with a dash between them, as sysbench's c and pad templates are.
    ///
    /// One 64-bit draw a group (sysbench draws once a character). Needs `groups * 12 - 1` bytes of space.
    ///
    /// # Panics
    /// When `out` has another length.
    #[inline]
    pub fn fill_digit_groups(&mut self, out: &mut [u8]) {
        assert_eq!(out.len() % 12, 11, "groups of 11 digits with dashes between");
        for group in out.chunks_mut(12) {
            // The high half of a 64 × 37-bit product is uniform in [0, 10^11) to within 2^-27.
            let mut value = ((u128::from(self.next_u64()) * 100_000_000_000u128) >> 64) as u64;
            for pair in (0..5).rev() {
                let digits = (value % 100) as usize;
                value /= 100;
                group[pair * 2 + 1] = DIGIT_PAIRS[digits * 2];
                group[pair * 2 + 2] = DIGIT_PAIRS[digits * 2 + 1];
            }
            group[0] = b'0' + value as u8;
            if let Some(dash) = group.get_mut(11) {
                *dash = b'-';
            }
        }
    }
}

const DIGIT_PAIRS: [u8; 200] = {
    let mut pairs = [0u8; 200];
    let mut number = 0;
    while number < 100 {
        pairs[number * 2] = b'0' + (number / 10) as u8;
        pairs[number * 2 + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

// The parts of an operation's number.
//
// Everything random about an operation is drawn from its number, so runs that must not repeat each other need numbers
// of their own. From the lowest bit: 31 bits count the operations of one stream, 32 bits are the stream (0 in a run
// without slices), and the highest bit is set for load that is not measured. A run of more than 2^31 operations goes on
// in the numbers of the next stream.

/// Bits of the count within a stream.
const COUNT_BITS: u32 = 31;
/// Set in the number of every operation of a warm-up or washout.
pub const WARMUP_BIT: u64 = 1 << 63;

/// The number of the first operation of a stream, measured or not.
pub fn first_number(stream: u32, is_measured: bool) -> u64 {
    (u64::from(stream) << COUNT_BITS) | if is_measured { 0 } else { WARMUP_BIT }
}

/// The operation's place in its stream.
#[inline]
pub fn count_of(number: u64) -> u64 {
    number & ((1 << COUNT_BITS) - 1)
}

/// The operation's stream.
#[inline]
pub fn stream_of(number: u64) -> u32 {
    (number >> COUNT_BITS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_domain_and_number_alone() {
        let first = |seed, domain, number| RandomStream::of(seed, domain, number).next_u64();
        let base = first(1, Domain::Operation, 7);
        assert_eq!(base, first(1, Domain::Operation, 7));
        assert_ne!(base, first(2, Domain::Operation, 7));
        assert_ne!(base, first(1, Domain::Row, 7));
        assert_ne!(base, first(1, Domain::Operation, 8));
    }

    #[test]
    fn first_draws_of_neighbouring_operations_are_uniform_and_uncorrelated() {
        let draws: Vec<f64> = (0..100_000)
            .map(|number| RandomStream::of(3, Domain::Operation, number).next_double())
            .collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.005, "mean {mean}");
        let covariance = draws
            .windows(2)
            .map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5))
            .sum::<f64>()
            / draws.len() as f64;
        assert!(covariance.abs() < 12.0f64.recip() * 0.02, "covariance {covariance}");
    }

    #[test]
    fn digit_groups_have_the_template_of_sysbench() {
        let mut value = [0u8; 119];
        let mut counts = [0u32; 10];
        for number in 0..2000 {
            RandomStream::of(1, Domain::Row, number).fill_digit_groups(&mut value);
            for (position, byte) in value.iter().enumerate() {
                if position % 12 == 11 {
                    assert_eq!(*byte, b'-');
                } else {
                    counts[(byte - b'0') as usize] += 1;
                }
            }
        }
        let expected = 2000.0 * 110.0 / 10.0;
        for count in counts {
            assert!((f64::from(count) - expected).abs() < expected * 0.03, "{counts:?}");
        }
    }

    #[test]
    fn exponential_gaps_have_mean_and_variance_one() {
        let mut stream = RandomStream::of(5, Domain::Arrival, 0);
        let draws: Vec<f64> = (0..200_000).map(|_| stream.next_exponential()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(
            (mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05,
            "{mean} {variance}"
        );
    }

    #[test]
    fn a_number_has_a_stream_a_count_and_whether_it_is_measured() {
        for stream in [0, 1, 7, u32::MAX] {
            for is_measured in [true, false] {
                let number = first_number(stream, is_measured) + 12_345;
                assert_eq!((stream_of(number), count_of(number)), (stream, 12_345));
                assert_eq!(number & WARMUP_BIT == 0, is_measured);
            }
        }
        assert_eq!(first_number(0, true), 0);
    }
}
