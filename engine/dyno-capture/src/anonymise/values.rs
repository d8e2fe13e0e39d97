//! Pseudonyms of values, of the value's own type: a date for a date, an address for an address.

use serde::de::IgnoredAny;

use super::dates::{has_free_separators, is_compact_date};
use super::permutation::{kind, Digit, Permutation};

/// Values that are the largest of a type (or of a year, a latitude, a longitude), also below zero: pseudonyms do not cross
/// them.
const BOUNDS: &[u128] = &[
    90,
    127,
    128,
    180,
    255,
    1900,
    2155,
    32_767,
    32_768,
    65_535,
    8_388_607,
    8_388_608,
    16_777_215,
    2_147_483_647,
    2_147_483_648,
    4_294_967_295,
    9_223_372_036_854_775_807,
    9_223_372_036_854_775_808,
    18_446_744_073_709_551_615,
];
/// The largest latitude and longitude, which no fraction follows.
const DEGREES: [u128; 2] = [90, 180];
/// Exponents of the largest FLOAT and DOUBLE.
const LARGEST_EXPONENTS: [i32; 2] = [38, 308];
/// Words that are values of flags, and arguments of functions of JSON.
const FLAGS: &[&str] = &["true", "false", "yes", "no", "on", "off", "null", "one", "all"];
const WELL_KNOWN_TEXTS: &[&str] = &[
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
];

impl Permutation {
    /// The pseudonym of a string's content.
    pub(super) fn value(&self, text: &[u8]) -> Vec<u8> {
        let is_flag = |text: &[u8]| FLAGS.iter().any(|flag| text.eq_ignore_ascii_case(flag.as_bytes()));
        if text.len() == 1 && !text[0].is_ascii_digit() || is_flag(text) {
            return text.to_vec();
        }
        let Ok(characters) = std::str::from_utf8(text) else {
            return self.text(text, |_| false);
        };
        let found = self
            .number_or_date(characters)
            .or_else(|| self.date_and_time(characters))
            .or_else(|| self.time(characters))
            .or_else(|| self.address(characters))
            .or_else(|| has_free_separators(characters).then(|| self.formatted_date(text)))
            .or_else(|| is_hexadecimal(characters).then(|| self.hexadecimal(text)))
            .or_else(|| self.json(text))
            .or_else(|| self.well_known_text(characters));
        found.unwrap_or_else(|| {
            let mut made = self.text(text, |_| false);
            while is_flag(&made) {
                made = self.text(&made, |_| false);
            }
            made
        })
    }

    /// Letters by letters in their case, digits by digits, other characters by some of their neighbours; the places
    /// that are fixed, and punctuation, stay.
    pub(super) fn text(&self, text: &[u8], is_fixed: impl Fn(usize) -> bool) -> Vec<u8> {
        let is_utf8 = std::str::from_utf8(text).is_ok();
        let mut out = text.to_vec();
        let mut places = Vec::new();
        let mut digits = Vec::new();
        for (place, byte) in text.iter().enumerate().filter(|(place, _)| !is_fixed(*place)) {
            let (base, radix) = match byte {
                b'0'..=b'9' => (b'0', 10),
                b'a'..=b'z' => (b'a', 26),
                b'A'..=b'Z' => (b'A', 26),
                // The last bytes of a character, but for those of which its first byte allows some alone.
                0x80..=0xbf if is_utf8 => match text[place - 1] {
                    0xe0 | 0xed | 0xf0 | 0xf4 => continue,
                    _ => (0x80, 64),
                },
                0x80.. if !is_utf8 => (byte - byte % 26, 26),
                _ => continue,
            };
            digits.push(Digit {
                value: u16::from(byte - base),
                radix,
            });
            places.push((place, if is_utf8 || *byte < 0x80 { base } else { b'a' }));
        }
        self.permute(kind::TEXT, &mut digits);
        for ((place, base), digit) in places.into_iter().zip(digits) {
            out[place] = base + digit.value as u8;
        }
        out
    }

    /// A decimal number without a sign: as many digits before and after the point, and of the same types of integers; of
    /// digits alone it may be a date. 0 and 1 stay.
    pub(super) fn number(&self, text: &str) -> String {
        if let Some(made) = self.compact_date(text) {
            return made;
        }
        let (mantissa, exponent) = text.split_at(text.find(['e', 'E']).unwrap_or(text.len()));
        if exponent.get(1..).is_some_and(is_largest) {
            return text.to_string();
        }
        let (whole, fraction) = mantissa.split_at(mantissa.find('.').unwrap_or(mantissa.len()));
        let significant = whole.trim_start_matches('0');
        let zeros = &whole[..whole.len() - significant.len()];
        let digits = fraction.trim_start_matches('.').trim_end_matches('0');
        let (point, rest) = fraction.split_at(fraction.len().min(1));
        let made = [
            zeros,
            &self.whole(zeros, significant, !digits.is_empty(), text.len() == whole.len()),
            point,
            &self.fraction(digits),
            &rest[digits.len()..],
            exponent,
        ];
        made.concat()
    }

    /// What of a number follows its first zeros, up to the point.
    fn whole(&self, zeros: &str, text: &str, has_fraction: bool, is_alone: bool) -> String {
        let value = text.parse::<u128>().ok();
        let is_bound = |value: u128| !has_fraction && BOUNDS.contains(&value) && BOUNDS.contains(&(value - 1));
        if text.is_empty() || text == "1" || value.is_some_and(is_bound) {
            return text.to_string();
        }
        let first = |place| u16::from(place == 0);
        let digits = text.bytes().enumerate().map(|(place, byte)| Digit {
            value: u16::from(byte - b'0') - first(place),
            radix: 10 - first(place),
        });
        let mut digits: Vec<Digit> = digits.collect();
        let shown = |digits: &[Digit]| -> String {
            let shown = digits.iter().enumerate();
            shown
                .map(|(place, digit)| char::from(b'0' + (digit.value + first(place)) as u8))
                .collect()
        };
        let range = |text: &str| match text.parse::<u128>() {
            Ok(value) if has_fraction => DEGREES.partition_point(|bound| *bound <= value),
            Ok(value) => BOUNDS.partition_point(|bound| *bound < value),
            Err(_) => BOUNDS.len(),
        };
        let own = range(text);
        self.permute_within(kind::WHOLE, &mut digits, |digits| {
            let made = shown(digits);
            range(&made) == own && made != "1" && !(is_alone && is_compact_date(&format!("{zeros}{made}")))
        });
        shown(&digits)
    }

    /// Digits after the point, of which the last one is not 0.
    pub(super) fn fraction(&self, text: &str) -> String {
        let last = |place| u16::from(place + 1 == text.len());
        let digits = text.bytes().enumerate().map(|(place, byte)| Digit {
            value: u16::from(byte - b'0') - last(place),
            radix: 10 - last(place),
        });
        let mut digits: Vec<Digit> = digits.collect();
        self.permute(kind::FRACTION, &mut digits);
        let shown = digits.iter().enumerate();
        shown
            .map(|(place, digit)| char::from(b'0' + (digit.value + last(place)) as u8))
            .collect()
    }

    /// A number with a sign or without, or a date of digits alone.
    pub(super) fn number_or_date(&self, text: &str) -> Option<Vec<u8>> {
        let unsigned = text.trim_start_matches(['-', '+']);
        let is_number = text.len() - unsigned.len() <= 1
            && unsigned.bytes().any(|byte| byte.is_ascii_digit())
            && unsigned.matches('.').count() <= 1
            && unsigned.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let sign = &text[..text.len() - unsigned.len()];
        is_number.then(|| [sign, &self.number(unsigned)].concat().into_bytes())
    }

    /// IPv4.
    fn address(&self, text: &str) -> Option<Vec<u8>> {
        let parts: Vec<u8> = text.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
        if parts.len() != 4 {
            return None;
        }
        let digit = |part: &u8| Digit {
            value: u16::from(*part),
            radix: 256,
        };
        let mut digits: Vec<Digit> = parts.iter().map(digit).collect();
        self.permute(kind::ADDRESS, &mut digits);
        let shown: Vec<String> = digits.iter().map(|digit| digit.value.to_string()).collect();
        Some(shown.join(".").into_bytes())
    }

    /// Hexadecimal digits of a number, or of bytes: zeros at its beginning and the half of its first digit stay, so that it
    /// is in the range of the same types of integers.
    pub(super) fn hexadecimal_number(&self, text: &[u8]) -> Vec<u8> {
        let zeros = text.iter().take_while(|byte| **byte == b'0').count();
        let half = |text: &[u8]| text.first().map(|byte| char::from(*byte).to_digit(16).unwrap_or(0) / 8);
        let (zeros, significant) = text.split_at(zeros);
        let mut made = self.hexadecimal(significant);
        while half(&made) != half(significant) || made.starts_with(b"0") {
            made = self.hexadecimal(&made);
        }
        [zeros, &made].concat()
    }

    /// Hexadecimal digits; what stands between them stays.
    pub(super) fn hexadecimal(&self, text: &[u8]) -> Vec<u8> {
        const DIGITS: [&[u8; 16]; 2] = [b"0123456789abcdef", b"0123456789ABCDEF"];
        let shown = DIGITS[usize::from(text.iter().any(|byte| matches!(byte, b'A'..=b'F')))];
        self.digits(kind::HEX, text, 16, shown)
    }

    /// Binary digits after the first 1.
    pub(super) fn bits(&self, text: &[u8]) -> Vec<u8> {
        let first = text
            .iter()
            .position(|byte| *byte == b'1')
            .map_or(text.len(), |place| place + 1);
        let (kept, rest) = text.split_at(first);
        [kept, &self.digits(kind::BITS, rest, 2, b"01")].concat()
    }

    fn digits(&self, kind: u8, text: &[u8], radix: u16, shown: &[u8]) -> Vec<u8> {
        let value = |byte: &u8| char::from(*byte).to_digit(u32::from(radix));
        let mut digits: Vec<Digit> = text
            .iter()
            .filter_map(value)
            .map(|value| Digit {
                value: value as u16,
                radix,
            })
            .collect();
        self.permute(kind, &mut digits);
        let mut made = digits.iter().map(|digit| shown[usize::from(digit.value)]);
        let one = |byte: &u8| value(byte).and_then(|_| made.next()).unwrap_or(*byte);
        text.iter().map(one).collect()
    }

    /// An object, an array, or a path into one: keys that are plain words stay, as names of columns do.
    fn json(&self, text: &[u8]) -> Option<Vec<u8>> {
        let is_path = text.starts_with(b"$") && text.get(1).is_none_or(|byte| b".[*".contains(byte));
        let is_document = || text.trim_ascii().starts_with(b"{") || text.trim_ascii().starts_with(b"[");
        if !(is_path || is_document() && serde_json::from_slice::<IgnoredAny>(text).is_ok()) {
            return None;
        }
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            let rest = &text[at..];
            let run = |is: fn(&u8) -> bool| rest.iter().take_while(|byte| is(byte)).count();
            let taken = match byte {
                b'"' => {
                    let end = string_end(rest);
                    let content = &rest[1..end.max(2) - 1];
                    let after = rest[end..].trim_ascii_start();
                    let is_key = is_path || after.starts_with(b":");
                    out.push(b'"');
                    out.extend(self.json_string(content, is_key));
                    out.push(b'"');
                    end
                }
                b'0'..=b'9' if !is_path => {
                    let end = run(|byte| byte.is_ascii_digit() || b".eE+-".contains(byte));
                    out.extend(self.number(&String::from_utf8_lossy(&rest[..end])).into_bytes());
                    end
                }
                _ => {
                    out.push(*byte);
                    1
                }
            };
            at += taken;
        }
        Some(out)
    }

    fn json_string(&self, content: &[u8], is_key: bool) -> Vec<u8> {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if is_key && content.iter().all(is_word) {
            return content.to_vec();
        }
        if !content.contains(&b'\\') {
            return self.value(content);
        }
        let mut fixed = vec![false; content.len()];
        let mut at = 0;
        while let Some(place) = content[at..].iter().position(|byte| *byte == b'\\') {
            let begin = at + place;
            at = (begin + if content.get(begin + 1) == Some(&b'u') { 6 } else { 2 }).min(content.len());
            fixed[begin..at].fill(true);
        }
        self.text(content, |place| fixed[place])
    }

    /// A geometry as text: its words stay, its coordinates change.
    fn well_known_text(&self, text: &str) -> Option<Vec<u8>> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b" .,()-+".contains(&byte);
        let word = text.trim_start().split(['(', ' ']).next()?;
        let is_known = WELL_KNOWN_TEXTS.iter().any(|one| one.eq_ignore_ascii_case(word));
        if !is_known || !text.contains('(') || !text.bytes().all(is_part) {
            return None;
        }
        let is_in_number = |character: char| character.is_ascii_digit() || character == '.';
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(is_in_number) {
            let end = rest[start..]
                .find(|character| !is_in_number(character))
                .map_or(rest.len(), |end| start + end);
            out += &rest[..start];
            out += &self.number(&rest[start..end]);
            rest = &rest[end..];
        }
        Some((out + rest).into_bytes())
    }
}

fn is_largest(exponent: &str) -> bool {
    exponent
        .parse()
        .is_ok_and(|exponent: i32| LARGEST_EXPONENTS.contains(&exponent))
}

/// UUIDs, digests, IPv6 and MAC addresses.
fn is_hexadecimal(text: &str) -> bool {
    let count = |is: fn(&u8) -> bool| text.as_bytes().iter().filter(|byte| is(byte)).count();
    let (digits, marks) = (count(u8::is_ascii_hexdigit), count(|byte| matches!(byte, b':' | b'-')));
    let is_long = digits >= 16 && text.bytes().any(|byte| byte.is_ascii_digit());
    digits + marks == text.len() && digits > 0 && (is_long || text.matches(':').count() >= 2)
}

/// The end of a string of JSON that begins with its quote.
fn string_end(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}
