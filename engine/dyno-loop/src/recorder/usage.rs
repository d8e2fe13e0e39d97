//! What a thread used: CPU and context switches by getrusage(2) RUSAGE_THREAD, time spent waiting for a CPU by the second
//! field of /proc/thread-self/schedstat (Documentation/scheduler/sched-stats.rst). Read once an interval.

use std::io::Read as _;
use std::os::fd::AsFd as _;

use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::time::TimeValLike as _;

/// Sums over one or several threads, for one interval or since they began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ThreadUsage {
    /// Time in user mode.
    pub user_us: u64,
    /// Time in the kernel.
    pub system_us: u64,
    /// Times the thread gave the CPU up to wait.
    pub voluntary_switches: u64,
    /// Times the CPU was taken from it.
    pub involuntary_switches: u64,
    /// Time it could run but had no CPU; 0 also where the kernel does not count it.
    pub cpu_wait_us: u64,
    /// CPU time of the one thread that used most: what a mean over threads, or hosts, would hide.
    pub busiest_cpu_us: u64,
    /// The same in millionths of the time between that thread's readings: an interval whose end it read late is no shorter.
    pub busiest_cpu_ppm: u64,
}

impl ThreadUsage {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.user_us += other.user_us;
        self.system_us += other.system_us;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.cpu_wait_us += other.cpu_wait_us;
        self.busiest_cpu_us = self.busiest_cpu_us.max(other.busiest_cpu_us);
        self.busiest_cpu_ppm = self.busiest_cpu_ppm.max(other.busiest_cpu_ppm);
    }

    /// What one thread added since `earlier`, which was read `elapsed_ns` before.
    pub fn since(&self, earlier: &Self, elapsed_ns: u64) -> Self {
        let cpu_us = self.cpu_us() - earlier.cpu_us();
        Self {
            user_us: self.user_us - earlier.user_us,
            system_us: self.system_us - earlier.system_us,
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            cpu_wait_us: self.cpu_wait_us.saturating_sub(earlier.cpu_wait_us),
            busiest_cpu_us: cpu_us,
            // A thread has one CPU: what is beyond it is the two clocks' difference.
            busiest_cpu_ppm: (cpu_us * 1_000_000_000 / elapsed_ns.max(1)).min(1_000_000),
        }
    }

    /// User and system time.
    pub fn cpu_us(&self) -> u64 {
        self.user_us + self.system_us
    }
}

/// Reads the calling thread's usage; keeps its file of the kernel open.
#[derive(Debug)]
pub struct UsageMeter {
    schedstat: Option<std::fs::File>,
}

impl UsageMeter {
    /// For the calling thread; use it on that thread only.
    pub fn of_this_thread() -> Self {
        Self {
            schedstat: std::fs::File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// Usage since the thread began.
    pub fn read(&mut self) -> ThreadUsage {
        let mut usage = ThreadUsage {
            cpu_wait_us: self.cpu_wait_us().unwrap_or(0),
            ..ThreadUsage::default()
        };
        if let Ok(kernel) = getrusage(UsageWho::RUSAGE_THREAD) {
            usage.user_us = kernel.user_time().num_microseconds() as u64;
            usage.system_us = kernel.system_time().num_microseconds() as u64;
            usage.voluntary_switches = kernel.voluntary_context_switches() as u64;
            usage.involuntary_switches = kernel.involuntary_context_switches() as u64;
        }
        usage
    }

    fn cpu_wait_us(&mut self) -> Option<u64> {
        let file = self.schedstat.as_mut()?;
        let mut text = [0u8; 128];
        nix::unistd::lseek(file.as_fd(), 0, nix::unistd::Whence::SeekSet).ok()?;
        let length = file.read(&mut text).ok()?;
        let mut fields = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace();
        Some(fields.nth(1)?.parse::<u64>().ok()? / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_thread_stays_one_thread_through_sums() {
        let of = |user_us| {
            let end = ThreadUsage {
                user_us,
                ..ThreadUsage::default()
            };
            end.since(&ThreadUsage::default(), 1_000_000)
        };
        let (mut here, mut there) = (of(300), of(900));
        here.add(&of(500));
        there.add(&of(100));
        here.add(&there);
        assert_eq!((here.cpu_us(), here.busiest_cpu_us), (1800, 900));
        assert_eq!(here.busiest_cpu_ppm, 900_000);
    }

    #[test]
    fn work_of_this_thread_is_counted_in_microseconds() {
        let mut meter = UsageMeter::of_this_thread();
        let before = meter.read();
        let started = std::time::Instant::now();
        let mut value = 1u64;
        while started.elapsed().as_millis() < 30 {
            value = std::hint::black_box(value.wrapping_mul(3));
        }
        let used = meter.read().since(&before, started.elapsed().as_nanos() as u64);
        assert!(
            used.cpu_us() + used.cpu_wait_us >= 15_000 && used.cpu_us() <= 1_000_000,
            "{used:?}"
        );
    }
}
