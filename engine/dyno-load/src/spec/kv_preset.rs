//! YCSB's workloads in the commands of memcached, and the presets of `kv run`: the operations of memslap and memaslap,
//! so that results can be compared with published ones.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::LoadSpec;
use crate::error::Error;
use crate::kv::keys::{of_32_bits, share, Choice};
use crate::kv::Mix;
use crate::parse::{count, kilo};

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

/// Which preset, and its own options.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Presets")]
pub struct PresetSpec {
    /// memslap (a number of operations: set, then get, total time of each; keys of 100 B, values of 400 B) or memaslap
    /// (a time; 90/10; keys of 64 B, values of 1024 B; a window of keys for each connection)
    #[arg(id = "preset", long = "preset", value_name = "PRESET", conflicts_with = "slices")]
    pub name: Option<String>,
    /// memslap: operations of each connection
    #[arg(long, default_value = "10000", value_parser = count)]
    pub execute_number: u32,
    /// memslap: set, get (of what a set stored before), or both
    #[arg(long, default_value = "both")]
    pub test: String,
    /// memaslap: keys in the window of each connection; 10k is 10,240, as there
    #[arg(long, default_value = "10k", value_parser = kilo)]
    pub window: u32,
    /// memaslap: share of sets that overwrite a key of the window
    #[arg(long, default_value = "0")]
    pub overwrite: String,
}

/// One run of a preset.
#[derive(Debug)]
pub struct Phase {
    /// Its name in results.
    pub name: &'static str,
    /// Gets to sets.
    pub ratio: &'static str,
    /// Which keys.
    pub choice: Choice,
    /// How many keys there are.
    pub keys: Option<u64>,
    /// Operations that end it.
    pub operations: Option<u64>,
}

/// A preset with its options applied.
#[derive(Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Default sizes of keys and values.
    pub sizes: (&'static str, &'static str),
    /// Its runs, in their order.
    pub phases: Vec<Phase>,
}

impl PresetSpec {
    /// The preset, if `--preset` is set.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn resolve(&self, load: &LoadSpec, counted: bool) -> Result<Option<Preset>, Error> {
        let Some(name) = &self.name else { return Ok(None) };
        if load.rate.is_some() || counted {
            let problem = format!("--preset {name} sets the amount of load: remove --rate and --operations");
            return Err(Error::User(problem));
        }
        match name.as_str() {
            "memslap" => self.memslap(load).map(Some),
            "memaslap" => self.memaslap().map(Some),
            _ => Err(Error::User(format!(
                "--preset '{name}' is not known; use memslap or memaslap"
            ))),
        }
    }

    fn memslap(&self, load: &LoadSpec) -> Result<Preset, Error> {
        let operations = u64::from(self.execute_number) * u64::from(load.connections());
        // Every key once in each phase: what get asks for, set has stored.
        let phase = |name, ratio| Phase {
            name,
            ratio,
            choice: Choice::Sequential,
            keys: Some(operations),
            operations: Some(operations),
        };
        let (set, get) = (phase("memslap_set", "0:1"), phase("memslap_get", "1:0"));
        let phases = match self.test.as_str() {
            "set" => vec![set],
            "get" => vec![get],
            "both" => vec![set, get],
            other => {
                return Err(Error::User(format!(
                    "--test '{other}' is not known; use set, get or both"
                )))
            }
        };
        Ok(Preset {
            name: "memslap",
            sizes: ("100", "400"),
            phases,
        })
    }

    fn memaslap(&self) -> Result<Preset, Error> {
        let overwrite = share(&self.overwrite).map_err(|problem| Error::User(format!("--overwrite: {problem}")))?;
        Ok(Preset {
            name: "memaslap",
            sizes: ("64", "1024"),
            phases: vec![Phase {
                name: "memaslap",
                ratio: "90:10",
                choice: Choice::Window {
                    size: u64::from(self.window),
                    overwrite: of_32_bits(overwrite),
                },
                keys: None,
                operations: None,
            }],
        })
    }
}

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
