//! Random values of TPC-C 5.11: clauses 2.1.6 (NURand) and 4.3.2 (texts, names, zip codes).

use dyno_core::random::RandomStream;

/// C of the C_LAST that the load draws. Fixed, so that a run keeps clause 2.1.6.1's distance without knowing the load's seed.
pub const LOADED_C_LAST_CONSTANT: u32 = 157;
/// A of C_LAST.
const C_LAST_A: u32 = 255;
/// A of C_ID.
const C_ID_A: u32 = 1023;
/// A of OL_I_ID.
const ITEM_A: u32 = 8191;
/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Customers of a district.
pub const CUSTOMERS: u32 = 3000;
/// Items.
pub const ITEMS: u32 = 100_000;

/// The constants C of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Constants {
    /// Constant C of C_LAST.
    pub c_last: u32,
    /// Constant C of C_ID.
    pub c_id: u32,
    /// Constant C of OL_I_ID.
    pub ol_i_id: u32,
}

impl Constants {
    /// The constants of a run with this seed. C_LAST's is 65 to 119 away from the load's, never 96 or 112 (clause 2.1.6.1).
    pub fn of_run(stream: &mut RandomStream) -> Self {
        let c_last = loop {
            let drawn = between(stream, 0, C_LAST_A);
            if is_allowed_distance(drawn.abs_diff(LOADED_C_LAST_CONSTANT)) {
                break drawn;
            }
        };
        Self {
            c_last,
            c_id: between(stream, 0, C_ID_A),
            ol_i_id: between(stream, 0, ITEM_A),
        }
    }

    /// Number of a last name, 0 to 999.
    pub fn last_name(&self, stream: &mut RandomStream) -> u32 {
        nurand(stream, C_LAST_A, self.c_last, 0, 999)
    }

    /// A customer of a district.
    pub fn customer(&self, stream: &mut RandomStream) -> u32 {
        nurand(stream, C_ID_A, self.c_id, 1, CUSTOMERS)
    }

    /// An item.
    pub fn item(&self, stream: &mut RandomStream) -> u32 {
        nurand(stream, ITEM_A, self.ol_i_id, 1, ITEMS)
    }
}

fn is_allowed_distance(distance: u32) -> bool {
    (65..=119).contains(&distance) && distance != 96 && distance != 112
}

/// A value in [low, high], all alike to within 2^-32.
#[inline]
pub fn between(stream: &mut RandomStream, low: u32, high: u32) -> u32 {
    let span = u64::from(high - low) + 1;
    low + (((stream.next_u64() >> 32) * span) >> 32) as u32
}

/// Clause 2.1.6: (((random(0, A) | random(x, y)) + C) % (y - x + 1)) + x.
#[inline]
pub fn nurand(stream: &mut RandomStream, a: u32, c: u32, low: u32, high: u32) -> u32 {
    let drawn = between(stream, 0, a) | between(stream, low, high);
    (drawn + c) % (high - low + 1) + low
}

/// The last name of the load: NURand(255, 0, 999) with the load's own constant.
pub fn loaded_last_name(stream: &mut RandomStream) -> u32 {
    nurand(stream, C_LAST_A, LOADED_C_LAST_CONSTANT, 0, 999)
}

const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

/// Appends the last name of that number: a syllable for each of its three digits (clause 4.3.2.3).
pub fn put_last_name(out: &mut Vec<u8>, number: u32) {
    for digit in [number / 100, number / 10 % 10, number % 10] {
        out.extend_from_slice(SYLLABLES[digit as usize].as_bytes());
    }
}

/// 62 letters and digits; two of them twice, so that six bits choose one.
const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyzeo";

/// Appends an a-string of `low` to `high` characters.
pub fn put_text(out: &mut Vec<u8>, stream: &mut RandomStream, low: u32, high: u32) {
    let length = between(stream, low, high) as usize;
    let end = out.len() + length;
    while out.len() < end {
        let mut bits = stream.next_u64();
        for _ in 0..10.min(end - out.len()) {
            out.push(ALPHABET[(bits & 63) as usize]);
            bits >>= 6;
        }
    }
}

/// Appends an n-string of `length` digits.
pub fn put_digits(out: &mut Vec<u8>, stream: &mut RandomStream, length: usize) {
    out.extend((0..length).map(|_| b'0' + between(stream, 0, 9) as u8));
}

/// Appends I_DATA or S_DATA: 26 to 50 characters, every tenth with ORIGINAL in it (clause 4.3.3.1).
pub fn put_data(out: &mut Vec<u8>, stream: &mut RandomStream) {
    let start = out.len();
    put_text(out, stream, 26, 50);
    if between(stream, 1, 10) == 1 {
        let last = (out.len() - start - 8) as u32;
        let position = start + between(stream, 0, last) as usize;
        out[position..position + 8].copy_from_slice(b"ORIGINAL");
    }
}

/// A permutation of 1 to `count`.
pub fn permutation(stream: &mut RandomStream, count: u32) -> Vec<u32> {
    let mut values: Vec<u32> = (1..=count).collect();
    for last in (1..count).rev() {
        values.swap(last as usize, between(stream, 0, last) as usize);
    }
    values
}

#[cfg(test)]
mod tests {
    use dyno_core::random::Domain;

    use super::*;

    fn stream(number: u64) -> RandomStream {
        RandomStream::of(1, Domain::Operation, number)
    }

    #[test]
    fn the_constants_of_every_run_keep_the_distance_of_the_standard() {
        for number in 0..2000 {
            let constants = Constants::of_run(&mut stream(number));
            let distance = constants.c_last.abs_diff(LOADED_C_LAST_CONSTANT);
            assert!(
                (65..=119).contains(&distance) && distance != 96 && distance != 112,
                "{distance}"
            );
            assert!(constants.c_last <= 255 && constants.c_id <= 1023 && constants.ol_i_id <= 8191);
        }
    }

    /// The exact distribution by counting all pairs, against draws: every value within five standard deviations.
    #[test]
    fn nurand_has_the_distribution_of_its_definition() {
        let (a, c, low, high) = (255, 173, 0, 999);
        let mut expected = vec![0.0; 1000];
        for first in 0..=a {
            for second in low..=high {
                expected[(((first | second) + c) % (high - low + 1) + low) as usize] += 1.0 / 256_000.0;
            }
        }
        let (draws, mut seen) = (1_000_000, vec![0u32; 1000]);
        let mut source = stream(0);
        for _ in 0..draws {
            seen[nurand(&mut source, a, c, low, high) as usize] += 1;
        }
        for (value, (share, count)) in expected.iter().zip(&seen).enumerate() {
            let mean = share * f64::from(draws);
            assert!(
                (f64::from(*count) - mean).abs() <= 5.0 * mean.sqrt() + 5.0,
                "{value}: {count} not {mean}"
            );
        }
        let greatest = expected.iter().copied().fold(0.0, f64::max);
        assert!(
            greatest > 0.004,
            "NURand is not uniform: the commonest name has {greatest}"
        );
    }

    #[test]
    fn items_and_customers_stay_in_their_range_and_reach_its_ends() {
        let constants = Constants::of_run(&mut stream(3));
        let mut source = stream(4);
        let items: Vec<u32> = (0..400_000).map(|_| constants.item(&mut source)).collect();
        assert!(items.iter().all(|item| (1..=ITEMS).contains(item)));
        let customers: Vec<u32> = (0..400_000).map(|_| constants.customer(&mut source)).collect();
        assert_eq!(customers.iter().min(), Some(&1));
        assert_eq!(customers.iter().max(), Some(&CUSTOMERS));
    }

    #[test]
    fn names_have_the_syllables_of_the_standard() {
        let name = |number| {
            let mut out = Vec::new();
            put_last_name(&mut out, number);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(name(371), "PRICALLYOUGHT");
        assert_eq!(name(40), "BARPRESBAR");
    }

    #[test]
    fn a_permutation_has_every_value_once() {
        let mut values = permutation(&mut stream(9), 3000);
        assert_ne!(values, (1..=3000).collect::<Vec<_>>());
        values.sort_unstable();
        assert_eq!(values, (1..=3000).collect::<Vec<_>>());
    }

    #[test]
    fn one_tenth_of_the_data_has_original_in_it() {
        let mut source = stream(5);
        let mut originals = 0;
        for _ in 0..20_000 {
            let mut out = Vec::new();
            put_data(&mut out, &mut source);
            assert!((26..=50).contains(&out.len()));
            originals += u32::from(out.windows(8).any(|part| part == b"ORIGINAL"));
        }
        assert!((1800..2200).contains(&originals), "{originals}");
    }
}
