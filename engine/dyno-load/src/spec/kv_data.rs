//! Where a memcached server is, its keys and values, and the operations, as the user wrote them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dyno_kv::Protocol;
use dyno_loop::Address;
use serde::{Deserialize, Serialize};

use super::connection::resolve;
use super::Ycsb;
use crate::error::Error;
use crate::kv::{keys, Endpoint, Mix};
use crate::parse::{count, positive_duration, within};

/// 30 days: what is more, memcached takes for a date.
const LONGEST_TTL_S: u32 = 2_592_000;

/// Server and protocol.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Connection")]
pub struct KvServer {
    /// Name or address of the server
    #[arg(long, default_value = "127.0.0.1", conflicts_with = "socket")]
    pub host: String,
    /// Its TCP port
    #[arg(long, default_value_t = 11211, value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "socket")]
    pub port: u16,
    /// Path of its Unix socket, instead of host and port
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// text, binary or meta; MySQL's InnoDB plugin does not support meta
    #[arg(long, default_value = "text")]
    pub protocol: String,
    /// Time for a connection to be made and to give its first answer
    #[arg(long, default_value = "10s", value_parser = positive_duration)]
    pub connect_timeout: Duration,
}

impl KvServer {
    /// Where the server listens.
    pub fn endpoint(&self) -> Endpoint {
        match &self.socket {
            Some(path) => Endpoint::Unix(path.clone()),
            None => Endpoint::Tcp(self.host.clone(), self.port),
        }
    }

    /// The same with the host's name resolved once.
    ///
    /// # Errors
    /// When the name has no address.
    pub fn address(&self) -> Result<Address, Error> {
        resolve(self.socket.as_deref(), &self.host, self.port, self.connect_timeout)
    }

    /// The protocol.
    ///
    /// # Errors
    /// When it is not known.
    pub fn protocol(&self) -> Result<Protocol, Error> {
        let known = [Protocol::Text, Protocol::Binary, Protocol::Meta];
        let unknown = || {
            Error::User(format!(
                "--protocol '{}' is not known; use text, binary or meta",
                self.protocol
            ))
        };
        known
            .into_iter()
            .find(|protocol| protocol.name() == self.protocol)
            .ok_or_else(unknown)
    }
}

/// Keys and values; the same for filling and for running.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Keys and values")]
pub struct KvData {
    /// Number of keys
    #[arg(long, default_value = "10000", value_parser = count)]
    pub keys: u32,
    /// Size of a key in bytes: 64, uniform:20-60, weighted:20=70,200=30 or etc (Facebook's) [default: 64]
    #[arg(long)]
    pub key_size: Option<String>,
    /// Size of a value in bytes: 1024, uniform:…, weighted:… or etc; a key keeps its size [default: 1024]
    #[arg(long)]
    pub value_size: Option<String>,
    /// Prefix of every key, as in @@container. of the InnoDB plugin
    #[arg(long, default_value = "")]
    pub key_prefix: String,
    /// Number of counters for incr, which have keys of their own
    #[arg(long, default_value = "1000", value_parser = within::<1, 10_000_000>)]
    pub counters: u32,
    /// Expiry time of stored values in seconds; 0: never
    #[arg(long, default_value = "0", value_parser = within::<0, LONGEST_TTL_S>)]
    pub ttl: u32,
}

/// The operations.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Operations")]
pub struct KvMix {
    /// As one of YCSB's workloads: a (half gets, half sets), b (95 % gets), c (gets only), d (95 % gets of the newest keys,
    /// and sets of new ones), f (half gets, half gets followed by cas)
    #[arg(long, conflicts_with_all = ["ratio", "multi_get", "cas", "incr", "delete", "key_choice", "preset"])]
    pub ycsb: Option<String>,
    /// Ratio of gets to sets in the operations that the other shares leave
    #[arg(long, default_value = "90:10")]
    pub ratio: String,
    /// Share of multi-gets
    #[arg(long, default_value = "0%")]
    pub multi_get: String,
    /// Number of keys in a multi-get
    #[arg(long, default_value = "10", value_parser = within::<1, 10_000>)]
    pub multi_get_keys: u32,
    /// Share of gets followed by cas
    #[arg(long, default_value = "0%")]
    pub cas: String,
    /// Share of incr
    #[arg(long, default_value = "0%")]
    pub incr: String,
    /// Share of deletes
    #[arg(long, default_value = "0%")]
    pub delete: String,
    /// Distribution of keys: uniform, zipfian:0.99, hotspot:10%:90% (keys, operations), latest:0.99 (newest
    /// most; a set stores a new key) or sequential
    #[arg(long, default_value = "uniform")]
    pub key_choice: String,
    /// Share of gets for keys that were stored; the other gets use keys that are never stored. The verdict compares the
    /// hit ratio with it, with 100% where it is not set; any: with none
    #[arg(long)]
    pub hit_ratio: Option<String>,
    /// Share of found values that are compared with the expected value of their key
    #[arg(long, default_value = "1%")]
    pub verify: String,
    /// Sets request no reply (noreply, quiet); the next reply on the connection ends them
    #[arg(long)]
    pub noreply: bool,
    /// Operations in progress on each connection
    #[arg(long, default_value = "1", value_parser = within::<1, 10_000>)]
    pub depth: u32,
}

/// The hit ratio that allows every share.
const ANY_SHARE: &str = "any";

/// A share such as 10%.
///
/// # Errors
/// With the option and what is allowed.
pub fn share(option: &str, text: &str) -> Result<f64, Error> {
    keys::share(text).map_err(|problem| Error::User(format!("--{option}: {problem}")))
}

impl KvMix {
    /// The workload of YCSB, if `--ycsb` is set.
    ///
    /// # Errors
    /// When there is none with the letter.
    pub fn of_ycsb(&self) -> Result<Option<Ycsb>, Error> {
        let wrong = |problem| Error::User(format!("--ycsb: {problem}"));
        self.ycsb
            .as_deref()
            .map(|letter| Ycsb::of(letter).map_err(wrong))
            .transpose()
    }

    /// Which keys.
    ///
    /// # Errors
    /// As [`Self::of_ycsb`].
    pub fn choice_of_keys(&self) -> Result<&str, Error> {
        Ok(self.of_ycsb()?.map_or(&self.key_choice, |ycsb| ycsb.key_choice))
    }

    /// Shares of the commands.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn mix(&self) -> Result<Mix, Error> {
        if let Some(ycsb) = self.of_ycsb()? {
            return Ok(ycsb.mix);
        }
        let others = [
            share("multi-get", &self.multi_get)?,
            share("cas", &self.cas)?,
            share("incr", &self.incr)?,
            share("delete", &self.delete)?,
        ];
        let left = 1.0 - others.iter().sum::<f64>();
        if left < -1e-9 {
            return Err(Error::User(format!(
                "--multi-get, --cas, --incr and --delete are {:.1} % in all; use at most 100 %",
                (1.0 - left) * 100.0
            )));
        }
        Ok(Mix {
            set: self.set_share()? * left.max(0.0),
            multi_get: others[0],
            cas: others[1],
            incr: others[2],
            delete: others[3],
        })
    }

    fn set_share(&self) -> Result<f64, Error> {
        let wrong = || {
            Error::User(format!(
                "--ratio '{}' is not a ratio; write gets:sets, as in 90:10",
                self.ratio
            ))
        };
        let (gets, sets) = self.ratio.split_once(':').ok_or_else(wrong)?;
        let part = |text: &str| {
            text.trim()
                .parse::<f64>()
                .ok()
                .filter(|value| *value >= 0.0 && value.is_finite())
        };
        let (gets, sets) = part(gets).zip(part(sets)).ok_or_else(wrong)?;
        if gets + sets <= 0.0 {
            return Err(wrong());
        }
        Ok(sets / (gets + sets))
    }

    /// The share of gets for keys that are stored; none where none is set, or every share is allowed.
    ///
    /// # Errors
    /// When it is no share.
    pub fn hit_share(&self) -> Result<Option<f64>, Error> {
        let text = self.hit_ratio.as_deref().filter(|text| *text != ANY_SHARE);
        text.map(|text| share("hit-ratio", text)).transpose()
    }

    /// The share of keys read that should be found where the share `stored` was stored before; none where deletes, a part
    /// of the keys, or the user's word leave it open.
    ///
    /// # Errors
    /// As [`Self::hit_share`] and [`Self::mix`].
    pub fn expected_hit_share(&self, stored: f64) -> Result<Option<f64>, Error> {
        if self.hit_ratio.is_some() {
            return self.hit_share();
        }
        Ok((stored >= 1.0 && self.mix()?.delete <= 0.0).then_some(1.0))
    }
}
