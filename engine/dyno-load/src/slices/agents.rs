//! Slices that agents on other hosts load; counters and records are those of the load from this host.

use std::io;
use std::thread::JoinHandle;

use dyno_loop::{Channels, Load, LoadShape};
use serde_json::{Map, Value};

use super::{Comparison, Target};
use crate::agents::{Proxies, Shippable};
use crate::quality::Finding;

/// From a command to the first statement, beside what the way to the agents takes: a relay may be busy for a moment.
const AGENTS_DELAY_NS: u64 = 30_000_000;

/// A target that agents load.
pub struct AgentsTarget<T> {
    inner: T,
    proxies: Proxies,
    delay_ns: u64,
}

impl<T: Target> AgentsTarget<T> {
    /// `way_ns`: what a start needs to reach every agent.
    pub fn new(inner: T, proxies: Proxies, way_ns: u64) -> Self {
        Self {
            inner,
            proxies,
            delay_ns: AGENTS_DELAY_NS + way_ns,
        }
    }
}

impl<T: Target> Target for AgentsTarget<T>
where
    T::Extra: Shippable,
{
    type Extra = T::Extra;
    type Counters = T::Counters;

    fn shape(&self) -> &LoadShape {
        &self.proxies.shape
    }

    fn start_worker(&self, index: usize, channels: Channels<T::Extra>) -> io::Result<JoinHandle<()>> {
        self.proxies.start(index, channels)
    }

    fn read_counters(&mut self) -> Option<T::Counters> {
        self.inner.read_counters()
    }

    fn compare_counters(&self, before: &T::Counters, after: &T::Counters, load: &Load<T::Extra>) -> Comparison {
        self.inner.compare_counters(before, after, load)
    }

    fn describe(&self, load: &Load<T::Extra>, length_s: f64, record: &mut Map<String, Value>) {
        self.inner.describe(load, length_s, record);
    }

    fn judge(&mut self, load: &Load<T::Extra>, length_s: f64) -> Vec<Finding> {
        self.inner.judge(load, length_s)
    }

    fn start_delay_ns(&self) -> u64 {
        self.delay_ns
    }

    fn leave(&mut self) {
        self.inner.leave();
    }
}
