//! Sockets that never block, readiness by epoll, and what was received in one round.
//!
//! Readiness is by epoll(7), level-triggered, with time-outs in nanoseconds by epoll_pwait2(2) (Linux 5.11). Not mio:
//! its time-outs are whole milliseconds, and pacing at 20,000 operations a second needs 50 µs. Where the kernel has no
//! epoll_pwait2 the time-out is rounded down to milliseconds, so the loop wakes early rather than late.
//!
//! A worker reads all that is there, then looks into the answers, then writes what comes next. Taking connections one
//! by one through all three would bring the code of each round into the processor's caches anew for every connection,
//! after the kernel's has driven it out: most of what a load engine costs above a bare loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{connect, socket, sockopt, AddressFamily, SockFlag, SockType, SockaddrStorage, UnixAddr};
use rustix::net::{recv, send, RecvFlags, SendFlags};

/// Room that each read is given; longer answers are read in several.
const READ_BYTES: usize = 64 * 1024;
/// Room for the answers of one batch beside the last read's.
const SPARE_BYTES: usize = 64 * 1024;
/// Connections in a batch: the last one's next statement waits until all answers of the batch are looked into.
const CONNECTIONS: usize = 64;
/// The same in an open loop, where what falls due meanwhile would wait too, and that is the load's own lag.
const CONNECTIONS_OF_AN_OPEN_LOOP: usize = 4;

/// The bytes read from one connection.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    /// Its index in the worker.
    pub index: usize,
    /// When they were read.
    pub at_ns: u64,
    start: usize,
    end: usize,
}

/// The answers of one round. Allocates nothing once made.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    taken: Vec<Chunk>,
    used: usize,
    most: usize,
}

impl Batch {
    /// An empty batch with its memory.
    pub fn new(open_loop: bool) -> Self {
        let most = if open_loop {
            CONNECTIONS_OF_AN_OPEN_LOOP
        } else {
            CONNECTIONS
        };
        Self {
            bytes: vec![0; SPARE_BYTES + READ_BYTES],
            taken: Vec::with_capacity(most),
            used: 0,
            most,
        }
    }

    /// Makes it empty again.
    #[inline]
    pub fn clear(&mut self) {
        self.taken.clear();
        self.used = 0;
    }

    /// Whether one more connection may be read.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.taken.len() < self.most && self.used <= SPARE_BYTES
    }

    /// Where the next connection's bytes go.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.used..self.used + READ_BYTES]
    }

    /// Notes that a connection's `count` bytes are in [`Batch::room`].
    #[inline]
    pub fn took(&mut self, index: usize, count: usize, at_ns: u64) {
        let (start, end) = (self.used, self.used + count);
        self.used = end;
        self.taken.push(Chunk {
            index,
            at_ns,
            start,
            end,
        });
    }

    /// The connections in the order in which they were read, each with the index of the one after it (the last one with
    /// its own).
    #[inline]
    pub fn taken_with_next(&self) -> impl Iterator<Item = (&Chunk, usize)> {
        let next = self.taken.iter().skip(1).chain(self.taken.last());
        self.taken.iter().zip(next.map(|taken| taken.index))
    }

    /// One connection's bytes.
    #[inline]
    pub fn bytes(&self, taken: &Chunk) -> &[u8] {
        &self.bytes[taken.start..taken.end]
    }
}

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

/// Where the server listens, names already resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Address and port.
    Tcp(SocketAddr),
    /// Path of a socket.
    Unix(PathBuf),
}

/// An open connection.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// Starts to connect; a TCP connection is complete when it is writable.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` for a Unix socket whose queue is full: try again later.
    pub fn connect(address: &Address) -> io::Result<Self> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        match address {
            Address::Tcp(address) => {
                let family = if address.is_ipv4() {
                    AddressFamily::Inet
                } else {
                    AddressFamily::Inet6
                };
                let descriptor = socket(family, SockType::Stream, flags, None)?;
                nix::sys::socket::setsockopt(&descriptor, sockopt::TcpNoDelay, &true)?;
                let target = SockaddrStorage::from(*address);
                match connect(std::os::fd::AsRawFd::as_raw_fd(&descriptor), &target) {
                    Ok(()) | Err(nix::errno::Errno::EINPROGRESS) => Ok(Self(descriptor)),
                    Err(error) => Err(error.into()),
                }
            }
            Address::Unix(path) => {
                let descriptor = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
                connect(std::os::fd::AsRawFd::as_raw_fd(&descriptor), &UnixAddr::new(path)?)?;
                Ok(Self(descriptor))
            }
        }
    }

    /// Reads what is there.
    ///
    /// By the system call itself: in a program of several threads libc's makes a cancellation point of every call, which
    /// costs as much as parsing the answer.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` when there are no bytes.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.0, into, RecvFlags::empty())?.0)
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` when there is no room.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn each_connection_keeps_its_own_bytes() {
        let mut batch = Batch::new(false);
        for (index, text) in [(7, "first"), (3, "second")] {
            batch.room()[..text.len()].copy_from_slice(text.as_bytes());
            batch.took(index, text.len(), index as u64 * 10);
        }
        let seen: Vec<_> = batch
            .taken
            .iter()
            .map(|taken| (taken.index, taken.at_ns, batch.bytes(taken)))
            .collect();
        assert_eq!(seen, [(7, 70, &b"first"[..]), (3, 30, &b"second"[..])]);
        let next: Vec<_> = batch
            .taken_with_next()
            .map(|(taken, next)| (taken.index, next))
            .collect();
        assert_eq!(next, [(7, 3), (3, 3)]);
        batch.clear();
        assert!(batch.taken.is_empty() && batch.has_room());
    }

    #[test]
    fn it_is_full_by_connections_or_by_bytes_and_a_read_has_its_room_even_then() {
        let mut small = Batch::new(false);
        while small.has_room() {
            assert_eq!(small.room().len(), READ_BYTES);
            small.took(0, 1, 0);
        }
        assert_eq!(small.taken.len(), CONNECTIONS);
        let mut paced = Batch::new(true);
        while paced.has_room() {
            paced.took(0, 1, 0);
        }
        assert_eq!(paced.taken.len(), CONNECTIONS_OF_AN_OPEN_LOOP);
        let mut large = Batch::new(false);
        while large.has_room() {
            assert_eq!(large.room().len(), READ_BYTES);
            large.took(0, READ_BYTES, 0);
        }
        assert_eq!(large.taken.len(), 2);
    }

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
