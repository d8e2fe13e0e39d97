//! What a metric family is, and what a collector of one promises.

use crate::clock::Clock;
use crate::machine::{Machine, Process};
use crate::metric::Metric;
use crate::mysql::status_family::StatusFamily;
use crate::sample::Sample;

/// Why a reading gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The thing that was read is not there (any more): a process has ended, a file does not exist.
    #[error("{0}")]
    Gone(String),
    /// It is there, and cannot be read or understood.
    #[error("{0}")]
    Unreadable(String),
}

/// What a collector may use while it reads.
#[derive(Debug)]
pub struct Moment<'a> {
    /// Time; read it when the counters are read, for rates use the true elapsed time.
    pub clock: &'a Clock,
    /// One buffer for all files.
    pub buffer: &'a mut Vec<u8>,
    /// How many counters went backwards; a collector adds its own.
    pub backwards: u32,
}

/// Reads one family for one subject (the host, or one process), sample after sample.
pub trait Collector {
    /// Adds what can be read now to the sample. What is not here is left out.
    ///
    /// # Errors
    /// When the whole family cannot be read; the run goes on and the failure is recorded once.
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure>;
}

/// A collector, or why there can be none on this host.
pub type Opened = Result<Box<dyn Collector>, Failure>;

/// What a family is read for. Another kind of server (memcached) would be one more variant, with a reading of its own.
#[derive(Debug, Clone, Copy)]
pub enum Subject {
    /// Once, for the host.
    Host(fn(&Machine) -> Opened),
    /// Once for each watched process, server or driver.
    Process(fn(&Machine, &Process) -> Opened),
    /// Once for each watched server whose status can be read. All such families share one reading a sample.
    Status(&'static StatusFamily),
}

/// One family: what it is called, what it can report, and how its collectors are made.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Name in the header and in errors.
    pub name: &'static str,
    /// What it is read for.
    pub subject: Subject,
    /// All metrics that it can report.
    pub metrics: &'static [&'static [Metric]],
}
