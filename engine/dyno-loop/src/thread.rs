//! A worker's thread and its settings in the kernel.

use std::io;
use std::thread::JoinHandle;

use super::priority::{run_in_real_time, Priority};
use super::report::{Channels, End, Report};

/// Starts a worker's thread; what `work` cannot begin is reported as a failure.
///
/// # Errors
/// When the kernel refuses another thread.
pub fn worker_thread<E: Send + 'static>(
    index: usize,
    priority: Priority,
    channels: Channels<E>,
    work: impl FnOnce(Channels<E>) -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(format!("worker-{index}"))
        .stack_size(256 * 1024)
        .spawn(move || {
            tune(priority);
            let reports = channels.reports.clone();
            if let Err(error) = work(channels) {
                // The collector waits for this report, or is gone.
                let _ = reports.send(Report::Failed {
                    failure: error.into(),
                    end: End::default(),
                });
            }
        })
}

/// Sets a worker's thread up. Where the kernel refuses, the load costs a little more, or its lag shows it.
fn tune(priority: Priority) {
    if priority == Priority::Realtime {
        // That it is allowed was seen before the load was begun.
        let _ = run_in_real_time();
    }
    // The kernel may end a sleep 50 µs late by default (prctl(2), PR_SET_TIMERSLACK).
    let _ = nix::sys::prctl::set_timerslack(1);
    // A table of descriptors of its own (unshare(2)): in one that threads share, each system call on a socket counts its
    // users with two atomic operations.
    let _ = own_descriptors();
}

fn own_descriptors() -> nix::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_a_worker_opens_is_in_no_other_thread_s_table() {
        let opened = std::thread::spawn(|| {
            if let Err(error) = own_descriptors() {
                // Some containers forbid it; the program goes on without.
                let _ = writeln!(std::io::stderr(), "NOT RUN: what_a_worker_opens: unshare(2): {error}");
                return None;
            }
            let file = std::fs::File::open("/proc/self/status").unwrap();
            let number = file.as_raw_fd();
            let place = format!("/proc/thread-self/fd/{number}");
            let own = std::fs::read_link(&place).unwrap();
            assert!(own.ends_with("status"));
            Some((file, own))
        });
        let Some((file, own)) = opened.join().unwrap() else {
            return;
        };
        let here = std::fs::read_link(format!("/proc/thread-self/fd/{}", file.as_raw_fd()));
        assert_ne!(here.ok(), Some(own));
        // Its number means nothing in this thread's table: closing it might close another test's file.
        std::mem::forget(file);
    }
}
