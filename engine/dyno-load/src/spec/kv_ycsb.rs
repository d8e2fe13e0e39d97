//! YCSB's workloads in the commands of memcached.

use crate::kv::workload::Mix;

/// The letters of those that memcached's protocol can carry, for messages.
pub const ALLOWED: &str = "a, b, c, d or f";

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ycsb {
    /// Its name in results.
    pub name: &'static str,
    /// Shares of the commands; the rest is get.
    pub mix: Mix,
    /// Which keys: see [`Choice::parse`](crate::kv::keys::Choice::parse).
    pub key_choice: &'static str,
}

impl Ycsb {
    /// The workload of this letter.
    ///
    /// # Errors
    /// A sentence that names the letters.
    pub fn of(letter: &str) -> Result<Self, String> {
        let (name, set, cas, key_choice) = match letter {
            "a" => ("ycsb_a", 0.5, 0.0, ZIPFIAN),
            "b" => ("ycsb_b", 0.05, 0.0, ZIPFIAN),
            "c" => ("ycsb_c", 0.0, 0.0, ZIPFIAN),
            "d" => ("ycsb_d", 0.05, 0.0, "latest:0.99"),
            // Half reads, half reads with an update of what was read.
            "f" => ("ycsb_f", 0.0, 0.5, ZIPFIAN),
            "e" => {
                return Err(format!(
                    "e reads ranges of keys, and memcached's protocol has no command for that; use {ALLOWED}"
                ))
            }
            _ => return Err(format!("'{letter}' is not one of YCSB's workloads; use {ALLOWED}")),
        };
        let mix = Mix {
            set,
            cas,
            ..Mix::default()
        };
        Ok(Self { name, mix, key_choice })
    }
}

const ZIPFIAN: &str = "zipfian:0.99";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_letter_has_its_shares_and_the_one_with_ranges_is_refused() {
        let shares = |letter: &str| {
            let ycsb = Ycsb::of(letter).unwrap();
            (ycsb.mix.set, ycsb.mix.cas, ycsb.key_choice)
        };
        assert_eq!(shares("a"), (0.5, 0.0, "zipfian:0.99"));
        assert_eq!(shares("b"), (0.05, 0.0, "zipfian:0.99"));
        assert_eq!(shares("c"), (0.0, 0.0, "zipfian:0.99"));
        assert_eq!(shares("d"), (0.05, 0.0, "latest:0.99"));
        assert_eq!(shares("f"), (0.0, 0.5, "zipfian:0.99"));
        assert!(Ycsb::of("e").unwrap_err().contains("ranges"));
        assert!(Ycsb::of("g").unwrap_err().contains("a, b, c, d or f"));
    }
}
