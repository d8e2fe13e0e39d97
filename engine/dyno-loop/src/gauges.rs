//! What is read where a slice's counted part begins and ends: the server's CPU time, the host's, and where the processor
//! counts them the instructions of server and load.
//!
//! The server's CPU time is its process CPU clock (clock_gettime(2), clock id `(~pid << 3) | 2`, as
//! clock_getcpuclockid(3) makes it): nanoseconds, running threads included. The host's is the first line of /proc/stat
//! (proc_stat(5)), in ticks of 1/100 s. One worker reads both at the moment that divides its own counts, so that they
//! belong to the same time. A reading costs some 5 µs.

use std::fs::read_dir;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter, ReadFormat};
use serde::Serialize;

/// What to read.
#[derive(Debug, Default)]
pub struct Watch {
    /// The server's process; none where it is not known.
    pub server_pid: Option<u32>,
    /// The processor's counters of the server; none where it has none.
    pub server: Option<ProcessCounters>,
    /// The same of this process.
    pub load: Option<ProcessCounters>,
}

impl Watch {
    /// Of a server; to be called before connections are opened and workers started, whose threads are then counted.
    pub fn of(server_pid: Option<u32>) -> Self {
        Self {
            server_pid,
            server: server_pid.and_then(ProcessCounters::open),
            load: ProcessCounters::open(std::process::id()),
        }
    }
}

/// One reading.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// CPU time of the server's process; none when it is gone, or not watched.
    pub server_cpu_ns: Option<u64>,
    /// CPU time of the host since it started; none where the kernel has no /proc/stat.
    pub host_cpu: Option<HostCpu>,
    /// What the server has executed; none where the processor does not count it.
    pub server: Option<Executed>,
    /// The same of the load.
    pub load: Option<Executed>,
}

/// CPU time of all of the host's CPUs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct HostCpu {
    /// In user mode, niced or not.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
    /// Idle.
    pub idle_s: f64,
    /// Idle with input or output outstanding.
    pub iowait_s: f64,
    /// Taken by the hypervisor for others.
    pub steal_s: f64,
    /// In interrupts, soft ones too.
    pub irq_s: f64,
}

impl HostCpu {
    /// What was added since `earlier`; the kernel's iowait may go back, which is 0.
    pub fn since(&self, earlier: &Self) -> Self {
        let added = |now: f64, then: f64| (now - then).max(0.0);
        Self {
            user_s: added(self.user_s, earlier.user_s),
            system_s: added(self.system_s, earlier.system_s),
            idle_s: added(self.idle_s, earlier.idle_s),
            iowait_s: added(self.iowait_s, earlier.iowait_s),
            steal_s: added(self.steal_s, earlier.steal_s),
            irq_s: added(self.irq_s, earlier.irq_s),
        }
    }

    /// From the first line of /proc/stat.
    fn parse(line: &str, ticks_per_s: f64) -> Option<Self> {
        let mut fields = line.strip_prefix("cpu ")?.split_ascii_whitespace();
        let mut next_s = || -> Option<f64> { Some(fields.next()?.parse::<u64>().ok()? as f64 / ticks_per_s) };
        let (user, nice, system, idle) = (next_s()?, next_s()?, next_s()?, next_s()?);
        let (iowait, irq, softirq, steal) = (next_s()?, next_s()?, next_s()?, next_s()?);
        Some(Self {
            user_s: user + nice,
            system_s: system,
            idle_s: idle,
            iowait_s: iowait,
            steal_s: steal,
            irq_s: irq + softirq,
        })
    }
}

/// Reads them; keeps the kernel's file open. To be made and used on one thread.
#[derive(Debug)]
pub struct Gauges {
    watch: Watch,
    stat: Option<std::fs::File>,
    ticks_per_s: f64,
}

impl Gauges {
    /// For what is to be watched.
    pub fn new(watch: Watch) -> Self {
        let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
        Self {
            watch,
            stat: std::fs::File::open("/proc/stat").ok(),
            ticks_per_s: ticks.unwrap_or(100) as f64,
        }
    }

    /// Reads all.
    pub fn read(&mut self) -> Reading {
        Reading {
            server_cpu_ns: self.watch.server_pid.and_then(process_cpu_ns),
            host_cpu: self.host_cpu(),
            server: self.watch.server.as_mut().and_then(ProcessCounters::read),
            load: self.watch.load.as_mut().and_then(ProcessCounters::read),
        }
    }

    fn host_cpu(&mut self) -> Option<HostCpu> {
        let file = self.stat.as_mut()?;
        let mut text = [0u8; 256];
        nix::unistd::lseek(file.as_fd(), 0, nix::unistd::Whence::SeekSet).ok()?;
        let length = file.read(&mut text).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        HostCpu::parse(text.lines().next()?, self.ticks_per_s)
    }
}

/// CPU time of a process, of all its threads, those that have ended too; none when there is no such process.
#[allow(unsafe_code)]
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    let clock = (!i32::try_from(pid).ok()? << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`, which outlives it; an unknown clock is an error, not undefined.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

// Instructions and cycles of a process, counted by the processor (perf_event_open(2)).
//
// A counter is opened for each thread that exists and is inherited by those that they start, so it is opened before the
// load's connections are. On a virtual machine that passes no counters on, in a container that may not use them, and
// where there are too many threads for as many open files, there are none.

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
    use super::*;
    use perf_event::events::Software;
    use std::sync::mpsc::channel;

    #[test]
    fn the_cpu_clock_of_a_process_is_its_own_and_absent_when_it_is_gone() {
        let before = process_cpu_ns(std::process::id()).unwrap();
        let began = std::time::Instant::now();
        let mut value = 1u64;
        while process_cpu_ns(std::process::id()).unwrap() < before + 10_000_000 {
            value = std::hint::black_box(value.wrapping_mul(3));
            assert!(began.elapsed().as_secs() < 20, "10 ms of work do not show");
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(process_cpu_ns(pid), None);
    }

    #[test]
    fn the_line_of_proc_stat_is_read_in_seconds() {
        let line = "cpu  100 10 200 4000 50 1 2 300 7 0";
        let cpu = HostCpu::parse(line, 100.0).unwrap();
        let expected = HostCpu {
            user_s: 1.1,
            system_s: 2.0,
            idle_s: 40.0,
            iowait_s: 0.5,
            steal_s: 3.0,
            irq_s: 0.03,
        };
        assert_eq!(cpu, expected);
        assert_eq!(HostCpu::default().since(&cpu), HostCpu::default());
        assert_eq!(HostCpu::parse("cpu0 1 2 3", 100.0), None);
        assert!(Gauges::new(Watch::default()).read().host_cpu.is_some());
    }

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
