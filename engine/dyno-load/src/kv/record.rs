//! What a worker records of memcached operations, beside what every load records.

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::{Extra, Recorder};
use serde::Serialize;

/// A recorder of memcached operations.
pub type KvRecorder = Recorder<KvRecord>;

/// One command on the wire; latencies are kept for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Command {
    /// One key.
    Get,
    /// Several keys at once.
    MultiGet,
    /// Store whatever is there.
    Set,
    /// One key with its cas value: the first half of an exchange.
    Gets,
    /// Store if unchanged: the second half.
    Cas,
    /// Count up.
    Increment,
    /// Delete.
    Delete,
    /// Nothing, to see that quiet requests before it are done; no operation.
    Barrier,
}

impl Command {
    /// Number of commands.
    pub const COUNT: usize = 8;

    /// Every command, in the order of its number.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Get,
        Self::MultiGet,
        Self::Set,
        Self::Gets,
        Self::Cas,
        Self::Increment,
        Self::Delete,
        Self::Barrier,
    ];

    /// Whether an operation is nothing but this command: its time is the operation's.
    pub fn is_whole_operation(self) -> bool {
        !matches!(self, Self::Gets | Self::Cas | Self::Barrier)
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::MultiGet => "multi_get",
            Self::Set => "set",
            Self::Gets => "gets",
            Self::Cas => "cas",
            Self::Increment => "incr",
            Self::Delete => "delete",
            Self::Barrier => "barrier",
        }
    }
}

macro_rules! counts {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// Counts that add up over workers and intervals; each is of replies seen, not of requests sent.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct KvCounts {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl KvCounts {
            /// Adds another's.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counts! {
    /// Keys read by get, multi-get and gets: what memcached counts as cmd_get.
    cmd_get,
    /// Requests to store by set and cas: what memcached counts as cmd_set.
    cmd_set,
    /// Keys that were there.
    get_hits,
    /// Keys that were not.
    get_misses,
    /// Items that the server did not store although no condition was set.
    not_stored,
    /// Requests to store by cas; they are in cmd_set, too.
    cas,
    /// Exchanges whose item changed in between.
    cas_changed,
    /// Exchanges whose item was gone.
    cas_missing,
    /// Counts up of items that were there.
    incr_hits,
    /// Counts up of items that were not.
    incr_misses,
    /// Deletes of items that were there.
    delete_hits,
    /// Deletes of items that were not.
    delete_misses,
    /// Values verified.
    verified,
    /// Values that were not what the key and the version make.
    wrong_values,
    /// Bytes of keys and values sent by set.
    object_bytes,
    /// Operations lost with their connection.
    lost,
}

/// One interval of one worker, or the sum of several.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct KvRecord {
    /// Counts.
    pub counts: KvCounts,
    /// Service time by command; empty until the first.
    commands: Vec<Histogram>,
}

impl KvRecord {
    /// Records the service time of one command.
    #[inline]
    pub fn command(&mut self, command: Command, service_ns: u64) {
        if self.commands.is_empty() {
            self.grow();
        }
        self.commands[command as usize].record(service_ns);
    }

    #[cold]
    fn grow(&mut self) {
        self.commands.resize_with(Command::COUNT, Histogram::new);
    }

    /// The service times of a command; none when there was no command at all.
    pub fn of(&self, command: Command) -> Option<&Histogram> {
        self.commands.get(command as usize)
    }
}

impl Extra for KvRecord {
    type Sums = KvCounts;

    fn add_to(&self, sums: &mut KvCounts) {
        sums.add(&self.counts);
    }

    fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.merge_latencies(other);
    }

    fn merge_latencies(&mut self, other: &Self) {
        if self.commands.is_empty() && !other.commands.is_empty() {
            self.grow();
        }
        for (mine, theirs) in self.commands.iter_mut().zip(&other.commands) {
            mine.merge(theirs);
        }
    }

    fn clear(&mut self) {
        self.counts = KvCounts::default();
        self.commands.iter_mut().for_each(Histogram::clear);
    }

    fn add_service_times(&self, service: &mut Histogram) {
        for command in Command::ALL.into_iter().filter(|command| command.is_whole_operation()) {
            if let Some(times) = self.of(command) {
                service.merge(times);
            }
        }
    }
}

// The figures that memaslap prints of its latencies: least, greatest, mean, standard deviation, geometric mean, and counts
// by powers of two of microseconds.
//
// From the histogram, so within 0.05 % of the values themselves; least, greatest and mean are exact, and no count falls on
// the wrong side of a power of two (1,000 · 2^k ns are bounds of buckets). memaslap rounds each latency to whole
// microseconds first.

/// Latencies in one class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Class {
    /// Where it begins; 0 for the first.
    pub from_us: u64,
    /// Where the next begins.
    pub below_us: u64,
    /// How many.
    pub count: u64,
}

/// The figures of one histogram.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of latencies.
    pub count: u64,
    /// Least.
    pub min_us: f64,
    /// Greatest.
    pub max_us: f64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Standard deviation of the population.
    pub std_us: f64,
    /// Geometric mean.
    pub geometric_mean_us: f64,
    /// Counts from 0 up to 1 µs, then up to each next power of two, to the last that has any.
    pub log2: Vec<Class>,
}

impl Distribution {
    /// The figures; none when there are no values.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let summary = histogram.summary()?;
        let mean_us = summary.mean_us;
        let (mut squares, mut logarithms) = (0.0, 0.0);
        let mut log2: Vec<Class> = Vec::new();
        let buckets: Vec<(u64, u64)> = histogram.buckets().collect();
        for (lowest_ns, count) in buckets {
            // A bucket is at most 2^-10 of its value wide.
            let middle_us = middle_ns(lowest_ns) / 1e3;
            squares += (middle_us - mean_us).powi(2) * count as f64;
            logarithms += middle_us.ln() * count as f64;
            let class = class_of(lowest_ns);
            while log2.len() <= class {
                let from_us = if log2.is_empty() { 0 } else { 1 << (log2.len() - 1) };
                log2.push(Class {
                    from_us,
                    below_us: 1 << log2.len(),
                    count: 0,
                });
            }
            log2[class].count += count;
        }
        let count = summary.count as f64;
        Some(Self {
            count: summary.count,
            min_us: summary.min_us,
            max_us: summary.max_us,
            mean_us,
            std_us: (squares / count).sqrt(),
            geometric_mean_us: (logarithms / count).exp(),
            log2,
        })
    }
}

fn middle_ns(lowest_ns: u64) -> f64 {
    let width = 1u64 << (64 - lowest_ns.max(1).leading_zeros()).saturating_sub(11);
    lowest_ns.max(1) as f64 + (width - 1) as f64 / 2.0
}

fn class_of(value_ns: u64) -> usize {
    let value_us = value_ns / 1000;
    (64 - value_us.leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_known_values_come_out() {
        let mut histogram = Histogram::new();
        let values_us = [0.5, 1.0, 1.9, 2.0, 100.0, 127.9, 128.0, 5000.0];
        values_us
            .iter()
            .for_each(|value| histogram.record((value * 1e3) as u64));
        let seen = Distribution::of(&histogram).unwrap();
        let count = values_us.len() as f64;
        let mean = values_us.iter().sum::<f64>() / count;
        let variance = values_us.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let geometric = (values_us.iter().map(|value: &f64| value.ln()).sum::<f64>() / count).exp();
        assert_eq!((seen.min_us, seen.max_us, seen.count), (0.5, 5000.0, 8));
        assert!((seen.mean_us - mean).abs() < 1e-9);
        assert!((seen.std_us / variance.sqrt() - 1.0).abs() < 1e-3, "{}", seen.std_us);
        assert!((seen.geometric_mean_us / geometric - 1.0).abs() < 1e-3);
        let counts: Vec<u64> = seen.log2.iter().map(|class| class.count).collect();
        // Up to 1, 2, 4, 8, 16, 32, 64, 128, 256 … 8192 µs.
        assert_eq!(counts, [1, 2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 1]);
        assert_eq!((seen.log2[7].from_us, seen.log2[7].below_us), (64, 128));
        assert_eq!(Distribution::of(&Histogram::new()), None);
    }
}
