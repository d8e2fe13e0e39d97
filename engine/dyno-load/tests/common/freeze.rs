//! Servers that stand still for a while, and hosts that should not.

use std::io::Write as _;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{sched_setaffinity, CpuSet};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::{command, signal, Run, Running};

/// What no test that looks at times can stand: TCP on loopback sends again after less than a CPU's absence of this length.
const STALL: Duration = Duration::from_millis(10);
const ATTEMPTS: usize = 2;

/// Said past the test harness, which keeps what a passing test prints to itself.
pub fn aloud(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Makes an attempt again when it failed and a CPU was away meanwhile: on a host whose CPUs are taken from it for tenths of
/// a second, times say nothing of the program. A failure while all CPUs were there counts at once.
pub fn on_a_still_host(test: &str, attempt: impl Fn()) {
    let mut longest = Duration::ZERO;
    for _ in 0..ATTEMPTS {
        let watch = Watch::start();
        let ended = catch_unwind(AssertUnwindSafe(&attempt));
        longest = watch.longest_stall();
        match ended {
            Ok(()) => return,
            Err(failure) if longest < STALL => resume_unwind(failure),
            Err(_) => {}
        }
    }
    aloud(&format!(
        "NOT RUN: {test}: this host took a CPU away in each of {ATTEMPTS} attempts, for {longest:?} in the last one"
    ));
}

/// A thread on each CPU that sleeps a millisecond at a time and notes the longest.
struct Watch {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Duration>>,
}

impl Watch {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..cpus)
            .map(|cpu| {
                let over = Arc::clone(&over);
                std::thread::spawn(move || {
                    let mut own = CpuSet::new();
                    // Where a CPU is not ours to choose, the watch is anywhere.
                    let _ = own.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &own));
                    let mut longest = Duration::ZERO;
                    while !over.load(Ordering::Relaxed) {
                        let began = Instant::now();
                        std::thread::sleep(Duration::from_millis(1));
                        longest = longest.max(began.elapsed());
                    }
                    longest
                })
            })
            .collect();
        Self { over, threads }
    }

    fn longest_stall(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        let longest = self.threads.into_iter().map(|thread| thread.join().unwrap()).max();
        longest.unwrap_or_default()
    }
}

/// Runs the program and stops a server's process after the first 100 ms of the measurement; the result, and how long the
/// server stood still, s.
pub fn freeze(server_id: u32, arguments: &str, for_ms: u64) -> (Run, f64) {
    let mut running = Running::start(command(arguments).args(["--interval", "100ms"]));
    running.wait_for_measurement();
    let frozen = Instant::now();
    signal(server_id, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(for_ms));
    signal(server_id, Signal::SIGCONT);
    let freeze_s = frozen.elapsed().as_secs_f64();
    (running.end(), freeze_s)
}

/// What an open loop at `rate` over `duration_s` must show of a server that stood still for `freeze_s`.
pub fn assert_closed_form(result: &Run, rate: f64, duration_s: f64, freeze_s: f64) {
    let planned = (rate * duration_s) as u64;
    assert_eq!(result.count("/plan/planned"), planned, "{}", result.stderr);
    assert_eq!(result.count("/response/count"), planned);
    // Operations due u seconds into the freeze wait T - u: the share above x is (T - x) / D, so the quantile at q is
    // T - (1 - q) D. The backlog is worked off at once: the server answers in microseconds.
    for (percentile, name) in [(0.90, "p90_us"), (0.95, "p95_us"), (0.99, "p99_us")] {
        let expected_us = (freeze_s - (1.0 - percentile) * duration_s) * 1e6;
        let seen_us = result.number(&format!("/response/{name}"));
        assert!(
            (seen_us - expected_us).abs() < 0.08e6,
            "{name}: {seen_us} not {expected_us}"
        );
    }
    // Only those that were under way saw the freeze themselves.
    let service_us = result.number("/service/p99_us");
    assert!(service_us < 100e3, "{service_us}");
    assert!((result.number("/service/max_us") - freeze_s * 1e6).abs() < 0.1e6);
}
