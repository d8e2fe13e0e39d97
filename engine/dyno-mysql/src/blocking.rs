//! A plain client over its own socket, for control connections: probing, preparing, reconciling counters.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

use crate::connection::{Connection, Event};
use crate::endpoint::Endpoint;
use crate::error::{Error, ServerError};
use crate::intake::LONGEST_RESULT;
use crate::options::Options;
use crate::replies::Detail;
use crate::resultset::{Done, Statement};
use crate::value::Value;

mod results;

pub use self::results::ResultPart;
pub use results::Reply;

/// Reads from and writes to whichever socket it is.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects. On a thread of its own, which is left behind when it takes too long: neither the resolver nor a Unix
    /// socket's connect can be given a time limit.
    fn open(endpoint: &Endpoint, within: Duration) -> Outcome<Stream> {
        let (sender, receiver) = channel();
        let target = endpoint.clone();
        let connect = move || {
            let stream = match &target {
                Endpoint::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
                Endpoint::Tcp { host, port } => connect_any(host, *port, within).map(Stream::Tcp),
            };
            // Nobody receives what came too late.
            let _ = sender.send(stream);
        };
        let failed = |error| Error::Io("connecting", error);
        std::thread::Builder::new()
            .name("connect".into())
            .spawn(connect)
            .map_err(failed)?;
        let no_answer = || Error::NoAnswer {
            endpoint: endpoint.clone(),
            within,
        };
        let stream = match receiver.recv_timeout(within) {
            Ok(Err(error)) if is_timeout(&error) => return Err(no_answer()),
            Ok(stream) => stream.map_err(failed)?,
            Err(RecvTimeoutError::Timeout) => return Err(no_answer()),
            Err(error) => return Err(failed(std::io::Error::other(error))),
        };
        if let Stream::Tcp(socket) = &stream {
            socket.set_nodelay(true).map_err(failed)?;
            keep_alive(socket).map_err(|error| failed(error.into()))?;
        }
        Ok(stream)
    }

    /// Bounds each read and each write.
    fn set_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        match self {
            Stream::Tcp(socket) => {
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))
            }
            Stream::Unix(socket) => {
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.read(buffer),
            Stream::Unix(socket) => socket.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.write(bytes),
            Stream::Unix(socket) => socket.write(bytes),
        }
    }
}

/// A host that is silent for a minute is lost, however long a statement may take.
fn keep_alive(socket: &TcpStream) -> nix::Result<()> {
    setsockopt(socket, sockopt::KeepAlive, &true)?;
    setsockopt(socket, sockopt::TcpKeepIdle, &30)?;
    setsockopt(socket, sockopt::TcpKeepInterval, &10)?;
    setsockopt(socket, sockopt::TcpKeepCount, &3)
}

/// Whether the kernel gave up waiting: EAGAIN on a socket with a time limit, ETIMEDOUT of TCP.
fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The first of the host's addresses that answers; the last one's error otherwise.
fn connect_any(host: &str, port: u16, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// One result: its columns, its rows, and what it came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryResult {
    /// Column names; empty for a statement without rows.
    pub columns: Vec<String>,
    /// Values as the server sent them in text; `None` is SQL NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// Affected rows, insert id, warnings.
    pub done: Done,
}

impl QueryResult {
    /// The rows as text; bytes that are not UTF-8 are replaced.
    pub fn texts(&self) -> Vec<Vec<Option<String>>> {
        let text = |value: &Option<Vec<u8>>| value.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        self.rows.iter().map(|row| row.iter().map(text).collect()).collect()
    }
}

/// A connected client.
pub struct Client {
    connection: Connection,
    stream: Stream,
    buffer: Vec<u8>,
    /// The first `filled` bytes of `buffer` are received, of which `used` are parsed.
    used: usize,
    filled: usize,
    options: Arc<Options>,
    /// Bound of each single read and write once connected.
    timeout: Duration,
    /// When connecting must be over; none once connected.
    deadline: Option<Instant>,
    /// Whether a statement that is not answered in time is killed before the session is given up.
    kills: bool,
}

/// What a server error, an error of the protocol, or a socket's error leaves to the caller.
type Outcome<T> = Result<T, Error>;

impl Client {
    /// Connects and authenticates within `options.connect_timeout`; afterwards `timeout` bounds each single read and write.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] when the time is over, however much of the greeting or of TLS has come by then.
    pub fn connect(options: &Options, timeout: Duration) -> Outcome<Client> {
        let deadline = Instant::now() + options.connect_timeout;
        let stream = Stream::open(&options.endpoint, options.connect_timeout)?;
        let options = Arc::new(options.clone());
        let connection = Connection::new(Arc::clone(&options));
        let mut client = Client {
            connection,
            stream,
            buffer: vec![0; 1 << 16],
            used: 0,
            filled: 0,
            options,
            timeout,
            deadline: Some(deadline),
            kills: false,
        };
        client.drive(|event| Ok(matches!(event, Event::Ready)))?;
        client.deadline = None;
        client.connection.limit_packets(LONGEST_RESULT);
        let bounded = client.stream.set_timeout(timeout);
        bounded.map_err(|error| Error::Io("setting the timeout of the socket", error))?;
        Ok(client)
    }

    /// Has the server end a statement that is not answered in time, by KILL QUERY on a second connection; the session is
    /// lost only where that takes as long again.
    pub fn kill_what_is_late(&mut self) {
        self.kills = true;
    }

    /// The connection, for its counters, server and TLS facts.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs one statement and gives its rows; of several, the last one's.
    pub fn query(&mut self, sql: &(impl AsRef<[u8]> + ?Sized)) -> Outcome<QueryResult> {
        Ok(self.query_all(sql)?.pop().unwrap_or_default())
    }

    /// Runs one or several statements and gives all their results.
    pub fn query_all(&mut self, sql: &(impl AsRef<[u8]> + ?Sized)) -> Outcome<Vec<QueryResult>> {
        self.connection.query(sql.as_ref(), Detail::Rows)?;
        let mut results = Vec::new();
        let mut current = QueryResult::default();
        let mut kept = 0;
        self.drive(|event| {
            match event {
                Event::Columns(columns) => {
                    kept = within_limit(kept, columns.iter().map(|column| column.name.len()))?;
                    current.columns = columns.iter().map(|column| column.name.clone()).collect();
                }
                Event::Row(row) => {
                    let owned = |value| match value {
                        Value::Bytes(bytes) => Some(bytes.to_vec()),
                        _ => None,
                    };
                    let values: Vec<Option<Vec<u8>>> =
                        row.values().map(|value| value.map(owned)).collect::<Result<_, _>>()?;
                    kept = within_limit(kept, values.iter().map(|value| value.as_ref().map_or(0, Vec::len)))?;
                    current.rows.push(values);
                }
                Event::Done(done) => {
                    current.done = done;
                    results.push(std::mem::take(&mut current));
                    return Ok(!done.more_results);
                }
                Event::Failed(error) => return Err(Error::Server(error)),
                _ => {}
            }
            Ok(false)
        })?;
        Ok(results)
    }

    /// The first value of the first row as text; `None` without a row, or for NULL.
    pub fn query_text(&mut self, sql: &str) -> Outcome<Option<String>> {
        let result = self.query(sql)?;
        let value = result
            .rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next())
            .flatten();
        Ok(value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Runs one or several statements without looking at rows; gives what the last one came to.
    pub fn exec(&mut self, sql: &(impl AsRef<[u8]> + ?Sized)) -> Outcome<Done> {
        self.connection.query(sql.as_ref(), Detail::Skip)?;
        self.done()
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, sql: &(impl AsRef<[u8]> + ?Sized)) -> Outcome<Statement> {
        self.connection.prepare(sql.as_ref(), Detail::Rows)?;
        let mut prepared = None;
        self.drive(|event| match event {
            Event::Prepared(statement) => {
                prepared = Some(statement);
                Ok(true)
            }
            Event::Failed(error) => Err(Error::Server(error)),
            _ => Ok(false),
        })?;
        prepared.ok_or_else(|| Error::protocol("no reply to a prepare"))
    }

    /// Closes a statement on the server.
    pub fn close(&mut self, statement: Statement) -> Outcome<()> {
        self.connection.close(statement)?;
        self.flush()
    }

    /// Asks for a sign of life.
    pub fn ping(&mut self) -> Outcome<()> {
        self.connection.ping()?;
        self.done().map(|_| ())
    }

    /// Puts the session back to how it was after authentication.
    pub fn reset_connection(&mut self) -> Outcome<()> {
        self.connection.reset_connection()?;
        self.done().map(|_| ())
    }

    /// Says goodbye.
    pub fn quit(mut self) -> Outcome<()> {
        self.connection.quit()?;
        self.flush()
    }

    fn done(&mut self) -> Outcome<Done> {
        let mut last = Done::default();
        self.drive(|event| match event {
            Event::Done(done) => {
                last = done;
                Ok(!done.more_results)
            }
            Event::Failed(error) => Err(Error::Server(error)),
            _ => Ok(false),
        })?;
        Ok(last)
    }

    fn flush(&mut self) -> Outcome<()> {
        while !self.connection.outgoing().is_empty() {
            self.check_deadline()?;
            match self.stream.write(self.connection.outgoing()) {
                Ok(0) => return Err(Error::Closed("while it was written to")),
                Ok(count) => self.connection.sent(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => return Err(self.no_answer()),
                Err(error) => return Err(Error::Io("writing to the server", error)),
            }
        }
        Ok(())
    }

    /// While connecting, leaves the next read or write no more than the time that is left.
    fn check_deadline(&self) -> Outcome<()> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.no_answer());
        }
        let bounded = self.stream.set_timeout(left);
        bounded.map_err(|error| Error::Io("setting the timeout of the socket", error))
    }

    fn no_answer(&self) -> Error {
        Error::NoAnswer {
            endpoint: self.options.endpoint.clone(),
            within: self.deadline.map_or(self.timeout, |_| self.options.connect_timeout),
        }
    }

    fn kill(&self) -> Outcome<()> {
        let id = self.connection.server().map_or(0, |server| server.connection_id);
        let mut other = Client::connect(&self.options, self.options.connect_timeout)?;
        other.exec(&format!("KILL QUERY {id}")).map(drop)
    }

    /// Writes and reads until `over` says that the reply is complete.
    fn drive(&mut self, mut over: impl FnMut(Event<'_>) -> Outcome<bool>) -> Outcome<()> {
        let mut may_kill = self.kills;
        loop {
            let mut input = &self.buffer[self.used..self.filled];
            loop {
                let event = self.connection.advance(&mut input);
                self.used = self.filled - input.len();
                match event {
                    Ok(Some(event)) => {
                        if over(event)? {
                            return Ok(());
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        // What TLS has to say about it is still sent, if the socket takes it.
                        let _ = self.flush();
                        return Err(error);
                    }
                }
            }
            self.flush()?;
            self.check_deadline()?;
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(self.connection.end_of_input().unwrap_or(Error::Closed("unasked"))),
                Ok(count) => (self.used, self.filled) = (0, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) && std::mem::take(&mut may_kill) => {
                    self.kill().map_err(|_| self.no_answer())?;
                }
                Err(error) if is_timeout(&error) => return Err(self.no_answer()),
                Err(error) => return Err(Error::Io("reading from the server", error)),
            }
        }
    }
}

impl Error {
    /// The server's own error, when it is one.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Error::Server(error) => Some(error),
            _ => None,
        }
    }
}

/// `kept` and these values with what memory each takes besides its bytes.
pub(super) fn within_limit(kept: usize, lengths: impl Iterator<Item = usize>) -> Result<usize, Error> {
    let kept = lengths.fold(kept + size_of::<Vec<u8>>(), |sum, length| {
        sum + length + size_of::<Option<Vec<u8>>>()
    });
    if kept > LONGEST_RESULT {
        let limit = LONGEST_RESULT >> 20;
        return Err(Error::protocol(format!(
            "the result of a control query has more than {limit} MiB"
        )));
    }
    Ok(kept)
}
