//! A TCP or Unix stream that never blocks.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::sys::socket::{connect, socket, sockopt, AddressFamily, SockFlag, SockType, SockaddrStorage, UnixAddr};
use rustix::net::{recv, send, RecvFlags, SendFlags};

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
