//! The server's version, limits and counters, and its idle_timeout.
//!
//! memcached closes connections without a request for idle_timeout, and no client can switch that off. A load that
//! would leave connections idle for longer is refused; it would measure lost connections.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dyno_core::schedule::{ArrivalCursor, ArrivalSchedule};
use dyno_kv::blocking::Client;
use dyno_kv::Protocol;
use dyno_loop::Think;

use super::record::KvCounts;
use super::{Endpoint, KvSettings};
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
    check_idle_timeout(load, number("idle_timeout").unwrap_or(0), holds)?;
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

/// Planned operations that are looked at: the first ones, some milliseconds of CPU time.
const LOOKED_AT: u64 = 1 << 20;
/// One exponential pause in 22,000 is longer than so many means.
const MEANS: u64 = 10;
/// Slices are held for as long as others are loaded, which the caller decides.
const HOLD_S: f64 = 3600.0;

/// Refuses a load that `idle_timeout_s` of the server would cut; 0: the server has none. `holds`: connections of slices.
///
/// # Errors
/// With both times, and what to change.
fn check_idle_timeout(settings: &KvSettings, idle_timeout_s: u64, holds: bool) -> Result<(), Error> {
    let idle_s = if holds { HOLD_S } else { longest_idle_s(settings) };
    if idle_timeout_s == 0 || idle_s < idle_timeout_s as f64 {
        return Ok(());
    }
    let why = if holds {
        "between slices they are idle for as long as other servers are loaded; start it without -o idle_timeout".into()
    } else {
        format!(
            "this load leaves them idle for up to {idle_s:.1} s; take fewer --connections, a higher --rate or a shorter \
             --think-time, or start it without -o idle_timeout"
        )
    };
    Err(Error::Server(format!(
        "the memcached at {} closes connections that are idle for {idle_timeout_s} s: {why}",
        settings.endpoint
    )))
}

/// How long a connection may be without a request while the load runs.
fn longest_idle_s(settings: &KvSettings) -> f64 {
    let (shape, think) = (&settings.load.shape, settings.load.think);
    let whole_ns = shape.warmup_ns + shape.duration_ns;
    let idle_ns = match (&shape.schedule, think) {
        (Some(plan), _) => longest_gap_ns(plan, shape.connections as usize * settings.depth as usize, whole_ns),
        (None, Think::Constant { pause_ns }) => pause_ns,
        (None, Think::Exponential { mean_ns }) => MEANS * mean_ns,
        (None, Think::No) => 0,
    };
    idle_ns.min(whole_ns) as f64 / 1e9
}

/// The longest time from one operation to the next of the same place: each is taken by the place that is free longest.
fn longest_gap_ns(plan: &Arc<ArrivalSchedule>, places: usize, whole_ns: u64) -> u64 {
    let mut cursor = ArrivalCursor::new(Arc::clone(plan), 0, 1);
    let mut last_of_places: VecDeque<u64> = std::iter::repeat_n(0, places).collect();
    let mut longest_ns = 0;
    for _ in 0..LOOKED_AT {
        let at_ns = cursor.next_arrival().intended_ns.min(whole_ns);
        longest_ns = longest_ns.max(at_ns - last_of_places.pop_front().unwrap_or(0));
        last_of_places.push_back(at_ns);
        if at_ns == whole_ns {
            // From now on no place gets another one.
            break;
        }
    }
    longest_ns
}

#[cfg(test)]
mod tests {
    use dyno_core::schedule::Arrivals;

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

    fn gap_s(rate: &str, places: usize, whole_s: u64) -> f64 {
        let plan = ArrivalSchedule::parse(rate, Arrivals::Constant, 1).unwrap();
        longest_gap_ns(&Arc::new(plan), places, whole_s * 1_000_000_000) as f64 / 1e9
    }

    #[test]
    fn a_place_is_idle_until_all_others_have_had_their_turn() {
        assert_eq!(gap_s("1", 16, 60), 16.0);
        assert_eq!(gap_s("10", 16, 60), 1.6);
        assert_eq!(gap_s("1000", 16, 60), 0.016);
        // No connection is idle for longer than the load lasts.
        assert_eq!(gap_s("1", 100, 60), 60.0);
        // It counts where the rate is least.
        assert_eq!(gap_s("100@10s,0@20s,100", 1, 60), 20.01);
    }
}
