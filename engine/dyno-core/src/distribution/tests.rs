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
