//! The times in logs: seconds in local time (`261123  9:41:03`), or RFC 3339 with microseconds.

use time::{Date, Month, PrimitiveDateTime, Time};

/// A time in µs since 1970, by the clock of the log (local time where the log has that).
pub type Micros = i64;

/// A whole number without a sign; leading blanks as `%2d` prints them.
fn number(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.trim_ascii_start();
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The digits after a decimal point, as µs.
fn fraction_us(digits: &[u8]) -> Option<i64> {
    let known = &digits[..digits.len().min(6)];
    Some(number(known)? * 10i64.pow(6 - known.len() as u32))
}

fn micros(year: i64, month: i64, day: i64, clock: (i64, i64, i64), fraction_us: i64) -> Option<Micros> {
    let small = |value: i64| u8::try_from(value).ok();
    let month = Month::try_from(small(month)?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, small(day)?).ok()?;
    // A leap second counts as the one before it.
    let time = Time::from_hms(small(clock.0)?, small(clock.1)?, small(clock.2.min(59))?).ok()?;
    let seconds = PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp();
    Some(seconds * 1_000_000 + fraction_us)
}

/// `YYMMDD HH:MM:SS`, the hour with a blank in front where it has one digit; Percona Server before 5.7 writes a fraction too.
pub fn short(bytes: &[u8]) -> Option<Micros> {
    let (date, clock) = bytes.split_at_checked(6)?;
    let clock = clock.strip_prefix(b" ")?;
    let (clock, fraction) = clock.split_at_checked(8)?;
    if clock[2] != b':' || clock[5] != b':' {
        return None;
    }
    let fraction_us = match fraction.strip_prefix(b".") {
        Some(digits) => fraction_us(digits)?,
        None if fraction.is_empty() => 0,
        None => return None,
    };
    let two = |from: usize| number(&date[from..from + 2]);
    let year = two(0)?;
    let century = if year < 70 { 2000 } else { 1900 };
    let clock = (number(&clock[..2])?, number(&clock[3..5])?, number(&clock[6..])?);
    micros(century + year, two(2)?, two(4)?, clock, fraction_us)
}

/// `2026-11-23T09:41:03.123456Z`, or with an offset as in `+02:00`.
pub fn rfc3339(bytes: &[u8]) -> Option<Micros> {
    let at = |from: usize, to: usize| number(bytes.get(from..to)?);
    let fixed = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !fixed.iter().all(|(place, byte)| bytes.get(*place) == Some(byte)) {
        return None;
    }
    let mut rest = bytes.get(19..)?;
    let mut fraction_us = 0;
    if let Some(after) = rest.strip_prefix(b".") {
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        fraction_us = self::fraction_us(&after[..digits])?;
        rest = &after[digits..];
    }
    let offset_s = match rest {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), clock @ ..] if clock.len() == 5 && clock[2] == b':' => {
            let offset_s = number(&clock[..2])? * 3600 + number(&clock[3..])? * 60;
            if *sign == b'-' {
                -offset_s
            } else {
                offset_s
            }
        }
        _ => return None,
    };
    let clock = (at(11, 13)?, at(14, 16)?, at(17, 19)?);
    Some(micros(at(0, 4)?, at(5, 7)?, at(8, 10)?, clock, fraction_us)? - offset_s * 1_000_000)
}

/// A time as people write it.
pub fn show(at: Micros) -> Option<String> {
    let moment = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1000).ok()?;
    let (date, time) = (moment.date(), moment.time());
    Some(format!(
        "{date}T{:02}:{:02}:{:02}.{:06}",
        time.hour(),
        time.minute(),
        time.second(),
        time.microsecond()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_times_are_read() {
        let base = rfc3339(b"2026-11-23T09:41:03Z").unwrap();
        assert_eq!(short(b"261123  9:41:03"), Some(base));
        assert_eq!(short(b"261123 09:41:03"), Some(base));
        assert_eq!(short(b"261123  9:41:03.000007"), Some(base + 7));
        assert_eq!(rfc3339(b"2026-11-23T09:41:03.000007Z"), Some(base + 7));
        assert_eq!(rfc3339(b"2026-11-23T11:41:03.5+02:00"), Some(base + 500_000));
        assert_eq!(show(base + 7).unwrap(), "2026-11-23T09:41:03.000007");
    }

    #[test]
    fn what_is_no_time_is_none() {
        for wrong in [
            "",
            "261323  9:41:03",
            "261123 25:41:03",
            "261123\t9:41:03",
            "26112  9:41:03",
            "261123  9:41:03.",
            "261123  9:41:03x",
            "éééééé 9:41:03",
        ] {
            assert_eq!(short(wrong.as_bytes()), None, "{wrong}");
        }
        for wrong in [
            "",
            "2026-11-23T09:41:03",
            "2026-11-23 09:41:03Z",
            "2026-02-30T09:41:03Z",
            "2026-11-23T09:41:03.Z",
        ] {
            assert_eq!(rfc3339(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
