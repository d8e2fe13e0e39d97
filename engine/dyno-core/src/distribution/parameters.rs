//! What sets the distributions.

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
