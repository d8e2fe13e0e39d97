//! Special: sb_rand_special of sysbench 1.0.20, its default distribution.

use super::Parameters;
use crate::random::RandomStream;

/// A share of the values in a hot range around the middle, the rest gaussian over the whole range.
#[derive(Debug, Clone, Copy)]
pub struct Special {
    iterations: u32,
    hot_share: f64,
    stretch: f64,
}

impl Special {
    /// Checks the parameters.
    ///
    /// # Errors
    /// When there are 0 iterations, or a percentage is above its range.
    pub fn new(parameters: &Parameters) -> Result<Self, String> {
        if parameters.special_iterations == 0 {
            return Err("0 iterations make no special value; use at least 1 (default 12)".into());
        }
        if parameters.special_percent > 100 {
            return Err(format!(
                "{} % of the range cannot be special; use 0 to 100",
                parameters.special_percent
            ));
        }
        if parameters.special_values_percent > 99 {
            return Err(format!(
                "{} % of the values cannot be special; use 0 to 99",
                parameters.special_values_percent
            ));
        }
        Ok(Self {
            iterations: parameters.special_iterations,
            hot_share: f64::from(parameters.special_percent) / 100.0,
            stretch: 100.0 / (100.0 - f64::from(parameters.special_values_percent)),
        })
    }

    /// A value in [low, high].
    #[inline]
    pub fn draw(self, stream: &mut RandomStream, low: u32, high: u32) -> u32 {
        let width = f64::from(high - low);
        let first = stream.next_double();
        if first * width * self.stretch < width {
            let sum: f64 = (0..self.iterations).map(|_| stream.next_double()).sum();
            return low + (sum * width / f64::from(self.iterations)) as u32;
        }
        // The first draw is used again on purpose: so does sysbench, and its hot range is skewed upwards by that.
        let hot = width * self.hot_share;
        low + (first * (hot + 1.0) + width / 2.0 - hot / 2.0) as u32
    }
}
