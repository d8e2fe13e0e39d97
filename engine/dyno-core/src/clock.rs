//! The one clock of the engine: `CLOCK_MONOTONIC_RAW` in nanoseconds (clock_gettime(2)); and durations as people write
//! them.
//!
//! Raw, so that NTP never slews an interval; 25 to 48 ns a reading through the vDSO. Its zero means nothing: only
//! differences do. Wall-clock time is for labels alone: it may be set at any moment.

use std::time::Duration;

use nix::time::{clock_gettime, ClockId};

/// Nanoseconds of the monotonic raw clock.
///
/// # Panics
/// When the kernel has no such clock (Linux before 2.6.28).
#[inline]
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC_RAW).expect("Linux has CLOCK_MONOTONIC_RAW since 2.6.28");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Seconds of `CLOCK_MONOTONIC`, with fractions: by it other programs of this host place what was measured here.
///
/// # Panics
/// When the kernel has no such clock (Linux before 2.6).
pub fn shared_monotonic_s() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has CLOCK_MONOTONIC");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Seconds since 1970 of the wall clock, with fractions: a label for people and logs, never a measure.
pub fn wall_clock_s() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// Reads a duration. Fractions are allowed (`1.5s`); negative, empty or unknown units are errors that name the value.
///
/// # Errors
/// A sentence for the person who typed it.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|character: char| character.is_ascii_alphabetic())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let scale = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "'{text}' has the unknown unit '{unit}'; use ns, us, ms, s, m or h, as in 30s"
            ))
        }
    };
    let value: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("'{text}' is not a duration; write a number with a unit, as in 30s or 1.5m"))?;
    if !value.is_finite() || value < 0.0 || value * scale > 1e9 {
        return Err(format!("'{text}' is not a duration from 0 s to 1,000,000,000 s"));
    }
    Ok(Duration::from_secs_f64(value * scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn every_unit_is_read_and_a_bare_number_is_seconds() {
        for (text, nanoseconds) in [
            ("7ns", 7),
            ("500us", 500_000),
            ("10ms", 10_000_000),
            ("1.5s", 1_500_000_000),
            ("2", 2_000_000_000),
            ("3m", 180_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_nanos(), nanoseconds, "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_by_name() {
        for text in ["", "s", "-1s", "10 fortnights", "NaN", "inf", "1e300s"] {
            assert!(parse_duration(text).unwrap_err().contains(text), "{text}");
        }
    }
}
