//! Uniform: sb_rand_uniform of sysbench 1.0.20.

use crate::random::RandomStream;

/// Every value of the range alike.
#[derive(Debug, Clone, Copy)]
pub struct Uniform;

impl Uniform {
    /// A value in [low, high].
    #[inline]
    pub fn draw(self, stream: &mut RandomStream, low: u32, high: u32) -> u32 {
        low + (stream.next_double() * (f64::from(high - low) + 1.0)) as u32
    }
}
