//! The parts of an operation's number.
//!
//! Everything random about an operation is drawn from its number, so runs that must not repeat each other need numbers
//! of their own. From the lowest bit: 31 bits count the operations of one stream, 32 bits are the stream (0 in a run
//! without slices), and the highest bit is set for load that is not measured. A run of more than 2^31 operations goes on
//! in the numbers of the next stream.

/// Bits of the count within a stream.
const COUNT_BITS: u32 = 31;
/// Set in the number of every operation of a warm-up or washout.
pub const WARMUP_BIT: u64 = 1 << 63;

/// The number of the first operation of a stream, measured or not.
pub fn base(stream: u32, is_measured: bool) -> u64 {
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
    fn a_number_has_a_stream_a_count_and_whether_it_is_measured() {
        for stream in [0, 1, 7, u32::MAX] {
            for is_measured in [true, false] {
                let number = base(stream, is_measured) + 12_345;
                assert_eq!((stream_of(number), count_of(number)), (stream, 12_345));
                assert_eq!(number & WARMUP_BIT == 0, is_measured);
            }
        }
        assert_eq!(base(0, true), 0);
    }
}
