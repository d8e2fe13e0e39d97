//! How values are read from the command line.

use std::ffi::OsString;
use std::time::Duration;

/// sysbench takes `--table_size` for `--table-size`; so do we.
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
    dyno_core::duration::parse(text)
}

/// A duration above 0.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("0 is too short; give a time above 0, as in 30s".into()),
        value => Ok(value),
    }
}

/// A count of at least 1; underscores are allowed.
pub fn count(text: &str) -> Result<u32, String> {
    match number(text)? {
        0 => Err("0 is too few; give at least 1".into()),
        value => Ok(value),
    }
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
        .map_err(|_| format!("'{text}' is no whole number up to {}", u32::MAX))
}

/// on or off.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(format!("'{text}' is neither on nor off")),
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
        assert!(number("-1").is_err() && switch("maybe").is_err());
    }
}
