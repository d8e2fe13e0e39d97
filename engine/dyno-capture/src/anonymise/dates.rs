//! Pseudonyms of dates and times.

use super::permutation::{kind, Digit, Permutation};

/// The years of a TIMESTAMP.
const FIRST_YEAR: u16 = 1971;
const LAST_YEAR: u16 = 2037;
/// The days of these years are numbers of two digits of this radix.
const DAY_RADIX: u16 = 157;

impl Permutation {
    /// `2026-11-23`, also with a time and with an offset.
    pub(super) fn date_and_time(&self, text: &str) -> Option<Vec<u8>> {
        let date = text.get(..10)?;
        let made = self.date(date)?;
        let rest = &text[10..];
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
        let (clock, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
        let fields: Vec<&str> = clock.split(':').collect();
        let is_clock = matches!(fields.len(), 2 | 3)
            && fields
                .iter()
                .all(|field| field.len() == 2 && field.bytes().all(|byte| byte.is_ascii_digit()))
            && fraction.bytes().skip(1).all(|byte| byte.is_ascii_digit());
        let values: Vec<u16> = fields.iter().filter_map(|field| field.parse().ok()).collect();
        if !is_clock || values[0] > 23 || values[1..].iter().any(|value| *value > 59) {
            return None;
        }
        let digits = values.iter().enumerate().map(|(place, value)| Digit {
            value: *value,
            radix: if place == 0 { 24 } else { 60 },
        });
        let mut digits: Vec<Digit> = digits.collect();
        let is_midnight = |digits: &[Digit]| digits.iter().all(|digit| digit.value == 0);
        if !is_midnight(&digits) {
            let hour = digits[0].value;
            self.permute_within(kind::TIME, &mut digits, |digits| {
                let made = digits[0].value;
                let is_same = if hour < 4 { made == hour } else { made >= 4 };
                is_same && !is_midnight(digits)
            });
        }
        let shown: Vec<String> = digits.iter().map(|digit| format!("{:02}", digit.value)).collect();
        let significant = fraction.trim_start_matches('.').trim_end_matches('0');
        let (point, rest) = fraction.split_at(fraction.len().min(1));
        Some(
            [
                &shown.join(":"),
                point,
                &self.fraction(significant),
                &rest[significant.len()..],
            ]
            .concat(),
        )
    }

    /// A TIME: `10:30`, `-100:30:00.5`.
    pub(super) fn time(&self, text: &str) -> Option<Vec<u8>> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let sign = &text[..text.len() - unsigned.len()];
        if let Some(made) = self.clock_time(unsigned) {
            return Some([sign, &made].concat().into_bytes());
        }
        let (hours, rest) = unsigned.split_once(':')?;
        let is_hours = matches!(hours.len(), 1..=3) && hours.bytes().all(|byte| byte.is_ascii_digit());
        let made = self.clock_time(&format!("10:{rest}")).filter(|_| is_hours)?;
        Some([sign, hours, &made[2..]].concat().into_bytes())
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

/// A date as servers read it too, such as 2026/1/5 or 2026.11.23 10:30.
pub(super) fn has_free_separators(text: &str) -> bool {
    let parts: Vec<&str> = text.split(|character: char| !character.is_ascii_digit()).collect();
    let is_field = |part: &&str| matches!(part.len(), 1 | 2);
    let is_mark = |byte: u8| byte.is_ascii_digit() || b"-/.: T".contains(&byte);
    (3..=6).contains(&parts.len())
        && parts[0].len() == 4
        && parts[1..].iter().all(is_field)
        && text.bytes().all(is_mark)
}
