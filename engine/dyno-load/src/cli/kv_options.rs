//! The options of `dynoload kv`: where the server is, what is asked of it.

use std::net::ToSocketAddrs as _;
use std::path::PathBuf;

use clap::Args;
use dyno_kv::Protocol;

use super::parse::{count, number};
use crate::error::Error;
use crate::kv::keys::{self, Choice, Keys};
use crate::kv::sizes::{Sizes, What};
use crate::kv::values::Values;
use crate::kv::workload::{Mix, Shares, Workload};
use crate::kv::Endpoint;
use crate::output::kv::Words;
use crate::run::socket::Address;

/// Where the server is, and how to speak to it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct PlaceArguments {
    /// Name or address of the server
    #[arg(long, default_value = "127.0.0.1", conflicts_with = "socket")]
    pub host: String,
    /// Its TCP port
    #[arg(long, default_value_t = 11211, conflicts_with = "socket")]
    pub port: u16,
    /// Path of its Unix socket, instead of host and port
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// text, binary or meta; MySQL's InnoDB plugin has no meta
    #[arg(long, default_value = "text")]
    pub protocol: String,
}

impl PlaceArguments {
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
        if let Some(path) = &self.socket {
            return Ok(Address::Unix(path.clone()));
        }
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let first = found.ok().and_then(|mut addresses| addresses.next());
        let unknown = || Error::User(format!("--host '{}' has no address; check the name", self.host));
        first.map(Address::Tcp).ok_or_else(unknown)
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
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Keys and values")]
pub struct DataArguments {
    /// Number of keys
    #[arg(long, default_value = "10000", value_parser = count)]
    pub keys: u32,
    /// Size of a key in bytes: 64, uniform:20-60, weighted:20=70,200=30 or etc (Facebook's) [default: 64]
    #[arg(long)]
    pub key_size: Option<String>,
    /// Size of a value in bytes: 1024, uniform:…, weighted:… or etc; a key keeps its size [default: 1024]
    #[arg(long)]
    pub value_size: Option<String>,
    /// In front of every key, as in @@container. of the InnoDB plugin
    #[arg(long, default_value = "")]
    pub key_prefix: String,
    /// Counters for incr, keys of their own
    #[arg(long, default_value = "1000", value_parser = count)]
    pub counters: u32,
    /// Seconds to live of what is stored; 0 for ever
    #[arg(long, default_value = "0", value_parser = number)]
    pub ttl: u32,
}

/// What is asked.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Operations")]
pub struct MixArguments {
    /// Gets to sets, for what other shares leave
    #[arg(long, default_value = "90:10")]
    pub ratio: String,
    /// Share of multi-gets
    #[arg(long, default_value = "0%")]
    pub multi_get: String,
    /// Keys of a multi-get
    #[arg(long, default_value = "10", value_parser = count)]
    pub multi_get_keys: u32,
    /// Share of exchanges: gets, then cas
    #[arg(long, default_value = "0%")]
    pub cas: String,
    /// Share of counts up
    #[arg(long, default_value = "0%")]
    pub incr: String,
    /// Share of deletes
    #[arg(long, default_value = "0%")]
    pub delete: String,
    /// Which keys: uniform, zipfian:0.99, hotspot:10%:90% (keys, operations) or sequential
    #[arg(long, default_value = "uniform")]
    pub key_choice: String,
    /// Share of the keys asked for that should be there: the others are never stored. Misses are judged by it
    #[arg(long)]
    pub hit_ratio: Option<String>,
    /// Share of the values found that are compared with what their key makes
    #[arg(long, default_value = "1%")]
    pub verify: String,
    /// Sets ask for no reply (noreply, quiet); the next reply on the connection ends them
    #[arg(long)]
    pub noreply: bool,
    /// Operations under way on a connection at a time
    #[arg(long, default_value = "1", value_parser = count)]
    pub depth: u32,
}

fn share(option: &str, text: &str) -> Result<f64, Error> {
    keys::share(text).map_err(|problem| Error::User(format!("--{option}: {problem}")))
}

impl MixArguments {
    /// Shares of the commands.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn mix(&self) -> Result<Mix, Error> {
        let others = [
            share("multi-get", &self.multi_get)?,
            share("cas", &self.cas)?,
            share("incr", &self.incr)?,
            share("delete", &self.delete)?,
        ];
        let left = 1.0 - others.iter().sum::<f64>();
        if left < -1e-9 {
            return Err(Error::User(format!(
                "--multi-get, --cas, --incr and --delete are {:.1} % in all; give at most 100 %",
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
                "--ratio '{}' is no ratio; write gets:sets, as in 90:10",
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

    /// The share of hits that is asked for.
    ///
    /// # Errors
    /// When it is no share.
    pub fn hit_share(&self) -> Result<Option<f64>, Error> {
        self.hit_ratio
            .as_deref()
            .map(|text| share("hit-ratio", text))
            .transpose()
    }
}

/// Keys, values and mix, resolved, with the words for the result.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Keys and values.
    pub data: &'a DataArguments,
    /// What is asked; none for filling.
    pub mix: Option<&'a MixArguments>,
    /// Which keys, where the preset says so.
    pub choice: Option<Choice>,
    /// Number of keys, where the preset says so.
    pub keys: Option<u64>,
    /// Default sizes of keys and values.
    pub sizes: (&'static str, &'static str),
    /// Seed.
    pub seed: u64,
}

impl Asked<'_> {
    /// The workload, and its words.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn resolve(&self) -> Result<(Workload, Words), Error> {
        let data = self.data;
        let count = self.keys.unwrap_or(u64::from(data.keys));
        let key_size = data.key_size.as_deref().unwrap_or(self.sizes.0);
        let value_size = data.value_size.as_deref().unwrap_or(self.sizes.1);
        let wrong = |option: &'static str| move |problem: String| Error::User(format!("--{option}: {problem}"));
        let key_choice = self.mix.map_or("sequential", |mix| &mix.key_choice);
        let choice = match &self.choice {
            Some(choice) => choice.clone(),
            None => Choice::parse(key_choice, count).map_err(wrong("key-choice"))?,
        };
        let key_sizes = Sizes::parse(key_size, What::Key).map_err(wrong("key-size"))?;
        let value_sizes = Sizes::parse(value_size, What::Value).map_err(wrong("value-size"))?;
        let keys = Keys::new(count, choice.clone(), &data.key_prefix, key_sizes).map_err(wrong("key-size"))?;
        let mix = match self.mix {
            Some(mix) => mix.mix()?,
            None => Mix {
                set: 1.0,
                ..Mix::default()
            },
        };
        let hit_ratio = self.mix.map_or(Ok(None), MixArguments::hit_share)?;
        let verify = self.mix.map_or(Ok(0.0), |mix| share("verify", &mix.verify))?;
        let shares = Shares {
            mix,
            verify,
            absent: 1.0 - hit_ratio.unwrap_or(1.0),
        };
        let mut workload = Workload::new(keys, Values::new(value_sizes), shares, self.seed).map_err(Error::User)?;
        workload.counters = u64::from(data.counters);
        workload.ttl_s = data.ttl;
        if let Some(mix) = self.mix {
            workload.multi_get_keys = mix.multi_get_keys;
            workload.quiet_sets = mix.noreply;
        }
        let words = Words {
            mix,
            key_choice: match &choice {
                Choice::Window { size, .. } => format!("window:{size}"),
                _ => key_choice.into(),
            },
            key_size: key_size.into(),
            value_size: value_size.into(),
            verify,
            hit_ratio,
            ..Words::default()
        };
        Ok((workload, words))
    }
}
