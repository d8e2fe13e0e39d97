//! A client that waits, for questions beside the load: version, statistics, single items.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::event::{Done, Error, Event};
use crate::request::Protocol;

/// The longest answer to one exchange, an item.
const LONGEST_ANSWER: usize = 64 << 20;
/// The longest answer to `stats`, which has some kB: kept as texts it takes ten times as much memory.
const LONGEST_STATISTICS: usize = 4 << 20;

trait Stream: Read + Write + Send {
    /// Bounds each read and each write.
    fn set_timeout(&self, timeout: Duration) -> std::io::Result<()>;
}

impl Stream for TcpStream {
    fn set_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl Stream for UnixStream {
    fn set_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

/// A connection that waits for each reply.
pub struct Client {
    stream: Box<dyn Stream>,
    connection: Connection,
    timeout: Duration,
    /// For messages: its address, or the path of its socket.
    endpoint: String,
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
    /// Connects by TCP within `timeout`; every exchange as a whole then has the same time.
    ///
    /// # Errors
    /// [`Error::Io`] if nothing listens at the address; [`Error::NoAnswer`].
    pub fn tcp(address: impl ToSocketAddrs, protocol: Protocol, timeout: Duration) -> Result<Self, Error> {
        let mut endpoint = String::new();
        let mut connect = || {
            let mut last = std::io::Error::other("the name has no address");
            for address in address.to_socket_addrs()? {
                endpoint = address.to_string();
                match TcpStream::connect_timeout(&address, timeout) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(stream);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        match connect() {
            Ok(stream) => Ok(Self::over(stream, protocol, timeout, endpoint)),
            Err(error) => Err(describe(&error, &endpoint, timeout)),
        }
    }

    /// Connects by a Unix socket; every exchange as a whole ends after `timeout`.
    ///
    /// # Errors
    /// [`Error::Io`] if nothing listens at the address.
    pub fn unix(path: &Path, protocol: Protocol, timeout: Duration) -> Result<Self, Error> {
        let endpoint = path.display().to_string();
        match UnixStream::connect(path) {
            Ok(stream) => Ok(Self::over(stream, protocol, timeout, endpoint)),
            Err(error) => Err(describe(&error, &endpoint, timeout)),
        }
    }

    fn over(stream: impl Stream + 'static, protocol: Protocol, timeout: Duration, endpoint: String) -> Self {
        Self {
            stream: Box::new(stream),
            connection: Connection::new(protocol),
            timeout,
            endpoint,
        }
    }

    /// Puts requests into the output by `ask`, and passes every event of their replies to `take`; the last reply's end.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoAnswer`], [`Error::Closed`], [`Error::Malformed`]; [`Error::Server`] when a request is refused.
    pub fn exchange(
        &mut self,
        ask: impl FnOnce(&mut Connection) -> Result<(), Error>,
        take: impl FnMut(&Event<'_>),
    ) -> Result<Option<Done>, Error> {
        self.exchange_up_to(LONGEST_ANSWER, ask, take)
    }

    fn exchange_up_to(
        &mut self,
        longest: usize,
        ask: impl FnOnce(&mut Connection) -> Result<(), Error>,
        mut take: impl FnMut(&Event<'_>),
    ) -> Result<Option<Done>, Error> {
        ask(&mut self.connection)?;
        let outgoing = self.connection.outgoing().len();
        let deadline = Instant::now() + self.timeout;
        let failed = |error: std::io::Error| describe(&error, &self.endpoint, self.timeout);
        self.stream.set_timeout(self.timeout).map_err(failed)?;
        self.stream.write_all(self.connection.outgoing()).map_err(failed)?;
        self.connection.sent(outgoing);
        let mut buffer = vec![0; 64 * 1024];
        let (mut last, mut refused) = (None, None);
        let mut received = 0;
        while self.connection.outstanding() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(failed(ErrorKind::TimedOut.into()));
            }
            self.stream.set_timeout(left).map_err(failed)?;
            let count = match self.stream.read(&mut buffer) {
                Ok(count) => count,
                // A process that was stopped and goes on: a read with a time limit is not restarted.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            if count == 0 {
                let outstanding = self.connection.outstanding();
                return Err(Error::Closed { outstanding });
            }
            received += count;
            if received > longest {
                return Err(Error::Malformed {
                    protocol: "memcached",
                    what: format!("an answer of more than {} MiB", longest >> 20),
                });
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
        self.exchange_up_to(
            LONGEST_STATISTICS,
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

fn describe(error: &std::io::Error, endpoint: &str, within: Duration) -> Error {
    match error.kind() {
        // EAGAIN on a socket with a time limit; ETIMEDOUT of TCP.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::NoAnswer {
            endpoint: endpoint.into(),
            within,
        },
        _ => Error::Io(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with these; then the stream is closed.
    struct Answers(Vec<std::io::Result<&'static [u8]>>);

    impl Read for Answers {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let bytes = self.0.remove(0)?;
            buffer[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    impl Write for Answers {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Stream for Answers {
        fn set_timeout(&self, _: Duration) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn version(answers: Vec<std::io::Result<&'static [u8]>>) -> Result<String, Error> {
        let stream = Answers(answers);
        Client::over(stream, Protocol::Text, Duration::from_secs(60), "fake".into()).version()
    }

    /// Lines of statistics without end.
    struct Endless;

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            for line in buffer.chunks_exact_mut(10) {
                line.copy_from_slice(b"STAT a 1\r\n");
            }
            Ok(buffer.len() / 10 * 10)
        }
    }

    impl Write for Endless {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Stream for Endless {
        fn set_timeout(&self, _: Duration) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn statistics_without_end_are_an_error() {
        let mut client = Client::over(Endless, Protocol::Text, Duration::from_secs(60), "fake".into());
        let error = client.stats("").unwrap_err().to_string();
        assert!(error.contains("an answer of more than 4 MiB"), "{error}");
    }

    #[test]
    fn an_interrupted_read_is_repeated() {
        let interrupted = || Err(ErrorKind::Interrupted.into());
        let answers = vec![interrupted(), Ok(&b"VERSION 1."[..]), interrupted(), Ok(b"6.18\r\n")];
        assert_eq!(version(answers).unwrap(), "1.6.18");
        let answers = vec![Ok(&b"VERSION 1."[..]), Err(ErrorKind::ConnectionReset.into())];
        assert!(matches!(version(answers), Err(Error::Io(_))));
    }
}
