//! How values are read from the command line.

use std::ffi::OsString;
use std::time::Duration;

/// As in sysbench, `--table_size` is accepted for `--table-size`.
pub fn dashes(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.starts_with("--") => {
            let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
            format!("{}{value}", name.replace('_', "-")).into()
        }
        _ => argument,
    }
}

/// A duration as in 30s.
pub fn duration(text: &str) -> Result<Duration, String> {
    dyno_core::clock::parse_duration(text)
}

/// The length of a measurement or of an interval: shorter ones are beyond what the kernel counts CPU time by.
pub fn measurable_duration(text: &str) -> Result<Duration, String> {
    match positive_duration(text)? {
        value if value < Duration::from_millis(1) => {
            Err(format!("'{text}' is too short; give at least 1 ms, as in 100ms"))
        }
        value => Ok(value),
    }
}

/// A duration above 0.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("0 is too short; use a time above 0, as in 30s".into()),
        value => Ok(value),
    }
}

/// A count of at least 1; underscores are allowed.
pub fn count(text: &str) -> Result<u32, String> {
    match number(text)? {
        0 => Err("0 is too few; use at least 1".into()),
        value => Ok(value),
    }
}

/// A whole number from `LOW` to `HIGH`; underscores are allowed.
pub fn within<const LOW: u32, const HIGH: u32>(text: &str) -> Result<u32, String> {
    let outside = || format!("'{text}' is not allowed; use a whole number of at least {LOW} and at most {HIGH}");
    match text.replace('_', "").parse() {
        Ok(value) if (LOW..=HIGH).contains(&value) => Ok(value),
        _ => Err(outside()),
    }
}

/// Most connections of a run: the kernel's default limit of open files (fs.nr_open) is near.
pub const MOST_CONNECTIONS: u32 = 1_000_000;
/// Most threads of a host.
pub const MOST_THREADS: u32 = 1024;

/// A number of connections.
pub fn connections(text: &str) -> Result<u32, String> {
    within::<1, MOST_CONNECTIONS>(text)
}

/// A number of threads.
pub fn threads(text: &str) -> Result<u32, String> {
    within::<1, MOST_THREADS>(text)
}

/// A count of at least 1; 10k is 10,240, as memaslap reads it.
pub fn kilo(text: &str) -> Result<u32, String> {
    match text.strip_suffix('k') {
        Some(thousands) => count(thousands)?
            .checked_mul(1024)
            .ok_or_else(|| format!("'{text}' is above {}", u32::MAX)),
        None => count(text),
    }
}

/// A count of at least 0; underscores are allowed.
pub fn number(text: &str) -> Result<u32, String> {
    text.replace('_', "")
        .parse()
        .map_err(|_| format!("'{text}' is not a whole number up to {}", u32::MAX))
}

/// on or off.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(format!("'{text}' is neither on nor off")),
    }
}

/// The speed of a replay: a factor, none for max.
///
/// # Errors
/// A sentence on what is allowed.
pub fn speed(text: &str) -> Result<Option<f64>, String> {
    match (text, text.parse::<f64>()) {
        ("original", _) => Ok(Some(1.0)),
        ("max", _) => Ok(None),
        (_, Ok(factor)) if (0.001..=1000.0).contains(&factor) => Ok(Some(factor)),
        _ => Err(format!(
            "'{text}' is no speed; use original, max, or a factor from 0.001 to 1000 as in 2"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_an_option_loses_its_underscores() {
        assert_eq!(dashes("--table_size=1_000".into()), "--table-size=1_000");
        assert_eq!(dashes("oltp_read_only".into()), "oltp_read_only");
    }

    #[test]
    fn zero_is_no_count_and_no_length() {
        assert!(count("0").is_err() && positive_duration("0s").is_err());
        assert_eq!(count("1_000"), Ok(1000));
        assert!(within::<2, 5>("1").is_err() && within::<2, 5>("6").is_err() && within::<2, 5>("99999999999").is_err());
        assert_eq!(within::<2, 5>("5"), Ok(5));
        assert!(measurable_duration("999us").is_err() && measurable_duration("1ms").is_ok());
        assert!(number("-1").is_err() && switch("maybe").is_err());
    }
}
