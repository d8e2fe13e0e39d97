//! What the program needs of its host: open files, signals, the kernel's TCP counters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::sys::signal::{SigSet, Signal};

pub use dyno_loop::{may_run_in_real_time, niceness, take_priority};

use crate::error::Error;

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
            "{needed} open files are needed, this process may have {hard}: reduce --connections, or raise `ulimit -Hn`"
        )));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(refused)
}

/// The name of this host, for results; "?" if it is unknown.
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
        .map_err(|error| Error::Host(format!("signals cannot be blocked: {error}")))?;
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

/// The kernel's count of TCP segments over all connections of this network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpSegments {
    /// Sent.
    pub sent: u64,
    /// Sent again.
    pub retransmitted: u64,
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
