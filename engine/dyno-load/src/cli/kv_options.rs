//! The options of `dynoload kv`: where the server is, its keys and values, and the operations.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse::{count, kilo, positive_duration, within};
use crate::spec::{KvData, KvMix, KvServer, PresetSpec};

/// 30 days: what is more, memcached takes for a date.
const LONGEST_TTL_S: u32 = 2_592_000;

/// Server and protocol.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct ServerArguments {
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
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Operations")]
pub struct MixArguments {
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

/// Which preset, and its own options.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Presets")]
pub struct PresetArguments {
    /// memslap (a number of operations: set, then get, total time of each; keys of 100 B, values of 400 B) or memaslap
    /// (a time; 90/10; keys of 64 B, values of 1024 B; a window of keys for each connection)
    #[arg(long, conflicts_with = "slices")]
    pub preset: Option<String>,
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

impl PresetArguments {
    /// The same without the command line.
    pub fn spec(&self) -> PresetSpec {
        PresetSpec {
            name: self.preset.clone(),
            execute_number: self.execute_number,
            test: self.test.clone(),
            window: self.window,
            overwrite: self.overwrite.clone(),
        }
    }
}

impl ServerArguments {
    /// The same without the command line.
    pub fn spec(&self) -> KvServer {
        KvServer {
            host: self.host.clone(),
            port: self.port,
            socket: self.socket.clone(),
            protocol: self.protocol.clone(),
            connect_timeout: self.connect_timeout,
        }
    }
}

impl DataArguments {
    /// The same without the command line.
    pub fn spec(&self) -> KvData {
        KvData {
            keys: self.keys,
            key_size: self.key_size.clone(),
            value_size: self.value_size.clone(),
            key_prefix: self.key_prefix.clone(),
            counters: self.counters,
            ttl: self.ttl,
        }
    }
}

impl MixArguments {
    /// The same without the command line.
    pub fn spec(&self) -> KvMix {
        KvMix {
            ycsb: self.ycsb.clone(),
            ratio: self.ratio.clone(),
            multi_get: self.multi_get.clone(),
            multi_get_keys: self.multi_get_keys,
            cas: self.cas.clone(),
            incr: self.incr.clone(),
            delete: self.delete.clone(),
            key_choice: self.key_choice.clone(),
            hit_ratio: self.hit_ratio.clone(),
            verify: self.verify.clone(),
            noreply: self.noreply,
            depth: self.depth,
        }
    }
}
