//! Distributions of row numbers, as sysbench 1.0.20 defines them (its sb_rand.c), drawn from our own streams.
//!
//! zipfian is not in 1.0.20; it is taken from sysbench's development branch (1.1), where it has the exponent 0.8.

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

/// The parameters of all distributions, with sysbench's defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Number of draws whose mean makes a gaussian value (`--rand-spec-iter`).
    pub special_iterations: u32,
    /// Share of the range that is special, in percent (`--rand-spec-pct`).
    pub special_percent: u32,
    /// Share of the values that fall in the special range, in percent, below 100 (`--rand-spec-res`).
    pub special_values_percent: u32,
    /// Shape h of the pareto distribution, in (0, 1) (`--rand-pareto-h`).
    pub pareto_h: f64,
    /// Exponent of the zipfian distribution, at least 0 (`--rand-zipfian-exp`).
    pub zipfian_exponent: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            special_iterations: 12,
            special_percent: 1,
            special_values_percent: 75,
            pareto_h: 0.2,
            zipfian_exponent: 0.8,
        }
    }
}

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

// Zipfian by rejection inversion: Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
// discrete distributions", ACM TOMACS 6.3 (1996), with the integral that Apache Commons RNG uses for every exponent.

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::Domain;

    const DRAWS: u64 = 200_000;

    fn draws(name: &str, low: u32, high: u32) -> Vec<f64> {
        let distribution = Distribution::named(name, &Parameters::default()).unwrap();
        (0..DRAWS)
            .map(|number| {
                let mut stream = RandomStream::of(11, Domain::Operation, number);
                f64::from(distribution.draw(&mut stream, low, high))
            })
            .collect()
    }

    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    fn share(values: &[f64], inside: impl Fn(f64) -> bool) -> f64 {
        values.iter().filter(|value| inside(**value)).count() as f64 / values.len() as f64
    }

    #[test]
    fn uniform_has_its_mean_and_deviation() {
        let (mean, deviation) = moments(&draws("uniform", 1, 1000));
        assert!((mean - 500.5).abs() < 2.0, "{mean}");
        assert!((deviation - 288.675).abs() < 1.5, "{deviation}");
    }

    #[test]
    fn gaussian_is_the_mean_of_twelve_uniform_draws() {
        // Twelve draws on a range of 1000: deviation 1000 / 12.
        let (mean, deviation) = moments(&draws("gaussian", 1, 1000));
        assert!((mean - 500.5).abs() < 1.0, "{mean}");
        assert!((deviation - 1000.0 / 12.0).abs() < 0.7, "{deviation}");
    }

    #[test]
    fn special_puts_three_quarters_of_the_values_in_a_hot_hundredth() {
        let values = draws("special", 1, 1_000_001);
        // d = 10,000 around the middle; the reused first draw lies in [1/4, 1): the hot values fill 3/4 of it.
        let hot = share(&values, |value| (497_000.0..=505_001.0).contains(&value));
        // 75 % hot, and of the 25 % gaussian (deviation 1/12) those that fall there by chance: 8,001 wide, near the peak.
        let by_chance = 0.25 * 8_001.0 / (1_000_000.0 / 12.0) * (2.0 * std::f64::consts::PI).sqrt().recip();
        assert!((hot - 0.75 - by_chance).abs() < 0.005, "{hot}");
        let (lowest, highest) = values
            .iter()
            .fold((f64::MAX, 0f64), |(low, high), v| (low.min(*v), high.max(*v)));
        assert!(lowest >= 1.0 && highest <= 1_000_001.0);
    }

    #[test]
    fn pareto_is_self_similar() {
        let values = draws("pareto", 1, 1_000_000);
        let head = share(&values, |value| value <= 200_000.0);
        assert!((head - 0.8).abs() < 0.005, "{head}");
        let inner = share(&values, |value| value <= 40_000.0);
        assert!((inner - 0.64).abs() < 0.005, "{inner}");
    }

    #[test]
    fn zipfian_frequencies_follow_the_power_of_the_rank() {
        let values = draws("zipfian", 1, 1000);
        let harmonic: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.8)).sum();
        for rank in [1.0f64, 2.0, 5.0, 50.0] {
            let expected = rank.powf(-0.8) / harmonic;
            let seen = share(&values, |value| value == rank);
            let tolerance = 5.0 * (expected / DRAWS as f64).sqrt();
            assert!(
                (seen - expected).abs() < tolerance,
                "rank {rank}: {seen} not {expected}"
            );
        }
    }

    #[test]
    fn zipfian_with_exponent_zero_is_uniform_and_one_is_allowed() {
        for (exponent, mean_expected) in [(0.0, 50.5), (1.0, 100.0 / 5.187_377_517_639_621)] {
            let parameters = Parameters {
                zipfian_exponent: exponent,
                ..Parameters::default()
            };
            let zipfian = Zipfian::new(&parameters).unwrap();
            let mut stream = RandomStream::of(2, Domain::Operation, 0);
            let mean = (0..100_000)
                .map(|_| f64::from(zipfian.draw(&mut stream, 1, 100)))
                .sum::<f64>()
                / 100_000.0;
            assert!(
                (mean - mean_expected).abs() < 0.5,
                "exponent {exponent}: {mean} not {mean_expected}"
            );
        }
    }

    #[test]
    fn wrong_names_and_parameters_are_refused_with_the_value() {
        let refuse = |name: &str, change: fn(&mut Parameters)| {
            let mut parameters = Parameters::default();
            change(&mut parameters);
            Distribution::named(name, &parameters).unwrap_err()
        };
        assert!(refuse("normal", |_| ()).contains("normal"));
        assert!(refuse("special", |p| p.special_values_percent = 100).contains("100"));
        assert!(refuse("special", |p| p.special_percent = 101).contains("101"));
        assert!(refuse("gaussian", |p| p.special_iterations = 0).contains('0'));
        assert!(refuse("pareto", |p| p.pareto_h = 1.0).contains('1'));
        assert!(refuse("zipfian", |p| p.zipfian_exponent = -0.5).contains("-0.5"));
    }

    proptest! {
        #[test]
        fn every_value_is_inside_the_range(seed: u64, number: u64, low in 0u32..1000, size in 0u32..3_000_000) {
            for name in NAMES {
                let distribution = Distribution::named(name, &Parameters::default()).unwrap();
                let mut stream = RandomStream::of(seed, Domain::Operation, number);
                let value = distribution.draw(&mut stream, low, low + size);
                prop_assert!((low..=low + size).contains(&value), "{name} gave {value}");
            }
        }
    }
}
