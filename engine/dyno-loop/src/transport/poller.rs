//! Readiness by epoll(7), level-triggered, with time-outs in nanoseconds by epoll_pwait2(2) (Linux 5.11).
//!
//! Not mio: its time-outs are whole milliseconds, and pacing at 20,000 operations a second needs 50 µs. Where the kernel
//! has no epoll_pwait2 the time-out is rounded down to milliseconds, so the loop wakes early rather than late.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Bytes to read.
    Read,
    /// Bytes to read, or room to write.
    ReadWrite,
}

impl Interest {
    fn flags(self) -> EpollFlags {
        match self {
            Self::Read => EpollFlags::EPOLLIN,
            Self::ReadWrite => EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT,
        }
    }
}

/// An epoll instance with room for the events of one wait.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    events: Vec<EpollEvent>,
    precise: bool,
}

impl Poller {
    /// A poller that returns at most `capacity` events a wait.
    ///
    /// # Errors
    /// When the kernel refuses (too many open files).
    pub fn new(capacity: usize) -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            events: vec![EpollEvent::empty(); capacity.max(1)],
            precise: true,
        })
    }

    /// Starts to watch a descriptor under a token.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add(&self, descriptor: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(self.epoll.add(descriptor, EpollEvent::new(interest.flags(), token))?)
    }

    /// Changes what is awaited.
    ///
    /// # Errors
    /// When the descriptor is not watched.
    pub fn modify(&self, descriptor: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(self
            .epoll
            .modify(descriptor, &mut EpollEvent::new(interest.flags(), token))?)
    }

    /// Waits for events, at most `timeout_ns`; returns how many there are. A signal counts as a time-out.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        let result = if timeout_ns == 0 || !self.precise {
            let milliseconds = (timeout_ns / 1_000_000).min(60_000) as u16;
            self.epoll.wait(&mut self.events, EpollTimeout::from(milliseconds))
        } else {
            self.wait_precisely(timeout_ns)
        };
        match result {
            Err(Errno::EINTR) => Ok(0),
            other => Ok(other?),
        }
    }

    /// The token of event `index` of the last wait.
    #[inline]
    pub fn token(&self, index: usize) -> u64 {
        self.events[index].data()
    }

    /// Whether event `index` reports room to write.
    #[inline]
    pub fn is_writable(&self, index: usize) -> bool {
        self.events[index].events().contains(EpollFlags::EPOLLOUT)
    }

    #[allow(unsafe_code)]
    fn wait_precisely(&mut self, timeout_ns: u64) -> Result<usize, Errno> {
        let timeout = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: EpollEvent is a transparent wrapper of epoll_event (nix), the vector outlives the call and the kernel
        // writes at most its length; the time-out outlives the call; no signal mask is given.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.0.as_raw_fd(),
                self.events.as_mut_ptr().cast::<libc::epoll_event>(),
                self.events.len() as libc::c_int,
                &timeout as *const libc::timespec,
                std::ptr::null::<libc::sigset_t>(),
                8usize,
            )
        };
        match Errno::result(result) {
            Err(Errno::ENOSYS) => {
                self.precise = false;
                Ok(0)
            }
            other => other.map(|count| count as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn readiness_comes_with_its_token() {
        let mut poller = Poller::new(8).unwrap();
        let (mut here, there) = UnixStream::pair().unwrap();
        poller.add(&there, 42, Interest::Read).unwrap();
        assert_eq!(poller.wait(0).unwrap(), 0);
        here.write_all(b"x").unwrap();
        assert_eq!(poller.wait(1_000_000_000).unwrap(), 1);
        assert_eq!((poller.token(0), poller.is_writable(0)), (42, false));
        poller.modify(&there, 43, Interest::ReadWrite).unwrap();
        assert_eq!(poller.wait(1_000_000_000).unwrap(), 1);
        assert_eq!((poller.token(0), poller.is_writable(0)), (43, true));
    }

    #[test]
    fn an_empty_wait_lasts_at_least_its_time_out() {
        let mut poller = Poller::new(1).unwrap();
        let start = dyno_core::clock::now_ns();
        poller.wait(3_000_000).unwrap();
        assert!(dyno_core::clock::now_ns() - start >= 2_900_000);
    }
}
