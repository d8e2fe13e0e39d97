//! The speed meter: how much CPU time a fixed small piece of work takes at this moment, on every CPU.
//!
//! On a shared host the same instructions take more CPU time while other virtual machines use the core's other half, its
//! caches or the memory bus, and, where the kernel does not take stolen time out of CPU time, while the hypervisor runs
//! somebody else. A thread on each CPU runs the unit every [`period`] and measures it by its own CPU clock
//! (CLOCK_THREAD_CPUTIME_ID), so waiting for a CPU is not counted. The unit has two parts: integer work with loads from a
//! table of 4 KiB, which an untimed part before it brings into the cache, and loads from lines of memory that were last
//! used minutes ago, so that no cache holds them. What the CPU did just before matters little to either.
//! Costs 0.4 % of one core in all (measured, two CPUs) and 8 MiB of memory. Wrong: frequency changes and neighbours on
//! the same core or memory bus are in it too where they are this host's own load.

use std::hint::black_box;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

use crate::clock::Clock;

/// The shortest time between two units of one CPU.
const SHORTEST: Duration = Duration::from_millis(32);

/// Time between units of any CPU: with many CPUs each has its turn less often, so that the meter costs the same.
///
/// A unit with its wake-up takes about 55 µs of CPU time, of which 18 µs are timed: 0.35 % of one core.
const BETWEEN: Duration = Duration::from_millis(16);

const TABLE_ENTRIES: usize = 1024;
const WARM_ROUNDS: u32 = 256;
const TIMED_ROUNDS: u32 = 4096;
const COLD_LOADS: u32 = 8;

/// Entries of a cache line.
const LINE: usize = 16;

/// Lines of the memory for cold loads, 8 MiB: at 8 loads a unit a line comes again after minutes.
const COLD_LINES: usize = 1 << 17;

/// Units run so far, and their CPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Units.
    pub units: u64,
    /// CPU time of all of them, in nanoseconds.
    pub cpu_ns: u64,
}

impl Totals {
    /// Mean CPU time of a unit since `before`; none when there was no unit.
    pub fn unit_ns_since(self, before: Self) -> Option<f64> {
        let units = self.units.saturating_sub(before.units);
        (units > 0).then(|| self.cpu_ns.saturating_sub(before.cpu_ns) as f64 / units as f64)
    }
}

/// The meter while it runs; its threads end with the program.
#[derive(Debug, Clone)]
pub struct SpeedMeter {
    totals: Arc<Mutex<Totals>>,
}

impl SpeedMeter {
    /// Starts a thread on every CPU that this process may use.
    ///
    /// # Errors
    /// When the system refuses a thread, or does not say which CPUs there are.
    pub fn start() -> io::Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let cpus: Vec<usize> = (0..CpuSet::count())
            .filter(|cpu| allowed.is_set(*cpu).unwrap_or(false))
            .collect();
        let meter = Self { totals: Arc::default() };
        let period = period(cpus.len());
        let memory: Arc<[u32]> = cold_lines().into();
        let count = cpus.len().max(1);
        for (index, cpu) in cpus.into_iter().enumerate() {
            let totals = Arc::clone(&meter.totals);
            let memory = Arc::clone(&memory);
            let line = index * (COLD_LINES / count);
            let first = Instant::now() + BETWEEN * u32::try_from(index).unwrap_or(0);
            thread::Builder::new()
                .name(format!("speed-{cpu}"))
                .stack_size(64 << 10)
                .spawn(move || run(cpu, first, period, Work::new(&memory, line), &totals))?;
        }
        Ok(meter)
    }

    /// What has been run up to now.
    pub fn totals(&self) -> Totals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time between two units of one CPU.
pub fn period(cpus: usize) -> Duration {
    SHORTEST.max(BETWEEN * u32::try_from(cpus).unwrap_or(u32::MAX))
}

fn run(cpu: usize, first: Instant, period: Duration, mut work: Work<'_>, totals: &Mutex<Totals>) {
    let mut own = CpuSet::new();
    // Without a CPU of its own it measures where it happens to be.
    let _ = own.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &own));
    let mut due = first;
    loop {
        let now = Instant::now();
        if due > now {
            thread::sleep(due - now);
        }
        // Turns that were missed are left out; there is never one right behind another.
        due = due.max(Instant::now()) + period;
        work.integers(WARM_ROUNDS);
        let before_ns = Clock::thread_cpu_ns();
        work.integers(TIMED_ROUNDS);
        work.memory(COLD_LOADS);
        let cpu_ns = Clock::thread_cpu_ns().saturating_sub(before_ns);
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.units += 1;
        totals.cpu_ns += cpu_ns;
    }
}

/// What one thread works on.
struct Work<'m> {
    table: Box<[u32; TABLE_ENTRIES]>,
    value: u32,
    lines: &'m [u32],
    line: u32,
}

impl<'m> Work<'m> {
    fn new(lines: &'m [u32], line: usize) -> Self {
        let mut table = Box::new([0; TABLE_ENTRIES]);
        let mut value: u32 = 0x9e37_79b9;
        for entry in table.iter_mut() {
            value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *entry = value;
        }
        Self {
            table,
            value: 1,
            lines,
            line: u32::try_from(line % COLD_LINES).unwrap_or(0),
        }
    }

    /// A chain in which each load's place depends on the one before: it cannot be run in parallel or left out.
    #[inline(never)]
    fn integers(&mut self, rounds: u32) {
        let mut value = black_box(self.value);
        for _ in 0..rounds {
            let loaded = self.table[(value >> 16) as usize % TABLE_ENTRIES];
            value = (value.rotate_left(7) ^ loaded)
                .wrapping_mul(0x85eb_ca6b)
                .wrapping_add(1);
        }
        self.value = black_box(value);
    }

    /// The same in memory: each line holds the number of the next one.
    #[inline(never)]
    fn memory(&mut self, loads: u32) {
        let mut line = black_box(self.line);
        for _ in 0..loads {
            line = self.lines[line as usize * LINE];
        }
        self.line = black_box(line);
    }
}

/// Lines in one ring through all of them (a linear congruence of full period), in an order that is not foreseen.
fn cold_lines() -> Vec<u32> {
    let mut lines = vec![0; COLD_LINES * LINE];
    for (line, entries) in (0_usize..).zip(lines.chunks_exact_mut(LINE)) {
        entries[0] = u32::try_from((line * 40_501 + 12_345) % COLD_LINES).unwrap_or(0);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_an_interval_is_of_its_units_alone() {
        let before = Totals { units: 10, cpu_ns: 900 };
        let after = Totals {
            units: 14,
            cpu_ns: 1000,
        };
        assert_eq!(after.unit_ns_since(before), Some(25.0));
        assert_eq!(after.unit_ns_since(after), None);
    }

    #[test]
    fn many_cpus_take_turns_so_that_the_cost_stays() {
        for cpus in [1, 2, 4, 64, 512] {
            let units_per_s = cpus as f64 / period(cpus).as_secs_f64();
            assert!(units_per_s <= 62.6, "{cpus} CPUs: {units_per_s} units a second");
        }
        assert_eq!(period(2), Duration::from_millis(32));
    }

    #[test]
    fn the_integers_visit_the_whole_table_and_depend_on_every_round() {
        let after = |rounds| {
            let mut work = Work::new(&[], 0);
            work.integers(rounds);
            work.value
        };
        assert_ne!(after(100), after(101));
        let mut work = Work::new(&[], 0);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..TIMED_ROUNDS * 2 {
            seen.insert((work.value >> 16) as usize % TABLE_ENTRIES);
            work.integers(1);
        }
        assert!(seen.len() > TABLE_ENTRIES * 9 / 10, "{} entries", seen.len());
    }

    #[test]
    fn the_cold_loads_visit_every_line_before_one_comes_again() {
        let lines = cold_lines();
        let mut work = Work::new(&lines, 7);
        let mut seen = vec![false; COLD_LINES];
        for _ in 0..COLD_LINES {
            let line = work.line as usize;
            assert!(!std::mem::replace(&mut seen[line], true), "line {line} came again");
            work.memory(1);
        }
        assert_eq!(work.line, 7);
    }

    #[test]
    fn twice_the_work_takes_about_twice_the_cpu_time() {
        let cost = |rounds| {
            let mut work = Work::new(&[], 0);
            let before_ns = Clock::thread_cpu_ns();
            work.integers(rounds);
            Clock::thread_cpu_ns() - before_ns
        };
        // In turn, since a host's speed wanders; the least of many, since what a busy host adds is rarely negative. Each
        // try begins anew: a clock that once stood still would otherwise be the least of all that follow.
        dyno_patience::wait_until(20.0, "the ratio is that of the work", || {
            let (mut once, mut twice) = (u64::MAX, u64::MAX);
            for _ in 0..400 {
                once = once.min(cost(2 * TIMED_ROUNDS));
                twice = twice.min(cost(4 * TIMED_ROUNDS));
            }
            (1.5..2.7).contains(&(twice as f64 / once as f64))
        });
    }
}
