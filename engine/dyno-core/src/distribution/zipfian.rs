//! Zipfian: sb_rand_zipfian of sysbench's development branch (1.1), which is not in 1.0.20.
//!
//! Rejection inversion: Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6.3 (1996), with the integral that Apache Commons RNG uses for every exponent.

use super::Parameters;
use crate::random::RandomStream;

/// The value of rank r comes with a probability proportional to r^-exponent; rank 1 is the low end of the range.
#[derive(Debug, Clone, Copy)]
pub struct Zipfian {
    exponent: f64,
    shortcut: f64,
    integral_at_first: f64,
}

impl Zipfian {
    /// Checks the parameters.
    ///
    /// # Errors
    /// When the exponent is negative or not finite.
    pub fn new(parameters: &Parameters) -> Result<Self, String> {
        let exponent = parameters.zipfian_exponent;
        if !(exponent >= 0.0 && exponent.is_finite()) {
            return Err(format!(
                "{exponent} is not a zipfian exponent; use a number of at least 0 (default 0.8)"
            ));
        }
        Ok(Self {
            exponent,
            shortcut: 2.0 - integral_inverse(integral(2.5, exponent) - density(2.0, exponent), exponent),
            integral_at_first: integral(1.5, exponent) - 1.0,
        })
    }

    /// A value in [low, high].
    #[inline]
    pub fn draw(self, stream: &mut RandomStream, low: u32, high: u32) -> u32 {
        let size = f64::from(high - low) + 1.0;
        let integral_at_last = integral(size + 0.5, self.exponent);
        loop {
            let u = integral_at_last + stream.next_double() * (self.integral_at_first - integral_at_last);
            let x = integral_inverse(u, self.exponent);
            let rank = (x + 0.5).floor().clamp(1.0, size);
            if rank - x <= self.shortcut || u >= integral(rank + 0.5, self.exponent) - density(rank, self.exponent) {
                return low + (rank - 1.0) as u32;
            }
        }
    }
}

/// H(x) = (x^(1-e) - 1) / (1-e), or ln x for e = 1.
fn integral(x: f64, exponent: f64) -> f64 {
    let log = x.ln();
    let t = (1.0 - exponent) * log;
    let factor = if t.abs() > 1e-8 {
        t.exp_m1() / t
    } else {
        1.0 + t * 0.5 * (1.0 + t / 3.0 * (1.0 + 0.25 * t))
    };
    factor * log
}

/// h(x) = x^-e, the derivative of H.
fn density(x: f64, exponent: f64) -> f64 {
    (-exponent * x.ln()).exp()
}

fn integral_inverse(x: f64, exponent: f64) -> f64 {
    // Rounding can push the value below -1, where the logarithm has no value.
    let t = (x * (1.0 - exponent)).max(-1.0);
    let factor = if t.abs() > 1e-8 {
        t.ln_1p() / t
    } else {
        1.0 - t * (0.5 - t * (1.0 / 3.0 - 0.25 * t))
    };
    (factor * x).exp()
}
