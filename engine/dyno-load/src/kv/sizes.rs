//! Values, and the sizes of keys and values: drawn from the key's number, so that a key keeps its sizes in every run.

use std::sync::LazyLock;

use dyno_core::random::{Domain, RandomStream};

/// How sizes are spread.
#[derive(Debug, Clone, PartialEq)]
pub enum Sizes {
    /// Always the same.
    Fixed(u32),
    /// Every size from the first to the second alike.
    Uniform(u32, u32),
    /// Sizes with the share of keys up to and with each, in 2^-32.
    Weighted(Vec<(u32, u32)>),
    /// Keys of Facebook's pool ETC: a generalized extreme value distribution with μ = 30.7984, σ = 8.20449, k = 0.078688
    /// (Atikoglu et al., "Workload analysis of a large-scale key-value store", SIGMETRICS 2012, §6), in the limits given.
    EtcKeys(u32, u32),
    /// Values of that pool: a generalized Pareto distribution with θ = 0, σ = 214.476, k = 0.348238; the paper's table for
    /// values below 15 bytes is not repeated.
    EtcValues(u32, u32),
}

impl Sizes {
    /// Reads sizes as people write them: `1024`, `uniform:100-2000`, `weighted:64=80,1024=15,8192=5`, `etc`.
    ///
    /// # Errors
    /// A sentence that names the value and shows the form.
    pub fn parse(text: &str, what: What) -> Result<Self, String> {
        let (low, high) = what.limits();
        let form = || {
            format!("'{text}' is not a size; write 1024, uniform:100-2000, weighted:64=80,1024=20 or etc, from {low} to {high}")
        };
        let number = |text: &str| text.trim().replace('_', "").parse::<u32>().map_err(|_| form());
        let sizes = match text.split_once(':') {
            None if text == "etc" => match what {
                What::Key => Self::EtcKeys(16, high),
                What::Value => Self::EtcValues(1, high),
            },
            None => Self::Fixed(number(text)?),
            Some(("uniform", range)) => {
                let (low, high) = range.split_once('-').ok_or_else(form)?;
                Self::Uniform(number(low)?, number(high)?)
            }
            Some(("weighted", list)) => Self::weighted(list).ok_or_else(form)?,
            Some(_) => return Err(form()),
        };
        if sizes.least() < low || sizes.greatest() > high || sizes.least() > sizes.greatest() {
            return Err(form());
        }
        Ok(sizes)
    }

    fn weighted(list: &str) -> Option<Self> {
        let mut parts = Vec::new();
        for part in list.split(',') {
            let (size, weight) = part.split_once('=')?;
            parts.push((size.trim().parse::<u32>().ok()?, weight.trim().parse::<f64>().ok()?));
        }
        let total: f64 = parts.iter().map(|(_, weight)| weight).sum();
        if !(total > 0.0 && total.is_finite() && parts.iter().all(|(_, weight)| *weight >= 0.0)) {
            return None;
        }
        let mut passed = 0.0;
        let mut limits: Vec<(u32, u32)> = Vec::new();
        for (size, weight) in parts {
            passed += weight / total;
            limits.push((size, (passed * f64::from(u32::MAX)) as u32));
        }
        limits.last_mut()?.1 = u32::MAX;
        Some(Self::Weighted(limits))
    }

    /// The least size.
    pub fn least(&self) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform(low, _) | Self::EtcKeys(low, _) | Self::EtcValues(low, _) => *low,
            Self::Weighted(limits) => limits.iter().map(|(size, _)| *size).min().unwrap_or(0),
        }
    }

    /// The greatest size.
    pub fn greatest(&self) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform(_, high) | Self::EtcKeys(_, high) | Self::EtcValues(_, high) => *high,
            Self::Weighted(limits) => limits.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }

    /// The size that belongs to a key's number.
    #[inline]
    pub fn of(&self, number: u64) -> usize {
        match self {
            Self::Fixed(size) => *size as usize,
            other => other.draw(number),
        }
    }

    fn draw(&self, number: u64) -> usize {
        // A seed of its own: sizes and contents of a key have nothing to do with each other.
        let mut stream = RandomStream::of(SIZE_SEED, Domain::Row, number);
        let clip = |size: f64, low: u32, high: u32| size.clamp(f64::from(low), f64::from(high)) as usize;
        match self {
            Self::Fixed(size) => *size as usize,
            Self::Uniform(low, high) => {
                let span = u64::from(high - low) + 1;
                (u64::from(*low) + ((u128::from(stream.next_u64()) * u128::from(span)) >> 64) as u64) as usize
            }
            Self::Weighted(limits) => {
                let draw = (stream.next_u64() >> 32) as u32;
                let at = limits.partition_point(|(_, limit)| *limit < draw);
                limits[at].0 as usize
            }
            Self::EtcKeys(low, high) => {
                let (location, scale, shape) = (30.7984, 8.20449, 0.078688);
                let size = location + scale / shape * (stream.next_exponential().powf(-shape) - 1.0);
                clip(size, *low, *high)
            }
            Self::EtcValues(low, high) => {
                let (scale, shape) = (214.476, 0.348238);
                clip(
                    scale / shape * ((1.0 - stream.next_double()).powf(-shape) - 1.0),
                    *low,
                    *high,
                )
            }
        }
    }
}

const SIZE_SEED: u64 = 0x51ce;

/// What has the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A key.
    Key,
    /// A value.
    Value,
}

impl What {
    fn limits(self) -> (u32, u32) {
        match self {
            Self::Key => (1, 250),
            Self::Value => (0, 64 * 1024 * 1024),
        }
    }
}

// Values that prove themselves: made from the key's number and a version, checked against both.
//
// A value of 32 bytes or more begins with its version in 16 hexadecimal digits; the rest is a stretch of one long random
// text whose start hangs on key and version. A shorter one is a stretch that hangs on the key alone. Making a value is a
// copy; checking it is a comparison.

/// The start of every stretch is below this.
const STARTS: usize = 64 * 1024;
const TEXT_SEED: u64 = 0x7e47;
const START_SEED: u64 = 0x57a7;
const VERSION_DIGITS: usize = 16;
/// Shortest value that has room for a version.
const VERSIONED: usize = 32;

/// Random text for the filler of keys; the same in every run.
pub static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| random_text(STARTS));

fn random_text(length: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut stream = RandomStream::of(TEXT_SEED, Domain::Row, 0);
    let mut text = Vec::with_capacity(length + 8);
    while text.len() < length {
        let bits = stream.next_u64();
        text.extend((0..8).map(|place| ALPHABET[(bits >> (place * 6) & 63) as usize]));
    }
    text.truncate(length);
    text
}

/// Makes and checks values.
#[derive(Debug, Clone)]
pub struct Values {
    sizes: Sizes,
    text: std::sync::Arc<Vec<u8>>,
}

impl Values {
    /// Values of these sizes.
    pub fn new(sizes: Sizes) -> Self {
        let text = std::sync::Arc::new(random_text(STARTS + sizes.greatest() as usize));
        Self { sizes, text }
    }

    /// Length of the value of a key.
    #[inline]
    pub fn length(&self, number: u64) -> usize {
        self.sizes.of(number)
    }

    #[inline]
    fn stretch(&self, number: u64, version: u64, length: usize) -> &[u8] {
        let start = RandomStream::of(START_SEED ^ version, Domain::Row, number).next_u64() as usize % STARTS;
        &self.text[start..start + length]
    }

    /// Writes the value of a key and a version over `out`.
    #[inline]
    pub fn write(&self, number: u64, version: u64, out: &mut Vec<u8>) {
        out.clear();
        let length = self.sizes.of(number);
        if length < VERSIONED {
            out.extend_from_slice(self.stretch(number, 0, length));
            return;
        }
        for place in (0..VERSION_DIGITS).rev() {
            out.push(b"0123456789abcdef"[(version >> (place * 4) & 15) as usize]);
        }
        out.extend_from_slice(self.stretch(number, version, length - VERSION_DIGITS));
    }

    /// Whether this is the value of the key in any version.
    pub fn is_right(&self, number: u64, value: &[u8]) -> bool {
        if value.len() != self.sizes.of(number) {
            return false;
        }
        if value.len() < VERSIONED {
            return value == self.stretch(number, 0, value.len());
        }
        let (digits, rest) = value.split_at(VERSION_DIGITS);
        let version = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok());
        version.is_some_and(|version| rest == self.stretch(number, version, rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mean(sizes: &Sizes) -> f64 {
        (0..200_000).map(|number| sizes.of(number) as f64).sum::<f64>() / 200_000.0
    }

    #[test]
    fn every_form_has_its_mean_and_its_limits() {
        let value = |text| Sizes::parse(text, What::Value).unwrap();
        assert_eq!(value("1_024"), Sizes::Fixed(1024));
        let uniform = value("uniform:100-300");
        assert!((mean(&uniform) - 200.0).abs() < 1.0);
        assert!((0..10_000).all(|number| (100..=300).contains(&uniform.of(number))));
        let weighted = value("weighted:10=75,1000=25");
        assert!((mean(&weighted) - 257.5).abs() < 4.0);
        // GEV: location + scale (Γ(1-k) - 1) / k; generalized Pareto: scale / (1 - k).
        let keys = Sizes::parse("etc", What::Key).unwrap();
        assert!((mean(&keys) - 36.0).abs() < 1.0, "{}", mean(&keys));
        assert!((mean(&value("etc")) - 329.0).abs() < 5.0, "{}", mean(&value("etc")));
    }

    #[test]
    fn what_is_no_size_is_refused_by_name() {
        for text in [
            "",
            "x",
            "-1",
            "251",
            "uniform:5",
            "uniform:9-3",
            "weighted:5",
            "weighted:5=0",
            "normal:3",
        ] {
            assert!(Sizes::parse(text, What::Key).unwrap_err().contains(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_value_is_right_for_its_key_and_wrong_when_anything_changes(
            number in 0u64..1 << 40, version: u64, length in 8u32..3000, place: usize, other in 0u64..1 << 40,
        ) {
            let values = Values::new(Sizes::Fixed(length));
            let mut value = Vec::new();
            values.write(number, version, &mut value);
            prop_assert_eq!(value.len(), length as usize);
            prop_assert!(values.is_right(number, &value));
            prop_assert!(value.iter().all(u8::is_ascii_graphic));
            if other != number {
                // Another key's value could be the same only where its stretch starts at the same place.
                let mut theirs = Vec::new();
                values.write(other, version, &mut theirs);
                prop_assert_eq!(values.is_right(number, &theirs), theirs == value);
            }
            let place = place % value.len();
            value[place] ^= 1;
            prop_assert!(!values.is_right(number, &value));
            value[place] ^= 1;
            prop_assert!(!values.is_right(number, &value[1..]));
        }
    }
}
