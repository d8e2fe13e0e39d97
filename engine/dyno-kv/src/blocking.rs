//! A client that waits, for questions beside the load: version, statistics, single items.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::connection::Connection;
use crate::error::Error;
use crate::event::{Done, Event};
use crate::request::Protocol;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection that waits for each reply.
pub struct Client {
    stream: Box<dyn Stream>,
    connection: Connection,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Client")
            .field("connection", &self.connection)
            .finish()
    }
}

impl Client {
    /// Connects by TCP; every wait ends after `patience`.
    ///
    /// # Errors
    /// [`Error::Io`] when nobody listens there.
    pub fn tcp(address: impl ToSocketAddrs, protocol: Protocol, patience: Duration) -> Result<Self, Error> {
        let connect = || {
            let address = address.to_socket_addrs()?.next();
            let address = address.ok_or_else(|| std::io::Error::other("the name has no address"))?;
            let stream = TcpStream::connect_timeout(&address, patience)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(stream)
        };
        Ok(Self::over(connect().map_err(io)?, protocol))
    }

    /// Connects by a Unix socket; every wait ends after `patience`.
    ///
    /// # Errors
    /// [`Error::Io`] when nobody listens there.
    pub fn unix(path: &Path, protocol: Protocol, patience: Duration) -> Result<Self, Error> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(stream)
        };
        Ok(Self::over(connect().map_err(io)?, protocol))
    }

    fn over(stream: impl Read + Write + Send + 'static, protocol: Protocol) -> Self {
        Self {
            stream: Box::new(stream),
            connection: Connection::new(protocol),
        }
    }

    /// Puts requests into the output by `ask`, and passes every event of their replies to `take`; the last reply's end.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Closed`], [`Error::Malformed`]; [`Error::Server`] when a request is refused.
    pub fn exchange(
        &mut self,
        ask: impl FnOnce(&mut Connection) -> Result<(), Error>,
        mut take: impl FnMut(&Event<'_>),
    ) -> Result<Option<Done>, Error> {
        ask(&mut self.connection)?;
        let outgoing = self.connection.outgoing().len();
        self.stream.write_all(self.connection.outgoing()).map_err(io)?;
        self.connection.sent(outgoing);
        let mut buffer = vec![0; 64 * 1024];
        let (mut last, mut refused) = (None, None);
        while self.connection.outstanding() > 0 {
            let count = self.stream.read(&mut buffer).map_err(io)?;
            if count == 0 {
                let outstanding = self.connection.outstanding();
                return Err(Error::Closed { outstanding });
            }
            let mut input = &buffer[..count];
            while let Some(event) = self.connection.advance(&mut input)? {
                take(&event);
                match event {
                    Event::Done(done) => last = Some(done),
                    Event::Failed(error) => refused = Some(error),
                    _ => {}
                }
            }
        }
        refused.map_or(Ok(last), |error| Err(Error::Server(error)))
    }

    /// The server's version.
    ///
    /// # Errors
    /// As [`Client::exchange`].
    pub fn version(&mut self) -> Result<String, Error> {
        let mut version = String::new();
        self.exchange(
            |connection| {
                connection.version();
                Ok(())
            },
            |event| {
                if let Event::Version(bytes) = event {
                    version = String::from_utf8_lossy(bytes).into_owned();
                }
            },
        )?;
        Ok(version)
    }

    /// A group of statistics, in the server's order; the general ones for an empty `group`.
    ///
    /// # Errors
    /// As [`Client::exchange`].
    pub fn stats(&mut self, group: &str) -> Result<Vec<(String, String)>, Error> {
        let mut lines = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.exchange(
            |connection| connection.stats(group.as_bytes()),
            |event| {
                if let Event::Stat { name, value } = event {
                    lines.push((text(name), text(value)));
                }
            },
        )?;
        Ok(lines)
    }
}

fn io(error: std::io::Error) -> Error {
    Error::Io(error.to_string())
}
