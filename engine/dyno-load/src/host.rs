//! What the program needs of its host: open files, signals, the kernel's TCP counters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{getpriority_process, setpriority_process};

use crate::error::Error;
use crate::run::Priority;
use crate::verdict::TcpSegments;

/// Holds the password in the environment.
pub const PASSWORD_VARIABLE: &str = "DYNO_PASSWORD";

/// Raises the limit of open files to what is needed, as far as the hard limit goes.
///
/// # Errors
/// When the hard limit is below what is needed.
pub fn allow_open_files(needed: u64) -> Result<(), Error> {
    let refused = |error: nix::errno::Errno| Error::Host(format!("the limit of open files cannot be changed: {error}"));
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(refused)?;
    if soft >= needed {
        return Ok(());
    }
    if hard < needed {
        return Err(Error::Host(format!(
            "{needed} open files are needed, this process may have {hard}: lower --connections, or raise `ulimit -Hn`"
        )));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(refused)
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
        // An ordinary user may not; the result says at which niceness the load ran.
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

/// The name of this host, for results; "?" where the kernel does not tell.
pub fn name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "?".into(), |name| name.trim().to_string())
}

/// A flag that the first Ctrl-C or SIGTERM sets, so that a run ends in order; a second one ends the program.
///
/// # Errors
/// When the signals cannot be taken.
pub fn interruption() -> Result<Arc<AtomicBool>, Error> {
    interruption_with(|| {})
}

/// The same; `notify` is called with the first signal, after the flag is set.
///
/// # Errors
/// When the signals cannot be taken.
pub fn interruption_with(notify: impl Fn() + Send + 'static) -> Result<Arc<AtomicBool>, Error> {
    let flag = Arc::new(AtomicBool::new(false));
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    // Blocked here and in every thread made later; one thread takes them, so no code runs inside a handler.
    signals
        .thread_block()
        .map_err(|error| Error::Host(format!("signals cannot be taken: {error}")))?;
    let seen = Arc::clone(&flag);
    std::thread::Builder::new()
        .name("signals".into())
        .stack_size(64 * 1024)
        .spawn(move || {
            while signals.wait().is_ok() {
                if seen.swap(true, Ordering::Relaxed) {
                    std::process::exit(i32::from(crate::error::Exit::Interrupted as u8));
                }
                notify();
            }
        })
        .map_err(|error| Error::Host(format!("no thread for signals: {error}")))?;
    Ok(flag)
}

/// The kernel's counts of TCP segments in this network namespace (/proc/net/snmp); none where it has no such file.
pub fn tcp_segments() -> Option<TcpSegments> {
    let text = std::fs::read_to_string("/proc/net/snmp").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |name: &str| -> Option<u64> {
        let position = names.split_ascii_whitespace().position(|field| field == name)?;
        values.split_ascii_whitespace().nth(position)?.parse().ok()
    };
    Some(TcpSegments {
        sent: value("OutSegs")?,
        retransmitted: value("RetransSegs")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_open_files_than_the_hard_limit_are_refused_with_both_numbers() {
        let error = allow_open_files(u64::MAX - 1).unwrap_err().to_string();
        assert!(
            error.contains(&(u64::MAX - 1).to_string()) && error.contains("ulimit"),
            "{error}"
        );
        assert!(allow_open_files(8).is_ok());
    }

    #[test]
    fn the_kernel_counts_tcp_segments() {
        assert!(tcp_segments().is_some());
    }
}
