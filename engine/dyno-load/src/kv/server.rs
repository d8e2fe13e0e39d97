//! The server's version, limits and counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dyno_kv::blocking::Client;
use dyno_kv::Protocol;

use super::idle;
use super::record::KvCounts;
use super::settings::{Endpoint, KvSettings};
use crate::error::Error;
use crate::server::{compare, CounterCheck, Facts};

/// Connects for questions, each of which has to be answered within `timeout`.
///
/// # Errors
/// If nothing listens at the address; the message says what to try.
pub fn connect(endpoint: &Endpoint, protocol: Protocol, timeout: Duration) -> Result<Client, Error> {
    let client = match endpoint {
        Endpoint::Tcp(host, port) => Client::tcp((host.as_str(), *port), protocol, timeout),
        Endpoint::Unix(path) => Client::unix(path, protocol, timeout),
    };
    client.map_err(|error| match error {
        dyno_kv::Error::NoAnswer { .. } => no_answer(&error),
        _ => Error::Server(format!(
            "no memcached answers at {endpoint}: {error}; check --host and --port, or --socket"
        )),
    })
}

fn no_answer(error: &dyno_kv::Error) -> Error {
    Error::Server(format!(
        "{error}; check --host and --port (is it a memcached?), or raise --connect-timeout"
    ))
}

/// The server's counters, on a connection of their own.
#[derive(Debug)]
pub struct Counters {
    settings: Arc<KvSettings>,
    client: Option<Client>,
}

impl Counters {
    /// On this connection.
    pub fn new(settings: Arc<KvSettings>, client: Client) -> Self {
        Self {
            settings,
            client: Some(client),
        }
    }

    /// What they are now. A connection that the server has closed meanwhile, as idle, is made again, once.
    pub fn read(&mut self) -> Option<BTreeMap<String, String>> {
        if let Some(stats) = self.client.as_mut().and_then(|client| stats(client, "").ok()) {
            return Some(stats);
        }
        let settings = &self.settings;
        self.client = connect(&settings.endpoint, settings.protocol, settings.connect_timeout()).ok();
        stats(self.client.as_mut()?, "").ok()
    }
}

/// Reads version and limits, and checks that the server speaks the protocol and keeps the connections of this load, or of
/// its slices (`holds`).
///
/// # Errors
/// When it does not, with what to try.
pub fn check(client: &mut Client, load: &KvSettings, holds: bool) -> Result<Facts, Error> {
    let (endpoint, protocol) = (&load.endpoint, load.protocol);
    let silent = |error: dyno_kv::Error| match error {
        dyno_kv::Error::NoAnswer { .. } => no_answer(&error),
        _ => Error::Server(format!(
            "the server at {endpoint} does not answer in the {} protocol: {error}; try another --protocol",
            protocol.name()
        )),
    };
    let version = client.version().map_err(silent)?;
    if protocol == Protocol::Meta {
        let noop = client.exchange(
            |connection| {
                connection.noop();
                Ok(())
            },
            |_| {},
        );
        noop.map_err(silent)?;
    }
    let general = stats(client, "")?;
    let settings = stats(client, "settings").unwrap_or_default();
    let number = |name: &str| settings.get(name).and_then(|value| value.parse().ok());
    idle::check(load, number("idle_timeout").unwrap_or(0), holds)?;
    let threads = settings.get("num_threads").or_else(|| general.get("threads"));
    let memory = general.get("limit_maxbytes");
    let shown = |value: Option<&String>| value.cloned().unwrap_or_else(|| "unknown".into());
    Ok(Facts {
        kind: if is_plugin(&general) {
            "innodb_memcached".into()
        } else {
            "memcached".into()
        },
        version,
        version_comment: format!("{} threads, limit_maxbytes {}", shown(threads), shown(memory)),
        max_connections: number("maxconns"),
    })
}

/// Whether these are the statistics of MySQL's InnoDB plugin: its memcached is a fork that counts the daemon's own
/// connections.
fn is_plugin(general: &BTreeMap<String, String>) -> bool {
    general.contains_key("daemon_connections")
}

/// A group of statistics by name.
///
/// # Errors
/// When the question fails.
pub fn stats(client: &mut Client, group: &str) -> Result<BTreeMap<String, String>, Error> {
    let failed = |error: dyno_kv::Error| match error {
        dyno_kv::Error::NoAnswer { .. } => no_answer(&error),
        _ => Error::Server(format!("\"stats {group}\" failed: {error}")),
    };
    Ok(client.stats(group).map_err(failed)?.into_iter().collect())
}

/// How much each counter that is compared grew.
pub fn growth(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> BTreeMap<String, u64> {
    let value = |stats: &BTreeMap<String, String>, name: &str| stats.get(name)?.parse::<u64>().ok();
    let added = |name: &&str| {
        let grown = value(after, name)?.saturating_sub(value(before, name)?);
        Some((name.to_string(), grown))
    };
    ["cmd_get", "cmd_set", "get_hits", "get_misses"]
        .iter()
        .filter_map(added)
        .collect()
}

/// What the server added to its counters since `before`, against ours.
///
/// `uncertain` operations may or may not have been counted by the server.
pub fn reconcile(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    counts: &KvCounts,
    uncertain: u64,
) -> Vec<CounterCheck> {
    let added = |name: &str| -> Option<u64> {
        let value = |stats: &BTreeMap<String, String>| stats.get(name)?.parse::<u64>().ok();
        Some(value(after)?.saturating_sub(value(before)?))
    };
    // The InnoDB plugin's cmd_set is without cas (5.6.14), memcached's with it (1.6.18).
    let elsewhere = if is_plugin(after) { counts.cas } else { 0 };
    let ours = [
        ("cmd_get", counts.cmd_get),
        ("cmd_set", counts.cmd_set - elsewhere),
        ("get_hits", counts.get_hits),
        ("get_misses", counts.get_misses),
    ];
    let check = |(name, client): (&'static str, u64)| {
        let server = added(name)?;
        (server > 0 || client > 0).then(|| compare(name, server, client, uncertain))
    };
    ours.into_iter().filter_map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_disagrees_says_by_how_much() {
        let stats = |values: [u64; 4]| -> BTreeMap<String, String> {
            let names = ["cmd_get", "cmd_set", "get_hits", "get_misses"];
            names
                .iter()
                .zip(values)
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect()
        };
        let counts = KvCounts {
            cmd_get: 100,
            cmd_set: 10,
            get_hits: 100,
            ..KvCounts::default()
        };
        let checks = reconcile(&stats([50, 5, 0, 0]), &stats([150, 15, 90, 10]), &counts, 0);
        let differences: Vec<(&str, f64)> = checks
            .iter()
            .map(|check| (check.counter, check.difference_pct))
            .collect();
        assert_eq!(
            differences[..3],
            [("cmd_get", 0.0), ("cmd_set", 0.0), ("get_hits", -10.0)]
        );
        // We saw no miss, the server saw ten.
        assert_eq!(differences[3].0, "get_misses");
        assert!(differences[3].1 >= 100.0);
        let (mut plugin, mut later) = (stats([0; 4]), stats([0, 8, 0, 0]));
        for stats in [&mut plugin, &mut later] {
            stats.insert("daemon_connections".into(), "1".into());
        }
        let with_cas = KvCounts {
            cmd_set: 10,
            cas: 2,
            ..KvCounts::default()
        };
        let checks = reconcile(&plugin, &later, &with_cas, 0);
        assert_eq!((checks[0].counter, checks[0].difference_pct), ("cmd_set", 0.0));
        let missing = BTreeMap::new();
        assert!(reconcile(&missing, &missing, &counts, 0).is_empty());
    }
}
