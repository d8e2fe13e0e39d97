//! memcached: keys, values and operations, the control connection, and the session of the load loop.
//!
//! Schedule, clock, recorder, quality rules and output are those of SQL; what differs is one connection with several
//! operations in flight, keys and values, hits and misses.

mod flights;
pub mod keys;
mod record;
pub mod server;
mod session;
pub mod sizes;

use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use dyno_core::random::{Domain, RandomStream};
use dyno_kv::Protocol;
use dyno_loop::LoadSettings;

pub use record::{Command, Distribution, KvCounts, KvRecord, KvRecorder};
pub use session::KvSession;

use keys::{Choice, Keys, Window};
use sizes::Values;

/// Shares of the operations; all others are gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Mix {
    /// Set.
    pub set: f64,
    /// Several keys at once.
    pub multi_get: f64,
    /// Get with cas value, then store if unchanged.
    pub cas: f64,
    /// Count up.
    pub incr: f64,
    /// Delete.
    pub delete: f64,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Its first command.
    pub command: Command,
    /// The number of its key, the first of several.
    pub key: u64,
    /// Whether values found are looked at.
    pub verify: bool,
}

/// A workload.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Its keys.
    pub keys: Keys,
    /// Its values.
    pub values: Values,
    /// Keys in a multi-get.
    pub multi_get_keys: u32,
    /// Counters for incr; they are keys of their own.
    pub counters: u64,
    /// Expiry time of stored values in seconds; 0: never.
    pub ttl_s: u32,
    /// Whether sets are sent without a reply.
    pub quiet_sets: bool,
    /// Seed of the operations.
    pub seed: u64,
    /// Cumulative shares of set, multi-get, gets, incr, delete, in 2^-32.
    limits: [(u64, Command); 5],
    verify: u64,
    absent: u64,
}

/// The shares in a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Shares of the commands.
    pub mix: Mix,
    /// Share of the values found that are looked at.
    pub verify: f64,
    /// Share of the keys read that were never stored.
    pub absent: f64,
}

impl Workload {
    /// A workload from its parts.
    ///
    /// # Errors
    /// A sentence, when the shares are more than 1.
    pub fn new(keys: Keys, values: Values, shares: Shares, seed: u64) -> Result<Self, String> {
        let Mix {
            set,
            multi_get,
            cas,
            incr,
            delete,
        } = shares.mix;
        let mut passed = 0.0;
        let mut limit = |share: f64, command| {
            passed += share;
            ((passed * 4_294_967_296.0).round() as u64, command)
        };
        let limits = [
            limit(set, Command::Set),
            limit(multi_get, Command::MultiGet),
            limit(cas, Command::Gets),
            limit(incr, Command::Increment),
            limit(delete, Command::Delete),
        ];
        if shares.absent > 0.0 && matches!(keys.choice, Choice::Latest { .. }) {
            return Err(
                "with --key-choice latest, sets store keys in the range that misses are taken from: remove --hit-ratio"
                    .into(),
            );
        }
        if passed > 1.0 + 1e-9 {
            return Err(format!(
                "the shares of set, multi-get, cas, incr and delete are {passed:.3} in all, above 1"
            ));
        }
        let of_32_bits = |share: f64| (share * 4_294_967_296.0).round() as u64;
        Ok(Self {
            keys,
            values,
            multi_get_keys: 1,
            counters: 1,
            ttl_s: 0,
            quiet_sets: false,
            seed,
            limits,
            verify: of_32_bits(shares.verify),
            absent: of_32_bits(shares.absent),
        })
    }

    /// Operation `number` on a connection whose window this is.
    #[inline]
    pub fn operation(&self, number: u64, connection: (u64, u64), window: &mut Window) -> Operation {
        let mut stream = RandomStream::of(self.seed, Domain::Operation, number);
        let draws = stream.next_u64();
        let mut command = Command::Get;
        for (limit, of) in &self.limits {
            if draws >> 32 < *limit {
                command = *of;
                break;
            }
        }
        let verify = draws & 0xffff_ffff < self.verify;
        if let Choice::Window { size, overwrite } = self.keys.choice {
            return windowed(command, verify, &mut stream, window, (size, overwrite), connection);
        }
        let key = match command {
            Command::Increment => self.counter(&mut stream),
            Command::Get | Command::Gets => self.asked(&mut stream, number),
            Command::Set => self.keys.choose_for_set(&mut stream, number),
            Command::Delete => self.keys.choose(&mut stream, number),
            // The keys of a multi-get are drawn as they are written.
            _ => 0,
        };
        Operation { command, key, verify }
    }

    /// Bytes of a key and its value.
    #[inline]
    pub fn object_bytes(&self, key: u64) -> u64 {
        (self.keys.sizes.of(key) + self.values.length(key)) as u64
    }

    /// Writes the keys of a multi-get one after another, and their ends.
    pub fn multi_get(&self, number: u64, out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        out.clear();
        ends.clear();
        let mut stream = RandomStream::of(self.seed, Domain::Operation, number);
        stream.next_u64();
        for place in 0..u64::from(self.multi_get_keys) {
            let key = self.asked(
                &mut stream,
                number.wrapping_mul(u64::from(self.multi_get_keys)).wrapping_add(place),
            );
            self.keys.write(key, out);
            ends.push(out.len());
        }
    }

    /// A key to read: one of the keys, or one of as many others that are never stored.
    fn asked(&self, stream: &mut RandomStream, number: u64) -> u64 {
        let key = self.keys.choose(stream, number);
        if self.absent > 0 && stream.next_u64() >> 32 < self.absent {
            key + self.keys.count
        } else {
            key
        }
    }

    fn counter(&self, stream: &mut RandomStream) -> u64 {
        keys::below(stream, self.counters)
    }

    /// Writes the key of a counter.
    pub fn write_counter(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.keys.prefix);
        // Writing to a vector cannot fail.
        let _ = write!(out, "counter-{number}");
    }
}

/// memaslap's operation: its window decides, and an empty one makes a set of any command.
fn windowed(
    mut command: Command,
    verify: bool,
    stream: &mut RandomStream,
    window: &mut Window,
    (size, overwrite): (u64, u32),
    (connection, connections): (u64, u64),
) -> Operation {
    let fresh = command == Command::Set && (stream.next_u64() >> 32) as u32 >= overwrite;
    let old = if fresh { None } else { window.any(stream, size) };
    let key = old.unwrap_or_else(|| {
        command = Command::Set;
        window.make()
    });
    Operation {
        command,
        key: key * connections + connection,
        verify,
    }
}

/// Where the server listens, in the user's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Host and port.
    Tcp(String, u16),
    /// Path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(formatter, "{host}:{port}"),
            Self::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// One run.
#[derive(Debug)]
pub struct KvSettings {
    /// What the run is called in results: kv, fill, memslap_set …
    pub name: String,
    /// Where the server listens.
    pub endpoint: Endpoint,
    /// Which protocol to speak.
    pub protocol: Protocol,
    /// How the load runs.
    pub load: LoadSettings,
    /// Operations in flight on a connection at a time.
    pub depth: u32,
    /// Keys, values and operations.
    pub workload: Workload,
}

impl KvSettings {
    /// Time for a connection to be made and to give its first answer.
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_nanos(self.load.connect_timeout_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::sizes::Sizes;
    use super::*;

    fn workload(choice: Choice, mix: Mix, absent: f64) -> Workload {
        let keys = Keys::new(1000, choice, "", Sizes::Fixed(20)).unwrap();
        let shares = Shares {
            mix,
            verify: 0.25,
            absent,
        };
        Workload::new(keys, Values::new(Sizes::Fixed(100)), shares, 1).unwrap()
    }

    #[test]
    fn shares_are_kept_and_missing_keys_are_only_asked_for() {
        let mix = Mix {
            set: 0.1,
            cas: 0.05,
            delete: 0.05,
            ..Mix::default()
        };
        let workload = workload(Choice::Uniform, mix, 0.3);
        let operations: Vec<Operation> = (0..100_000)
            .map(|number| workload.operation(number, (0, 1), &mut Window::default()))
            .collect();
        let share = |condition: &dyn Fn(&Operation) -> bool| {
            operations.iter().filter(|operation| condition(operation)).count() as f64 / 100_000.0
        };
        assert!((share(&|o| o.command == Command::Set) - 0.1).abs() < 0.005);
        assert!((share(&|o| o.command == Command::Gets) - 0.05).abs() < 0.005);
        assert!((share(&|o| o.verify) - 0.25).abs() < 0.01);
        assert!((share(&|o| o.key >= 1000) - 0.3 * 0.85).abs() < 0.01);
        assert_eq!(
            share(&|o| o.key >= 1000 && matches!(o.command, Command::Set | Command::Delete)),
            0.0
        );
    }

    #[test]
    fn a_window_starts_with_a_set_and_connections_share_no_key() {
        let mix = Mix {
            set: 0.1,
            ..Mix::default()
        };
        let choice = Choice::Window { size: 50, overwrite: 0 };
        let workload = workload(choice, mix, 0.0);
        let mut window = Window::default();
        let operations: Vec<Operation> = (0..10_000)
            .map(|number| workload.operation(number, (2, 5), &mut window))
            .collect();
        assert_eq!(operations[0].command, Command::Set);
        assert!(operations.iter().all(|operation| operation.key % 5 == 2));
        let sets: Vec<u64> = operations
            .iter()
            .filter(|o| o.command == Command::Set)
            .map(|o| o.key)
            .collect();
        assert!(
            sets.windows(2).all(|pair| pair[1] == pair[0] + 5),
            "each set makes a new key"
        );
        assert!((sets.len() as f64 - 1000.0).abs() < 100.0);
    }

    #[test]
    fn the_same_number_asks_the_same() {
        let workload = workload(Choice::Uniform, Mix::default(), 0.5);
        let mut window = Window::default();
        assert_eq!(
            workload.operation(7, (0, 1), &mut window),
            workload.operation(7, (3, 8), &mut window)
        );
        let (mut first, mut second, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        workload.multi_get(9, &mut first, &mut ends);
        workload.multi_get(9, &mut second, &mut ends);
        assert_eq!(first, second);
    }
}
