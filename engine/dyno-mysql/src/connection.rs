//! One client connection without its socket.

mod connecting;

use std::sync::Arc;

use crate::command;
use crate::constants::command as byte;
use crate::error::{Error, ServerError};
use crate::handshake::ServerInfo;
use crate::layers::{Counters, Layers, KEEP};
use crate::login::Login;
use crate::options::Options;
use crate::replies::{Detail, Kind, Pending, Replies, Step};
use crate::resultset::{Column, Done, Row, Statement};
use crate::tls::{self, TlsInfo};
use crate::value::Value;

/// How far a connection has come; never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Waiting for the server's greeting.
    Greeting,
    /// The TLS handshake is under way.
    Tls,
    /// The account is being proved.
    Authentication,
    /// The initial statements are running.
    Initialisation,
    /// Commands can be given.
    Ready,
}

/// What the server's bytes meant. Rows and columns lie in the connection's or the caller's buffer.
#[derive(Debug)]
pub enum Event<'a> {
    /// The connection phase is over; comes once.
    Ready,
    /// A result set begins (`Detail::Rows` only).
    Columns(&'a [Column]),
    /// A row (`Detail::Rows` only).
    Row(Row<'a>),
    /// A result is complete; `more_results` tells whether its command is.
    Done(Done),
    /// The reply to `prepare`.
    Prepared(Statement),
    /// The server refused the command, which is over with all its results; the connection lives on.
    Failed(ServerError),
}

/// The state machine of one connection; see the crate's page for how to drive it.
pub struct Connection {
    options: Arc<Options>,
    phase: Phase,
    login: Option<Box<Login>>,
    /// How many initial statements are begun.
    initialised: usize,
    server: Option<Box<ServerInfo>>,
    replies: Replies,
    out: Vec<u8>,
    sent: usize,
    layers: Option<Box<Layers>>,
    counters: Counters,
}

/// Shows no buffer: one of them may hold a password.
impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("endpoint", &self.options.endpoint)
            .field("phase", &self.phase())
            .field("server", &self.server)
            .field("outstanding", &self.outstanding())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection whose socket is just connected: the server speaks first.
    pub fn new(options: Arc<Options>) -> Connection {
        Connection {
            options,
            phase: Phase::Greeting,
            login: Some(Box::default()),
            initialised: 0,
            server: None,
            replies: Replies::new(),
            out: Vec::new(),
            sent: 0,
            layers: None,
            counters: Counters::default(),
        }
    }

    /// How far the connection has come.
    pub fn phase(&self) -> Phase {
        match &self.layers {
            Some(layers) if self.phase == Phase::Authentication => match &layers.tls {
                Some(tls) if tls.is_handshaking() => Phase::Tls,
                _ => Phase::Authentication,
            },
            _ => self.phase,
        }
    }

    /// What the server said of itself; `None` before its greeting.
    pub fn server(&self) -> Option<&ServerInfo> {
        self.server.as_deref()
    }

    /// What TLS came to; `None` without TLS or before its handshake is over.
    pub fn tls(&self) -> Option<TlsInfo> {
        tls::info(self.layers.as_ref()?.tls.as_ref()?)
    }

    /// Bytes and packets so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bounds the packets that are put together from parts; unbounded are those of a load.
    pub(crate) fn limit_packets(&mut self, longest: usize) {
        self.replies.intake.longest = longest;
    }

    /// Commands whose replies are not complete.
    pub fn outstanding(&self) -> usize {
        self.replies.outstanding()
    }

    /// The options it was made with.
    pub fn options(&self) -> &Arc<Options> {
        &self.options
    }

    // Output

    /// The bytes to write to the socket now; empty when there are none.
    #[inline]
    pub fn outgoing(&self) -> &[u8] {
        match &self.layers {
            None => &self.out[self.sent..],
            Some(layers) => &layers.wire[self.sent..],
        }
    }

    /// Says that the socket took the first `count` of the outgoing bytes.
    #[inline]
    pub fn sent(&mut self, count: usize) {
        self.counters.wire_bytes_out += count as u64;
        self.sent += count;
        let buffer = match &mut self.layers {
            None => &mut self.out,
            Some(layers) => &mut layers.wire,
        };
        if self.sent >= buffer.len() {
            self.sent = 0;
            buffer.clear();
            buffer.shrink_to(KEEP);
        }
    }

    // Commands

    /// COM_QUERY with one statement, or several with `;` between them.
    pub fn query(&mut self, sql: &[u8], detail: Detail) -> Result<(), Error> {
        self.query_with(detail, |out| out.extend_from_slice(sql))
    }

    /// COM_QUERY whose text `write` appends to the output buffer itself (it must leave alone what is there).
    #[inline]
    pub fn query_with(&mut self, detail: Detail, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        self.command(Kind::Text, detail, byte::QUERY, write)
    }

    /// COM_STMT_PREPARE; `Event::Prepared` follows. Only with `Detail::Rows` can it be executed with `Detail::Rows`.
    pub fn prepare(&mut self, sql: &[u8], detail: Detail) -> Result<(), Error> {
        self.command(Kind::Prepare, detail, byte::STMT_PREPARE, |out| {
            out.extend_from_slice(sql)
        })
    }

    /// COM_STMT_EXECUTE with a value for each parameter.
    #[inline]
    pub fn execute(&mut self, statement: &mut Statement, values: &[Value<'_>], detail: Detail) -> Result<(), Error> {
        self.ready()?;
        if detail == Detail::Rows && statement.metadata.is_none() && self.replies.caches_metadata() {
            return Err(Error::setup(
                "a statement whose rows are to be read must be prepared with Detail::Rows",
            ));
        }
        let start = self.out.len();
        let packets = command::put_execute(&mut self.out, statement, values)?;
        let metadata = statement.metadata.clone();
        self.replies.expect(Pending {
            kind: Kind::Binary,
            detail,
            sequence: packets,
            metadata,
        });
        self.seal(start, packets)
    }

    /// COM_STMT_CLOSE; the server does not answer.
    pub fn close(&mut self, statement: Statement) -> Result<(), Error> {
        self.ready()?;
        let start = self.out.len();
        let packets = command::put_statement(&mut self.out, byte::STMT_CLOSE, &statement);
        self.seal(start, packets)
    }

    /// COM_PING.
    pub fn ping(&mut self) -> Result<(), Error> {
        self.command(Kind::Text, Detail::Skip, byte::PING, |_| ())
    }

    /// COM_RESET_CONNECTION: the session as after authentication (initial statements are not run again).
    /// Statements prepared before it are gone.
    pub fn reset_connection(&mut self) -> Result<(), Error> {
        self.command(Kind::Text, Detail::Skip, byte::RESET_CONNECTION, |_| ())
    }

    /// COM_QUIT, and the end of TLS; write the outgoing bytes, then close the socket. The server does not answer.
    pub fn quit(&mut self) -> Result<(), Error> {
        self.ready()?;
        let start = self.out.len();
        let packets = command::put(&mut self.out, byte::QUIT, |_| ());
        self.seal(start, packets)?;
        self.layers.as_mut().map_or(Ok(()), |layers| layers.close())
    }

    fn ready(&self) -> Result<(), Error> {
        match self.phase {
            Phase::Ready => Ok(()),
            phase => Err(Error::setup(format!(
                "no command can be given in phase {phase:?}, before Event::Ready"
            ))),
        }
    }

    #[inline]
    fn command(
        &mut self,
        kind: Kind,
        detail: Detail,
        command: u8,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        self.ready()?;
        self.command_unchecked(kind, detail, command, body)
    }

    #[inline]
    fn command_unchecked(
        &mut self,
        kind: Kind,
        detail: Detail,
        command: u8,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let start = self.out.len();
        let packets = command::put(&mut self.out, command, body);
        self.replies.expect(Pending {
            kind,
            detail,
            sequence: packets,
            metadata: None,
        });
        self.seal(start, packets)
    }

    /// Counts what was written from `start` on, and takes it through the layers when there are any.
    #[inline]
    fn seal(&mut self, start: usize, packets: u8) -> Result<(), Error> {
        let bytes = (self.out.len() - start) as u64;
        self.counters.packets_out += packets as u64;
        self.counters.raw_bytes_out += bytes;
        let Some(layers) = &mut self.layers else {
            self.counters.compressed_bytes_out += bytes;
            return Ok(());
        };
        layers.seal(&self.out, &mut self.counters)?;
        self.out.clear();
        self.out.shrink_to(KEEP);
        Ok(())
    }

    // Input

    /// Reads on from the socket's bytes in `input`, up to the next event; `None` when all of `input` is used.
    ///
    /// `input` is moved past what was used: call again with the same variable until `None`, then read the socket.
    /// After an error the connection is of no more use.
    #[inline]
    pub fn advance<'e, 'i: 'e>(&'e mut self, input: &mut &'i [u8]) -> Result<Option<Event<'e>>, Error> {
        if self.phase != Phase::Ready && self.connect(input)? {
            return Ok(Some(Event::Ready));
        }
        if self.phase != Phase::Ready {
            return Ok(None);
        }
        let (step, source) = self.step(input)?;
        Ok(Some(match step {
            Step::NeedMore => return Ok(None),
            Step::Done(done) => Event::Done(done),
            Step::Columns => Event::Columns(&self.replies.columns),
            Step::Row { place, binary } => {
                let source = match &self.layers {
                    Some(layers) => &layers.plain,
                    None => source,
                };
                let payload = self.replies.intake.payload(&place, source);
                Event::Row(Row {
                    payload,
                    columns: &self.replies.columns,
                    binary,
                })
            }
            Step::Prepared(statement) => Event::Prepared(statement),
            Step::Failed(error) => Event::Failed(error),
        }))
    }

    /// Says that the socket is at its end; the error tells in which phase, or `None` when that was in order
    /// (nothing outstanding, nothing half received).
    pub fn end_of_input(&self) -> Option<Error> {
        Some(Error::Closed(match self.phase() {
            Phase::Greeting => "before its greeting",
            Phase::Tls => "during the TLS handshake",
            Phase::Authentication => "during authentication",
            Phase::Initialisation => "during the initial statements",
            Phase::Ready if self.outstanding() > 0 => "before its reply was complete",
            Phase::Ready if self.replies.intake.is_partial() => "inside a packet",
            Phase::Ready => return None,
        }))
    }

    /// One step over MySQL packets, wherever they lie; also gives the bytes that `input` was before.
    #[inline]
    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<(Step, &'i [u8]), Error> {
        let source = *input;
        if let Some(layers) = &mut self.layers {
            layers.reclaim();
            if !input.is_empty() {
                *input = &[];
                self.counters.wire_bytes_in += source.len() as u64;
                layers.feed(source, &mut self.counters)?;
            }
            let step = self
                .replies
                .step(&layers.plain, &mut layers.parsed, &mut self.counters)?;
            return Ok((step, source));
        }
        let mut position = 0;
        let step = self.replies.step(source, &mut position, &mut self.counters);
        self.counters.wire_bytes_in += position as u64;
        self.counters.compressed_bytes_in += position as u64;
        *input = &source[position..];
        Ok((step?, source))
    }
}
