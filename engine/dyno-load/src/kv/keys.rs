//! Which key an operation uses, and how the key is written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use dyno_core::distribution::{Distribution, Parameters, Zipfian};
use dyno_core::random::{Domain, RandomStream};

use super::sizes::{Sizes, TEXT};

/// Which of the keys 0 to N-1.
#[derive(Debug, Clone)]
pub enum Choice {
    /// Every key alike.
    Uniform,
    /// By rank: key 0 is used most.
    Zipfian(Zipfian),
    /// A share of the operations goes to the first keys, the rest to all others.
    Hotspot {
        /// Keys that are hot.
        keys: u64,
        /// Share of the operations that go there, in 2^-32.
        share: u32,
    },
    /// One after the other, by the operation's number.
    Sequential,
    /// By age: the newest key is used most, and a set makes a new one.
    Latest {
        /// The distribution of ages.
        ages: Zipfian,
        /// How many keys were made.
        made: Arc<Made>,
    },
    /// memaslap's: each connection has a window of its own latest keys. A set makes a new key, which pushes the oldest
    /// out, or, with this share in 2^-32, sets a key of the window again; a get takes any key of the window.
    Window {
        /// Keys in a window.
        size: u64,
        /// Share of sets that overwrite.
        overwrite: u32,
    },
}

impl Choice {
    /// Reads a choice as people write it: `uniform`, `zipfian`, `zipfian:0.99`, `hotspot:10%:90%`, `latest`,
    /// `latest:0.99`, `sequential`.
    ///
    /// # Errors
    /// A sentence that names the value and shows the form.
    pub fn parse(text: &str, keys: u64) -> Result<Self, String> {
        let form = || {
            format!(
                "'{text}' is not a choice of keys; use uniform, zipfian:0.99, hotspot:10%:90% (keys, operations), latest:0.99 \
                 or sequential"
            )
        };
        let mut parts = text.split(':');
        let choice = match parts.next() {
            Some("uniform") => Self::Uniform,
            Some("sequential") => Self::Sequential,
            Some("zipfian") => Self::Zipfian(zipfian(parts.next(), form)?),
            Some("latest") => Self::Latest {
                ages: zipfian(parts.next(), form)?,
                made: Arc::default(),
            },
            Some("hotspot") => {
                let hot = share(parts.next().ok_or_else(form)?)?;
                let asked = share(parts.next().ok_or_else(form)?)?;
                Self::Hotspot {
                    keys: ((hot * keys as f64).round() as u64).clamp(1, keys),
                    share: of_32_bits(asked),
                }
            }
            _ => return Err(form()),
        };
        match parts.next() {
            None => Ok(choice),
            Some(_) => Err(form()),
        }
    }
}

/// The distribution with this exponent, or with YCSB's.
fn zipfian(exponent: Option<&str>, form: impl Fn() -> String) -> Result<Zipfian, String> {
    let exponent = exponent.map_or(Ok(0.99), str::parse).map_err(|_| form())?;
    let parameters = Parameters {
        zipfian_exponent: exponent,
        ..Parameters::default()
    };
    match Distribution::named("zipfian", &parameters)? {
        Distribution::Zipfian(zipfian) => Ok(zipfian),
        _ => Err(form()),
    }
}

/// Keys that the sets of this program have made, after those that were there: one count for all of its connections.
#[derive(Debug, Default)]
pub struct Made {
    begun: AtomicU64,
    stored: AtomicU64,
}

/// A share as people write it: `90%` or `0.9`.
///
/// # Errors
/// A sentence that names the value.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>().map(|value| value * scale) {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!(
            "'{text}' is not a share; use one from 0 to 1, or from 0% to 100%"
        )),
    }
}

/// A share in 2^-32; 1 is the greatest number, which every draw below it falls under.
pub fn of_32_bits(share: f64) -> u32 {
    (share * 4_294_967_296.0).min(4_294_967_295.0) as u32
}

/// The keys of a run.
#[derive(Debug, Clone)]
pub struct Keys {
    /// How many there are.
    pub count: u64,
    /// Which is asked for.
    pub choice: Choice,
    /// In front of every key.
    pub prefix: Vec<u8>,
    /// Length of the whole key.
    pub sizes: Sizes,
    /// Hexadecimal digits of the key's number at the key's end.
    pub digits: usize,
}

impl Keys {
    /// Keys 0 to `count` - 1, and as many again that are never stored.
    ///
    /// # Errors
    /// A sentence with the least size, when prefix and number do not fit, or the prefix is no key.
    pub fn new(count: u64, choice: Choice, prefix: &str, sizes: Sizes) -> Result<Self, String> {
        let highest = match &choice {
            Choice::Window { .. } => u64::from(u32::MAX),
            _ => count * 2,
        };
        let digits = (64 - highest.leading_zeros()).div_ceil(4).max(1) as usize;
        // A key of a greater number is written with a mark, and has as many digits as it needs.
        let room = match &choice {
            Choice::Latest { .. } => digits.max(1 + MOST_DIGITS),
            _ => digits,
        };
        let least = prefix.len() + room;
        if (sizes.least() as usize) < least {
            return Err(format!(
                "a key size of {} has no room for the prefix of {} and {room} digits of {count} keys; use at least {least}",
                sizes.least(),
                prefix.len()
            ));
        }
        if prefix.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(format!(
                "'{prefix}' is not a key prefix: spaces and control characters are not allowed"
            ));
        }
        Ok(Self {
            count,
            choice,
            prefix: prefix.as_bytes().to_vec(),
            sizes,
            digits,
        })
    }

    /// The number of the key that an operation asks for. Windows are the connection's: see [`Window`].
    #[inline]
    pub fn choose(&self, stream: &mut RandomStream, operation: u64) -> u64 {
        match &self.choice {
            Choice::Uniform | Choice::Window { .. } => below(stream, self.count),
            Choice::Sequential => operation % self.count,
            Choice::Zipfian(zipfian) => u64::from(zipfian.draw(stream, 0, (self.count - 1) as u32)),
            Choice::Latest { ages, made } => {
                let newest = self.count + made.stored.load(Ordering::Relaxed) - 1;
                newest - u64::from(ages.draw(stream, 0, newest.min(MOST_AGES) as u32))
            }
            Choice::Hotspot { keys, share } => {
                let cold = self.count - keys;
                if cold == 0 || (stream.next_u64() >> 32) as u32 <= *share {
                    below(stream, *keys)
                } else {
                    keys + below(stream, cold)
                }
            }
        }
    }

    /// The number of the key that a set stores: a new one, or one of those that are there.
    #[inline]
    pub fn choose_for_set(&self, stream: &mut RandomStream, operation: u64) -> u64 {
        match &self.choice {
            Choice::Latest { made, .. } => self.count + made.begun.fetch_add(1, Ordering::Relaxed),
            _ => self.choose(stream, operation),
        }
    }

    /// A set was answered. So many of the keys made are taken for stored: where replies come in another order than sets
    /// were begun, one of them may not be there yet, and a get of it misses.
    #[inline]
    pub fn stored(&self) {
        if let Choice::Latest { made, .. } = &self.choice {
            made.stored.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Appends the key of a number: prefix, filler that depends on the number, the number.
    #[inline]
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let needed = (64 - number.leading_zeros()).div_ceil(4) as usize;
        let (mark, count) = if needed > self.digits {
            (1, needed)
        } else {
            (0, self.digits)
        };
        let filler = self.sizes.of(number) - self.prefix.len() - mark - count;
        out.extend_from_slice(&self.prefix);
        if filler > 0 {
            let start = RandomStream::of(FILLER_SEED, Domain::Row, number).next_u64() as usize % FILLER_STARTS;
            out.extend_from_slice(&TEXT[start..start + filler]);
        }
        if mark > 0 {
            out.push(MARK);
        }
        let mut digits = [0u8; 16];
        for (position, digit) in digits[..count].iter_mut().enumerate() {
            *digit = HEXADECIMAL[(number >> (4 * (count - 1 - position)) & 15) as usize];
        }
        out.extend_from_slice(&digits[..count]);
    }

    /// The number of a key that [`Keys::write`] wrote; `None` for another's.
    pub fn number(&self, key: &[u8]) -> Option<u64> {
        let own = key.get(self.prefix.len()..)?;
        let digits = match own.iter().rposition(|byte| *byte == MARK) {
            Some(mark) => &own[mark + 1..],
            None => own.get(own.len().checked_sub(self.digits)?..)?,
        };
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";
/// Before a number that has more digits than the keys that were there; not a byte of the filler.
const MARK: u8 = b'.';
/// Most digits of the number of a key that a set made.
const MOST_DIGITS: usize = 8;
/// How many of the newest keys a get may choose from.
const MOST_AGES: u64 = u32::MAX as u64;
const FILLER_SEED: u64 = 0xf111;
const FILLER_STARTS: usize = 32 * 1024;

/// A number in [0, limit).
#[inline]
pub fn below(stream: &mut RandomStream, limit: u64) -> u64 {
    ((u128::from(stream.next_u64()) * u128::from(limit)) >> 64) as u64
}

/// The window of one connection: it made keys 0 to `made` - 1 of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Window {
    made: u64,
}

impl Window {
    /// A key of the window; `None` while it is empty.
    pub fn any(self, stream: &mut RandomStream, size: u64) -> Option<u64> {
        let inside = self.made.min(size);
        (inside > 0).then(|| self.made - 1 - below(stream, inside))
    }

    /// A new key, which pushes the oldest out.
    pub fn make(&mut self) -> u64 {
        self.made += 1;
        self.made - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(choice: &str) -> Keys {
        let choice = Choice::parse(choice, 1000).unwrap();
        Keys::new(1000, choice, "k:", Sizes::Fixed(24)).unwrap()
    }

    fn draws(keys: &Keys) -> Vec<u64> {
        (0..100_000)
            .map(|number| keys.choose(&mut RandomStream::of(1, Domain::Operation, number), number))
            .collect()
    }

    #[test]
    fn keys_have_their_size_are_distinct_and_give_their_number_back() {
        let keys = keys("uniform");
        let mut seen = std::collections::HashSet::new();
        for number in 0..2000 {
            let mut key = Vec::new();
            keys.write(number, &mut key);
            assert_eq!((key.len(), keys.number(&key)), (24, Some(number)));
            assert!(key.iter().all(u8::is_ascii_graphic) && seen.insert(key));
        }
    }

    #[test]
    fn each_choice_has_its_shape() {
        let share_of_first_tenth = |choice: &str| {
            let draws = draws(&keys(choice));
            assert!(draws.iter().all(|key| *key < 1000));
            draws.iter().filter(|key| **key < 100).count() as f64 / draws.len() as f64
        };
        assert!((share_of_first_tenth("uniform") - 0.1).abs() < 0.01);
        assert!((share_of_first_tenth("hotspot:10%:90%") - 0.9).abs() < 0.01);
        // H(100, 0.99) / H(1000, 0.99)
        assert!((share_of_first_tenth("zipfian:0.99") - 0.685).abs() < 0.01);
        assert_eq!(draws(&keys("sequential"))[998..1002], [998, 999, 0, 1]);
    }

    #[test]
    fn the_latest_keys_are_used_most_and_sets_make_new_ones() {
        let keys = keys("latest");
        let share_of_newest = |newest: u64| {
            let draws = draws(&keys);
            assert!(draws.iter().all(|key| *key <= newest));
            draws.iter().filter(|key| **key > newest - 100).count() as f64 / draws.len() as f64
        };
        // H(100, 0.99) / H(1000, 0.99)
        assert!((share_of_newest(999) - 0.685).abs() < 0.01);
        let mut stream = RandomStream::of(1, Domain::Operation, 1);
        for made in 1000..1200 {
            assert_eq!(keys.choose_for_set(&mut stream, 0), made);
        }
        // No answer has arrived for these sets, so gets must not choose their keys.
        assert!(draws(&keys).iter().all(|key| *key < 1000));
        (0..200).for_each(|_| keys.stored());
        // H(100, 0.99) / H(1200, 0.99)
        assert!((share_of_newest(1199) - 0.668).abs() < 0.01);
    }

    #[test]
    fn keys_made_later_are_distinct_from_those_that_were_there() {
        let small = |choice: &str| {
            let choice = Choice::parse(choice, 100).unwrap();
            Keys::new(100, choice, "k", Sizes::Fixed(10)).unwrap()
        };
        let (filled, latest) = (small("sequential"), small("latest"));
        let mut seen = std::collections::HashSet::new();
        for number in (0..20_000).chain([0xffff_ffff]) {
            let mut key = Vec::new();
            latest.write(number, &mut key);
            assert_eq!((key.len(), latest.number(&key)), (10, Some(number)));
            if number < 100 {
                let mut same = Vec::new();
                filled.write(number, &mut same);
                assert_eq!(key, same, "keys are those that were stored before the load");
            }
            assert!(seen.insert(key), "{number}");
        }
        let choice = Choice::parse("latest", 100).unwrap();
        let short = Keys::new(100, choice, "k", Sizes::Fixed(9)).unwrap_err();
        assert!(short.contains("at least 10"), "{short}");
    }

    #[test]
    fn a_window_holds_the_latest_keys() {
        let mut window = Window::default();
        let mut stream = RandomStream::of(1, Domain::Operation, 1);
        assert_eq!(window.any(&mut stream, 10), None);
        for made in 0..25 {
            assert_eq!(window.make(), made);
        }
        let seen: std::collections::BTreeSet<u64> = (0..1000).filter_map(|_| window.any(&mut stream, 10)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), (15..25).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_choice_share_or_key_is_refused_by_name() {
        for text in [
            "zipf",
            "zipfian:x",
            "zipfian:-1",
            "latest:x",
            "latest:0.99:1",
            "hotspot",
            "hotspot:10%",
            "hotspot:2:1",
            "uniform:1",
            "",
        ] {
            assert!(Choice::parse(text, 10).is_err(), "{text}");
        }
        assert!(share("101%").is_err() && share("x").is_err() && share("-0.1").is_err());
        let short = Keys::new(1000, Choice::Uniform, "prefix:", Sizes::Fixed(9)).unwrap_err();
        assert!(short.contains("at least 10"), "{short}");
        assert!(Keys::new(10, Choice::Uniform, "a b", Sizes::Fixed(30)).is_err());
    }
}
