//! What a worker records of memcached operations, beside what every load records.

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::{Extra, Recorder};

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
