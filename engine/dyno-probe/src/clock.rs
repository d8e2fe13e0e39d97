//! Time, passed in: the system's clocks, or one that a test (or a caller on standard input) moves by hand.

use std::cell::Cell;
use std::time::Duration;

use nix::time::{clock_gettime, ClockId};

/// Where the run takes its time from.
#[derive(Debug)]
pub enum Clock {
    /// CLOCK_MONOTONIC and CLOCK_REALTIME.
    System,
    /// Nanoseconds, set by the command `sample NANOSECONDS`; the calendar's clock is the same number.
    Manual(Cell<u64>),
}

/// These clocks cannot fail on Linux; a kernel without one reads as 0, which makes every rate absent.
fn read(id: ClockId) -> u64 {
    let nanoseconds = clock_gettime(id).map_or(0, |time| Duration::from(time).as_nanos());
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

impl Clock {
    /// Nanoseconds that never go back.
    pub fn monotonic_ns(&self) -> u64 {
        match self {
            Self::System => read(ClockId::CLOCK_MONOTONIC),
            Self::Manual(now) => now.get(),
        }
    }

    /// Nanoseconds since 1970-01-01 UTC.
    pub fn unix_ns(&self) -> u64 {
        match self {
            Self::System => read(ClockId::CLOCK_REALTIME),
            Self::Manual(now) => now.get(),
        }
    }

    /// CPU time (user and system) that the calling thread has used.
    pub fn thread_cpu_ns() -> u64 {
        read(ClockId::CLOCK_THREAD_CPUTIME_ID)
    }

    /// Name in the header.
    pub fn name(&self) -> &'static str {
        match self {
            Self::System => "CLOCK_MONOTONIC",
            Self::Manual(_) => "manual",
        }
    }
}
