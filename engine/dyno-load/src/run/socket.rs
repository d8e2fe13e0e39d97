//! A TCP or Unix stream that never blocks.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::sys::socket::{connect, socket, sockopt, AddressFamily, SockFlag, SockType, SockaddrStorage, UnixAddr};

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
pub enum Socket {
    /// TCP, without Nagle's delay.
    Tcp(TcpStream),
    /// Unix domain.
    Unix(UnixStream),
}

impl Socket {
    /// Starts to connect; a TCP connection is complete when it is writable.
    ///
    /// # Errors
    /// What the kernel says; a Unix socket whose queue is full gives `WouldBlock`: try again later.
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
                    Ok(()) | Err(nix::errno::Errno::EINPROGRESS) => Ok(Self::Tcp(TcpStream::from(descriptor))),
                    Err(error) => Err(error.into()),
                }
            }
            Address::Unix(path) => {
                let descriptor = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
                connect(std::os::fd::AsRawFd::as_raw_fd(&descriptor), &UnixAddr::new(path)?)?;
                Ok(Self::Unix(UnixStream::from(descriptor)))
            }
        }
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// What the kernel says; `WouldBlock` when nothing is there.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// What the kernel says; `WouldBlock` when there is no room.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    /// The error of a connection that failed to come about.
    pub fn take_error(&self) -> Option<io::Error> {
        match self {
            Self::Tcp(stream) => stream.take_error().ok().flatten(),
            Self::Unix(stream) => stream.take_error().ok().flatten(),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
