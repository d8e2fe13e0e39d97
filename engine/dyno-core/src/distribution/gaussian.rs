//! Gaussian: sb_rand_gaussian of sysbench 1.0.20.

use super::Parameters;
use crate::random::RandomStream;

/// The mean of several uniform draws: bell-shaped around the middle of the range.
#[derive(Debug, Clone, Copy)]
pub struct Gaussian {
    iterations: u32,
}

impl Gaussian {
    /// Checks the parameters.
    ///
    /// # Errors
    /// When the number of iterations is 0.
    pub fn new(parameters: &Parameters) -> Result<Self, String> {
        if parameters.special_iterations == 0 {
            return Err("0 iterations make no gaussian value; use at least 1 (default 12)".into());
        }
        Ok(Self {
            iterations: parameters.special_iterations,
        })
    }

    /// A value in [low, high].
    #[inline]
    pub fn draw(self, stream: &mut RandomStream, low: u32, high: u32) -> u32 {
        let size = f64::from(high - low) + 1.0;
        let sum: f64 = (0..self.iterations).map(|_| stream.next_double()).sum();
        low + (sum * size / f64::from(self.iterations)) as u32
    }
}
