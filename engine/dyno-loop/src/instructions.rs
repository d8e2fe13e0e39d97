//! Instructions and cycles of a process, counted by the processor (perf_event_open(2)).
//!
//! A counter is opened for each thread that exists and is inherited by those that they start, so it is opened before the
//! load's connections are. On a virtual machine that passes no counters on, in a container that may not use them, and
//! where there are too many threads for as many open files, there are none.

use std::fs::read_dir;

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter, ReadFormat};
use serde::Serialize;

/// What a process has executed since its counters were opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Executed {
    /// Instructions in user mode.
    pub user_instructions: f64,
    /// Instructions in the kernel.
    pub kernel_instructions: f64,
    /// Cycles in both.
    pub cycles: f64,
}

impl Executed {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_instructions: (self.user_instructions - earlier.user_instructions).max(0.0),
            kernel_instructions: (self.kernel_instructions - earlier.kernel_instructions).max(0.0),
            cycles: (self.cycles - earlier.cycles).max(0.0),
        }
    }
}

/// The counters of a process.
#[derive(Debug)]
pub struct ProcessCounters {
    threads: Vec<[Counter; 3]>,
}

impl ProcessCounters {
    /// Of this process; none where the processor's counters cannot be used.
    pub fn open(pid: u32) -> Option<Self> {
        Self::of_events(pid, &Hardware::INSTRUCTIONS, &Hardware::CPU_CYCLES)
    }

    fn of_events<E: Event + Clone>(pid: u32, instructions: &E, cycles: &E) -> Option<Self> {
        let mut threads = Vec::new();
        for entry in read_dir(format!("/proc/{pid}/task")).ok()? {
            let thread: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let open = |event: &E, in_user: bool, in_kernel: bool| {
                Builder::new(event.clone())
                    .observe_pid(thread)
                    .any_cpu()
                    .inherit(true)
                    .exclude_user(!in_user)
                    .exclude_kernel(!in_kernel)
                    .read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING)
                    .enabled(true)
                    .build()
                    .ok()
            };
            threads.push([
                open(instructions, true, false)?,
                open(instructions, false, true)?,
                open(cycles, true, true)?,
            ]);
        }
        (!threads.is_empty()).then_some(Self { threads })
    }

    /// Reads all; none where one cannot be read.
    pub fn read(&mut self) -> Option<Executed> {
        let mut found = Executed::default();
        for [user, kernel, cycles] in &mut self.threads {
            found.user_instructions += count(user)?;
            found.kernel_instructions += count(kernel)?;
            found.cycles += count(cycles)?;
        }
        Some(found)
    }
}

/// A count, in proportion where other programs' counters had the processor's registers for a part of the time.
fn count(counter: &mut Counter) -> Option<f64> {
    let data = counter.read_full().ok()?;
    let (enabled, running) = (data.time_enabled()?.as_secs_f64(), data.time_running()?.as_secs_f64());
    let share = if running > 0.0 { enabled / running } else { 1.0 };
    Some(data.count() as f64 * share)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use perf_event::events::Software;

    use super::*;

    fn work(until_ns: u64) {
        let mut value = 1u64;
        while crate::gauges::process_cpu_ns(std::process::id()).unwrap() < until_ns {
            value = std::hint::black_box(value.wrapping_mul(3));
        }
    }

    /// The kernel's task clock in the place of the processor's counters, which virtual machines seldom have.
    #[test]
    fn threads_that_exist_and_those_that_they_start_are_counted() {
        let (start, started) = channel::<()>();
        let (done, ended) = channel();
        let thread = std::thread::spawn(move || {
            started.recv().unwrap();
            let now = crate::gauges::process_cpu_ns(std::process::id()).unwrap();
            std::thread::spawn(move || work(now + 20_000_000)).join().unwrap();
            done.send(()).unwrap();
        });
        let Some(mut counters) =
            ProcessCounters::of_events(std::process::id(), &Software::TASK_CLOCK, &Software::TASK_CLOCK)
        else {
            assert!(std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").is_ok_and(|l| l.trim() != "-1"));
            eprintln!("not tested: this process may not count another thread's events");
            return;
        };
        let before = counters.read().unwrap();
        start.send(()).unwrap();
        ended.recv().unwrap();
        let executed = counters.read().unwrap().since(&before);
        assert!(executed.cycles >= 15e6, "{executed:?}: 20 ms of a thread's thread");
        thread.join().unwrap();
    }

    #[test]
    fn a_process_that_is_gone_has_no_counters() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(ProcessCounters::open(pid).is_none());
    }
}
