//! The priority of the load's threads.

use rustix::process::{getpriority_process, setpriority_process};

/// At which priority the workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// The one that the program was started with.
    Normal,
    /// At niceness -5, so that the many threads of a server on the same machine do not delay them.
    Raised,
    /// In real time (SCHED_FIFO): what falls due is sent when it falls due, whatever the server's threads do.
    Realtime,
}

/// The niceness that a load runs at where it may. Measured on two CPUs, read-only: at 0 the server idles 7 to 14 % of the
/// time, waiting for the load; at -10 and 16 connections the load wakes up for each answer and costs a third more.
const RAISED_NICENESS: i32 = -5;

/// The least priority in real time: before all threads that share the CPUs by time, after all others.
const LEAST_REAL_TIME: libc::c_int = 1;

/// Raises the niceness of this thread and of all it starts unless they are to run at the normal one, where that is
/// allowed (root, or CAP_SYS_NICE); to be called before any thread is started.
///
/// On one machine a load of few threads competes with a server of many: at the same priority it waits for a CPU while
/// the server has nothing to do, and its own lag becomes part of what it measures.
pub fn take_priority(priority: Priority) {
    if priority != Priority::Normal && niceness() > RAISED_NICENESS {
        // An ordinary user may not; the result has the niceness at which the load ran.
        let _ = setpriority_process(None, RAISED_NICENESS);
    }
}

/// Whether threads of this process may run in real time: tried on a thread that ends with the answer, so that no other's
/// scheduling is touched.
///
/// # Errors
/// The kernel's when they may not: without CAP_SYS_NICE, or in a control group that has no time for them.
pub fn may_run_in_real_time() -> nix::Result<()> {
    // A thread that panicked has aborted the program already.
    std::thread::spawn(run_in_real_time)
        .join()
        .unwrap_or(Err(nix::errno::Errno::EAGAIN))
}

/// Runs this thread in real time (sched(7), SCHED_FIFO at the least priority), before every thread that shares the CPUs by
/// time: a sleeper that wakes runs at once. Measured on two CPUs that the server kept half busy, 20,000 point selects a
/// second: lag p99 36 µs, at niceness -5 362 (medians of six runs). The kernel's own limit (95 % of the time) stays.
///
/// # Errors
/// The kernel's when it may not.
#[allow(unsafe_code)]
pub fn run_in_real_time() -> nix::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: LEAST_REAL_TIME,
    };
    // SAFETY: 0 is the calling thread, and the parameters outlive the call, which only reads them.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    nix::errno::Errno::result(result).map(drop)
}

/// The niceness of this thread, -20 to 19.
pub fn niceness() -> i32 {
    getpriority_process(None).unwrap_or(0)
}
