//! What the rows' texts are made of: sysbench's digits, or texts that compress as other data do.
//!
//! sysbench fills c and pad with random digits, whose ten letters any compressor shrinks to half. `words` is about as
//! prose is, names and numbers strewn in; `random` is as tokens, hashes and what is compressed already: a compressor
//! finds nothing but its alphabet of 64 letters. All are plain ASCII without quotes and backslashes, and end in no space.

use std::sync::LazyLock;

use clap::ValueEnum;
use dyno_core::random::RandomStream;
use serde::{Deserialize, Serialize};

/// Kinds of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowText {
    /// sysbench's: groups of 11 digits with dashes between.
    #[default]
    Digits,
    /// Words, names and numbers: compresses as prose.
    Words,
    /// Letters without any pattern: hardly compresses.
    Random,
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Syllables of a name: three of them have 15 bits.
const SYLLABLES: [&str; 32] = [
    "ba", "den", "fi", "gor", "ha", "jun", "ka", "len", "mi", "nor", "pa", "ros", "sil", "tor", "va", "wen", "xa",
    "yor", "zel", "bri", "cla", "dro", "fle", "gra", "hol", "kin", "lam", "mon", "per", "ster", "tal", "ver",
];
/// Frequent words of English, the most frequent first.
const WORDS: &str = "the of and to in is for that on with as was by it are from at be this have not or an which but \
    they you were all can has their more when one we who been other than time also would only new first some two may its \
    after people about these between such no most over into out made used many year part through under work where both \
    world number during being while well state system group each order place then same against within around company \
    water small house point high line life country service city name school second power later local history general \
    public market family book land street right early business area north south east west price total report value \
    account customer product delivery address message payment contract current account section picture version member \
    period product support project control process question result change letter office ground former across nature \
    record summer winter spring garden station bridge island mountain river forest village church castle museum theatre \
    music player season record player score league match club team coach final round";

impl RowText {
    /// The kind that a text is.
    pub fn of(text: &str) -> RowText {
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
            Self::Digits
        } else if text.contains(' ') {
            Self::Words
        } else {
            Self::Random
        }
    }

    /// Its name in --row-text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Words => "words",
            Self::Random => "random",
        }
    }

    /// Fills a text of c or pad.
    ///
    /// # Panics
    /// With digits, when `out` has another length than groups of 11 digits with dashes between.
    pub fn fill(self, stream: &mut RandomStream, out: &mut [u8]) {
        match self {
            Self::Digits => stream.fill_digit_groups(out),
            Self::Random => {
                for part in out.chunks_mut(10) {
                    let mut bits = stream.next_u64();
                    for byte in part {
                        *byte = LETTERS[(bits & 63) as usize];
                        bits >>= 6;
                    }
                }
            }
            Self::Words => fill_words(stream, out),
        }
    }
}

/// Words by Zipf's law (rank r as often as 1/r), every fifth token a name or a number.
fn fill_words(stream: &mut RandomStream, out: &mut [u8]) {
    let mut place = 0;
    while place < out.len() {
        let bits = stream.next_u64();
        let mut put = |text: &[u8]| {
            for byte in text {
                if let Some(free) = out.get_mut(place) {
                    *free = *byte;
                    place += 1;
                }
            }
        };
        match bits % 10 {
            0 => put_number(((bits >> 8) % 100_000) as u32, &mut put),
            1 => (0..3).for_each(|part| put(SYLLABLES[(bits >> (8 + 5 * part)) as usize & 31].as_bytes())),
            _ => put(word(stream.next_double()).as_bytes()),
        }
        put(b" ");
    }
    if let Some(last @ b' ') = out.last_mut() {
        *last = b'.'; // CHAR columns give no trailing space back
    }
}

/// A number without leading zeros, without a text of its own: a run makes rows too, and may not allocate.
fn put_number(number: u32, mut put: impl FnMut(&[u8])) {
    let mut digits = [0u8; 10];
    let mut first = digits.len();
    let mut rest = number;
    while first == digits.len() || rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    put(&digits[first..]);
}

/// The word at a draw of [0, 1): the logarithm of its rank is uniform, which is Zipf's law.
fn word(draw: f64) -> &'static str {
    static LIST: LazyLock<Vec<&'static str>> = LazyLock::new(|| WORDS.split_ascii_whitespace().collect());
    let words = LIST.as_slice();
    let rank = ((words.len() + 1) as f64).powf(draw) as usize;
    words[rank.clamp(1, words.len()) - 1]
}

#[cfg(test)]
mod tests {
    use dyno_core::random::Domain;

    use super::*;

    fn text(kind: RowText, number: u64) -> Vec<u8> {
        let mut out = vec![0; 119];
        kind.fill(&mut RandomStream::of(1, Domain::Row, number), &mut out);
        out
    }

    #[test]
    fn texts_are_plain_and_full_and_end_in_no_space() {
        for kind in [RowText::Digits, RowText::Words, RowText::Random] {
            for number in 0..2000 {
                let text = text(kind, number);
                assert!(text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' '));
                assert!(!text.contains(&b'\'') && !text.contains(&b'\\'));
                assert_ne!(text.last(), Some(&b' '));
                assert_eq!(RowText::of(std::str::from_utf8(&text).unwrap()), kind);
                assert_eq!(
                    text,
                    super::tests::text(kind, number),
                    "a row's text depends on its number alone"
                );
            }
        }
    }

    #[test]
    fn digits_are_those_of_sysbench() {
        let mut expected = vec![0; 119];
        RandomStream::of(1, Domain::Row, 7).fill_digit_groups(&mut expected);
        assert_eq!(text(RowText::Digits, 7), expected);
    }

    /// Bits a byte of the letters alone, without any pattern: what a compressor at least finds.
    fn entropy(kind: RowText) -> f64 {
        let mut counts = [0u32; 256];
        let mut total = 0u32;
        for number in 0..2000 {
            for byte in text(kind, number) {
                counts[usize::from(byte)] += 1;
                total += 1;
            }
        }
        counts
            .iter()
            .filter(|count| **count > 0)
            .map(|count| f64::from(*count) / f64::from(total))
            .map(|share| -share * share.log2())
            .sum()
    }

    #[test]
    fn random_letters_hold_six_bits_each_and_digits_less_than_four() {
        assert!((entropy(RowText::Random) - 6.0).abs() < 0.02);
        assert!(entropy(RowText::Digits) < 3.7);
        let words = entropy(RowText::Words);
        assert!((3.9..4.8).contains(&words), "English has about 4.2: {words}");
    }
}
