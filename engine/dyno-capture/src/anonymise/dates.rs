//! Pseudonyms of dates and times.

use super::permutation::{kind, Digit, Permutation};

/// The years of a TIMESTAMP.
const FIRST_YEAR: u16 = 1971;
const LAST_YEAR: u16 = 2037;
/// The years of which each month is also a day of 2020: 200112.
const DATED_YEARS: std::ops::RangeInclusive<u16> = 2001..=2012;
/// The largest TIME is 838:59:59.
const LARGEST_HOURS: &str = "838";
const LARGEST_MINUTES: &str = "59:59";
/// The days of these years are numbers of two digits of this radix.
const DAY_RADIX: u16 = 157;

impl Permutation {
    /// `2026-11-23` or `26-11-23`, also with a time and with an offset; `2026-11`.
    pub(super) fn date_and_time(&self, text: &str) -> Option<Vec<u8>> {
        let has_century = text.as_bytes().get(2) != Some(&b'-');
        if let (true, Some((year, month))) = (has_century && text.len() == 7, text.split_once('-')) {
            let made = self.period(&format!("{year}{month}"))?;
            return Some(format!("{}-{}", &made[..4], &made[4..]).into_bytes());
        }
        let (date, rest) = text.split_at_checked(if has_century { 10 } else { 8 })?;
        let made = if has_century {
            self.date(date)
        } else {
            self.short_date(date)
        }?;
        let Some(time) = rest.strip_prefix([' ', 'T']) else {
            return rest.is_empty().then(|| made.into_bytes());
        };
        let end = time.find(['Z', '+', '-']).unwrap_or(time.len());
        let (time, offset) = time.split_at(end);
        let is_offset = offset
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"Z+-:".contains(&byte));
        let time = self.clock_time(time).filter(|_| is_offset)?;
        Some([&made, &rest[..1], &time, offset].concat().into_bytes())
    }

    /// A date of digits alone, with a time or without; a period of a year and a month.
    pub(super) fn compact_date(&self, text: &str) -> Option<String> {
        if !is_compact_date(text) {
            return None;
        }
        if let Some(made) = self.period(text) {
            return Some(made);
        }
        let (date, time) = text.split_at(date_length(text));
        let mut made = date.to_string();
        loop {
            let dashed = with_marks(&made, '-');
            let drawn = if date.len() == 6 {
                self.short_date(&dashed)
            } else {
                self.date(&dashed)
            }?;
            made = drawn.replace('-', "");
            // Periods are among themselves.
            if !is_period(&made) || !time.is_empty() {
                break;
            }
        }
        let clock = match time {
            "" => String::new(),
            _ => self.clock_time(&with_marks(time, ':'))?.replace(':', ""),
        };
        Some(made + &clock)
    }

    /// `202611`: years and months, of which those that are dates too (2020-01-12) are among themselves.
    fn period(&self, text: &str) -> Option<String> {
        if !is_period(text) {
            return None;
        }
        let (year, month): (u16, u16) = (text[..4].parse().ok()?, text[4..].parse().ok()?);
        let is_date = DATED_YEARS.contains(&year);
        let years: Vec<u16> = (FIRST_YEAR..=LAST_YEAR)
            .filter(|year| DATED_YEARS.contains(year) == is_date)
            .collect();
        let mut digits = [
            Digit {
                value: years.iter().position(|one| *one == year)? as u16,
                radix: years.len() as u16,
            },
            Digit {
                value: month - 1,
                radix: 12,
            },
        ];
        self.permute(kind::DATE, &mut digits);
        Some(format!(
            "{:04}{:02}",
            years[usize::from(digits[0].value)],
            digits[1].value + 1
        ))
    }

    /// `2611`, where only a period can be.
    pub(super) fn short_period(&self, text: &str) -> String {
        let made = self.period(&format!("{}{text}", century(text)));
        made.map_or_else(|| text.to_string(), |made| made[2..].to_string())
    }

    /// `26-11-23`.
    fn short_date(&self, text: &str) -> Option<String> {
        let made = self.date(&format!("{}{text}", century(text)))?;
        Some(made[2..].to_string())
    }

    /// A day of a TIMESTAMP's years by another one; others, such as 0000-00-00 and 9999-12-31, stay.
    pub(super) fn date(&self, text: &str) -> Option<String> {
        let [year, month, day] = numbers(text, '-', [4, 2, 2])?;
        if month > 12 || day > 31 {
            return None;
        }
        if !(FIRST_YEAR..=LAST_YEAR).contains(&year) || month == 0 || day == 0 || day > days(year, month) {
            return Some(text.to_string());
        }
        let months = (FIRST_YEAR..=year).flat_map(|one| (1..=12).map(move |month| (one, month)));
        let before: u16 = months
            .take_while(|one| *one != (year, month))
            .map(|(year, month)| days(year, month))
            .sum();
        let all: u16 = (FIRST_YEAR..=LAST_YEAR).map(|year| 337 + days(year, 2)).sum();
        let number = before + day - 1;
        let digit = |value| Digit {
            value,
            radix: DAY_RADIX,
        };
        let mut digits = [digit(number / DAY_RADIX), digit(number % DAY_RADIX)];
        let number = |digits: &[Digit]| digits[0].value * DAY_RADIX + digits[1].value;
        self.permute_within(kind::DATE, &mut digits, |digits| number(digits) < all);
        let (mut year, mut month, mut left) = (FIRST_YEAR, 1, number(&digits));
        while left >= days(year, month) {
            left -= days(year, month);
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        }
        Some(format!("{year:04}-{month:02}-{:02}", left + 1))
    }

    /// `10:30:00.123456`. Midnight stays; in the hours in which clocks are set, the hour stays.
    pub(super) fn clock_time(&self, text: &str) -> Option<String> {
        let (mut digits, fraction) = clock_fields(text)?;
        if !matches!(digits.len(), 2 | 3) || digits[0].value > 23 {
            return None;
        }
        digits[0].radix = 24;
        let hour = digits[0].value;
        self.permute_clock(&mut digits, |digits| {
            let made = digits[0].value;
            if hour < 4 {
                made == hour
            } else {
                made >= 4
            }
        });
        Some(self.shown(&digits, fraction))
    }

    /// Minutes and seconds; those of a full hour stay.
    fn minutes(&self, text: &str) -> Option<String> {
        let (mut digits, fraction) = clock_fields(text).filter(|(digits, _)| digits.len() <= 2)?;
        self.permute_clock(&mut digits, |_| true);
        Some(self.shown(&digits, fraction))
    }

    fn permute_clock(&self, digits: &mut [Digit], is_member: impl Fn(&[Digit]) -> bool) {
        let is_zero = |digits: &[Digit]| digits.iter().all(|digit| digit.value == 0);
        if !is_zero(digits) {
            self.permute_within(kind::TIME, digits, |digits| is_member(digits) && !is_zero(digits));
        }
    }

    fn shown(&self, digits: &[Digit], fraction: &str) -> String {
        let shown: Vec<String> = digits.iter().map(|digit| format!("{:02}", digit.value)).collect();
        let significant = fraction.trim_start_matches('.').trim_end_matches('0');
        let (point, rest) = fraction.split_at(fraction.len().min(1));
        let fraction = [point, &self.fraction(significant), &rest[significant.len()..]].concat();
        shown.join(":") + &fraction
    }

    /// A TIME: `10:30`, `-100:30:00.5`, `3 10:30:00`. Days, hours beyond 23, and the largest one of all stay.
    pub(super) fn time(&self, text: &str) -> Option<Vec<u8>> {
        let is_number =
            |field: &str, most| (1..=most).contains(&field.len()) && field.bytes().all(|byte| byte.is_ascii_digit());
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (days, clock) = unsigned.split_once(' ').unwrap_or(("0", unsigned));
        if !is_number(days, 2) {
            return None;
        }
        let before = &text[..text.len() - clock.len()];
        if let Some(made) = self.clock_time(clock) {
            return Some([before, &made].concat().into_bytes());
        }
        let (hours, rest) = clock.split_once(':').filter(|(hours, _)| is_number(hours, 3))?;
        let is_largest = |rest: &str| hours == LARGEST_HOURS && rest.starts_with(LARGEST_MINUTES);
        let mut made = rest.to_string();
        if !is_largest(rest) {
            made = self.minutes(&made)?;
            while is_largest(&made) {
                made = self.minutes(&made)?;
            }
        }
        Some([before, hours, ":", &made].concat().into_bytes())
    }

    /// A date in a format of its own, for STR_TO_DATE: fields of two digits become 01 to 12, which are hours, days and
    /// months; years become years.
    pub(super) fn formatted_date(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        for part in text.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
            let mut digits: Vec<Digit> = part
                .iter()
                .map(|byte| Digit {
                    value: u16::from(byte % 10),
                    radix: 10,
                })
                .collect();
            let drawn = |permutation: &Self, digits: &mut [Digit]| {
                permutation.permute(kind::DATE, digits);
                digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit.value))
            };
            match (part[0].is_ascii_digit(), part.len()) {
                (true, 1) => out.extend((drawn(self, &mut digits) % 9 + 1).to_string().into_bytes()),
                (true, 2) => out.extend(format!("{:02}", drawn(self, &mut digits) % 12 + 1).into_bytes()),
                (true, 4) => out.extend((drawn(self, &mut digits) % 67 + 1971).to_string().into_bytes()),
                (true, _) => out.extend(self.text(part, |_| false)),
                _ => out.extend_from_slice(part),
            }
        }
        out
    }
}

/// The two-digit numbers of a time, up to 59 each, and its fraction with the point.
fn clock_fields(text: &str) -> Option<(Vec<Digit>, &str)> {
    let (clock, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let field = |field: &str| {
        let value = field.parse().ok().filter(|value| *value < 60)?;
        (field.len() == 2 && is_number(field)).then_some(Digit { value, radix: 60 })
    };
    let digits: Option<Vec<Digit>> = clock.split(':').map(field).collect();
    digits
        .filter(|_| is_number(fraction.trim_start_matches('.')))
        .map(|digits| (digits, fraction))
}

/// Whether digits alone are a date that servers read, with a time or without, or a period.
pub(super) fn is_compact_date(text: &str) -> bool {
    if !matches!(text.len(), 6 | 8 | 12 | 14) || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let (date, time) = text.split_at(date_length(text));
    let number = |text: &str| text.parse::<u16>().unwrap_or(0);
    let field = |from: usize| number(&date[date.len() - from..date.len() - from + 2]);
    let (month, day) = (field(4), field(2));
    let is_date = if date.len() == 6 {
        let year = number(&format!("{}{}", century(date), &date[..2]));
        (FIRST_YEAR..=LAST_YEAR).contains(&year) && (1..=12).contains(&month) && (1..=days(year, month)).contains(&day)
    } else {
        month <= 12 && day <= 31
    };
    let is_clock = || clock_fields(&with_marks(time, ':')).is_some_and(|(digits, _)| digits[0].value < 24);
    is_period(text) || is_date && (time.is_empty() || is_clock())
}

fn date_length(text: &str) -> usize {
    if matches!(text.len(), 6 | 12) {
        6
    } else {
        8
    }
}

fn is_period(text: &str) -> bool {
    let number = |text: &str| text.parse::<u16>().unwrap_or(0);
    text.len() == 6
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (FIRST_YEAR..=LAST_YEAR).contains(&number(&text[..4]))
        && (1..=12).contains(&number(&text[4..]))
}

/// The first two digits of the year of which these are the last two.
fn century(text: &str) -> &'static str {
    if text.get(..2).is_some_and(|year| year < "70") {
        "20"
    } else {
        "19"
    }
}

/// `2026-11-23` of `20261123`, `10:30:59` of `103059`.
fn with_marks(text: &str, mark: char) -> String {
    let (first, rest) = text.split_at(text.len().saturating_sub(4));
    let (second, third) = rest.split_at(rest.len() / 2);
    format!("{first}{mark}{second}{mark}{third}")
}

fn days(year: u16, month: u16) -> u16 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The numbers of a text with separators, each of so many digits.
fn numbers(text: &str, separator: char, lengths: [usize; 3]) -> Option<[u16; 3]> {
    let parts: Vec<&str> = text.split(separator).collect();
    let is_number = |(part, length): (&&str, usize)| part.len() == length && part.bytes().all(|b| b.is_ascii_digit());
    let is_each = parts.len() == 3 && parts.iter().zip(lengths).all(is_number);
    let value = |place: usize| parts[place].parse().ok();
    is_each.then(|| Some([value(0)?, value(1)?, value(2)?])).flatten()
}

/// A date as servers read it too, such as 2026/1/5, 26/11/23 or 2026.11.23 10:30.
pub(super) fn has_free_separators(text: &str) -> bool {
    let parts: Vec<&str> = text.split(|character: char| !character.is_ascii_digit()).collect();
    let is_field = |part: &&str| matches!(part.len(), 1 | 2);
    let is_mark = |byte: u8| byte.is_ascii_digit() || b"-/.: T".contains(&byte);
    let is_of = |place: usize, most: u16| parts[place].parse().is_ok_and(|value| (1..=most).contains(&value));
    (3..=6).contains(&parts.len())
        && (parts[0].len() == 4 || parts[0].len() == 2 && is_of(1, 12) && is_of(2, 31))
        && parts[1..].iter().all(is_field)
        && text.bytes().all(is_mark)
}
