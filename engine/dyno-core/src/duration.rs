//! Durations as people write them: `500us`, `10ms`, `30s`, `5m`, `2h`; a bare number is seconds.

use std::time::Duration;

/// Reads a duration. Fractions are allowed (`1.5s`); negative, empty or unknown units are errors that name the value.
///
/// # Errors
/// A sentence for the person who typed it.
pub fn parse(text: &str) -> Result<Duration, String> {
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
            assert_eq!(parse(text).unwrap().as_nanos(), nanoseconds, "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_by_name() {
        for text in ["", "s", "-1s", "10 fortnights", "NaN", "inf", "1e300s"] {
            assert!(parse(text).unwrap_err().contains(text), "{text}");
        }
    }
}
