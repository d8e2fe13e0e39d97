//! Distributions of row numbers, as sysbench 1.0.20 defines them (its sb_rand.c), drawn from our own streams.
//!
//! zipfian is not in 1.0.20; it is taken from sysbench's development branch (1.1), where it has the exponent 0.8.

mod gaussian;
mod parameters;
mod pareto;
mod special;
mod uniform;
mod zipfian;

pub use gaussian::Gaussian;
pub use parameters::Parameters;
pub use pareto::Pareto;
pub use special::Special;
pub use uniform::Uniform;
pub use zipfian::Zipfian;

use crate::random::RandomStream;

/// One of the distributions, ready to draw.
#[derive(Debug, Clone)]
pub enum Distribution {
    /// Every value alike.
    Uniform(Uniform),
    /// Most values in a small hot range, the rest gaussian; sysbench 1.0.20's default.
    Special(Special),
    /// Mean of several uniform draws.
    Gaussian(Gaussian),
    /// Self-similar: share 1-h of the values in share h of the range.
    Pareto(Pareto),
    /// Frequency falls with the power of the rank.
    Zipfian(Zipfian),
}

/// Names of all distributions, in the order of `--help`.
pub const NAMES: [&str; 5] = ["uniform", "special", "gaussian", "pareto", "zipfian"];

impl Distribution {
    /// The distribution of that name.
    ///
    /// # Errors
    /// A sentence naming the value and what is allowed: unknown name, or a parameter outside its range.
    pub fn named(name: &str, parameters: &Parameters) -> Result<Self, String> {
        Ok(match name {
            "uniform" => Self::Uniform(Uniform),
            "special" => Self::Special(Special::new(parameters)?),
            "gaussian" => Self::Gaussian(Gaussian::new(parameters)?),
            "pareto" => Self::Pareto(Pareto::new(parameters)?),
            "zipfian" => Self::Zipfian(Zipfian::new(parameters)?),
            _ => {
                return Err(format!(
                    "'{name}' is not a distribution; use one of {}",
                    NAMES.join(", ")
                ))
            }
        })
    }

    /// A value in [low, high].
    #[inline]
    pub fn draw(&self, stream: &mut RandomStream, low: u32, high: u32) -> u32 {
        match self {
            Self::Uniform(uniform) => uniform.draw(stream, low, high),
            Self::Special(special) => special.draw(stream, low, high),
            Self::Gaussian(gaussian) => gaussian.draw(stream, low, high),
            Self::Pareto(pareto) => pareto.draw(stream, low, high),
            Self::Zipfian(zipfian) => zipfian.draw(stream, low, high),
        }
    }
}

#[cfg(test)]
mod tests;
