//! Pareto: sb_rand_pareto of sysbench 1.0.20.

use super::Parameters;
use crate::random::RandomStream;

/// Self-similar: share 1-h of the values falls in the first share h of the range.
#[derive(Debug, Clone, Copy)]
pub struct Pareto {
    power: f64,
}

impl Pareto {
    /// Checks the parameters.
    ///
    /// # Errors
    /// When h is not in (0, 1).
    pub fn new(parameters: &Parameters) -> Result<Self, String> {
        let h = parameters.pareto_h;
        if !(h > 0.0 && h < 1.0) {
            return Err(format!(
                "{h} is not a pareto h; use a number between 0 and 1 (default 0.2)"
            ));
        }
        Ok(Self {
            power: h.ln() / (1.0 - h).ln(),
        })
    }

    /// A value in [low, high].
    #[inline]
    pub fn draw(self, stream: &mut RandomStream, low: u32, high: u32) -> u32 {
        low + ((f64::from(high - low) + 1.0) * stream.next_double().powf(self.power)) as u32
    }
}
