//! The server's reply to a command: when it begins and ends, and its rows. What both sides have agreed on need not be
//! known: the packet that ends column definitions differs from a row by its length.
//! Source: the MySQL manual's source documentation, "Command Phase".

use dyno_mysql::constants::status::{CURSOR_EXISTS, NO_BACKSLASH_ESCAPES};
use dyno_mysql::{end_of_rows, ok, Done, Reader};

use super::stream::Packet;
use crate::timestamp::Micros;

const OK: u8 = 0;
const FILE: u8 = 0xfb;
const END: u8 = 0xfe;
const ERROR: u8 = 0xff;
/// The length of an EOF packet; an OK packet in its place is longer.
const EOF: usize = 5;
/// Beyond it, the end marker is the length of a value.
const LONGEST_END: usize = 0xff_ffff;

/// What a command is replied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One packet.
    Single,
    /// What comes before OK or an error is authentication.
    Login,
    /// OK, an error, or result sets.
    Results,
    /// The number of a prepared statement, and definitions.
    Prepared,
    /// Packets up to an EOF packet.
    UntilEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    First,
    Definitions(u64),
    AfterDefinitions,
    Rows,
}

/// How a reply has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Good,
    Error,
}

/// A reply that is to come.
#[derive(Debug)]
pub struct Reply {
    kind: Kind,
    stage: Stage,
    /// When its first packet was captured.
    pub begun: Option<Micros>,
    pub rows: u64,
    /// Results without an error, of several statements or a CALL.
    pub results: usize,
    /// The server's number of the prepared statement.
    pub prepared: Option<u32>,
    /// Whether the session escapes by backslashes, once the server has said so.
    pub escapes: Option<bool>,
    /// Whether the server waits for the content of a file.
    pub wants_file: bool,
}

impl Reply {
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            stage: Stage::First,
            begun: None,
            rows: 0,
            results: 0,
            prepared: None,
            escapes: None,
            wants_file: false,
        }
    }

    /// Takes the next packet; how the reply has ended, if it has.
    pub fn packet(&mut self, packet: &Packet) -> Option<End> {
        self.begun.get_or_insert(packet.place.at);
        self.wants_file = false;
        let first = packet.payload.first().copied()?;
        if first == ERROR {
            return Some(End::Error);
        }
        match self.kind {
            Kind::Single => Some(End::Good),
            Kind::Login => (first == OK).then_some(End::Good),
            Kind::UntilEnd => (first == END && packet.length < LONGEST_END).then_some(End::Good),
            Kind::Prepared => self.preparation(packet),
            Kind::Results => self.result(first, packet),
        }
    }

    fn preparation(&mut self, packet: &Packet) -> Option<End> {
        let left = match self.stage {
            Stage::First => {
                let mut reader = Reader::new(&packet.payload[1..]);
                self.prepared = reader.u32("statement").ok();
                let columns = reader.u16("columns").unwrap_or(0);
                u64::from(columns) + u64::from(reader.u16("parameters").unwrap_or(0))
            }
            Stage::Definitions(left) if packet.length == EOF => left,
            Stage::Definitions(left) => left - 1,
            _ => 0,
        };
        self.stage = Stage::Definitions(left);
        // An EOF packet that follows is no reply's first one.
        (left == 0).then_some(End::Good)
    }

    fn result(&mut self, first: u8, packet: &Packet) -> Option<End> {
        match self.stage {
            Stage::First if first == OK => self.end(ok(&packet.payload).ok()),
            Stage::First if first == FILE => {
                self.wants_file = true;
                None
            }
            Stage::First => {
                let mut reader = Reader::new(&packet.payload);
                let columns = reader.length_encoded("columns").unwrap_or(0);
                // MariaDB's clients may have the definitions of an earlier execution.
                let has_definitions = reader.u8("whether definitions follow").unwrap_or(1) == 1;
                self.stage = match columns {
                    1.. if has_definitions => Stage::Definitions(columns),
                    _ => Stage::AfterDefinitions,
                };
                None
            }
            Stage::Definitions(left) => {
                self.stage = if left > 1 {
                    Stage::Definitions(left - 1)
                } else {
                    Stage::AfterDefinitions
                };
                None
            }
            Stage::AfterDefinitions if first == END && packet.length == EOF => {
                self.stage = Stage::Rows;
                let done = end_of_rows(&packet.payload).ok();
                done.is_some_and(|done| done.status & CURSOR_EXISTS != 0)
                    .then_some(End::Good)
            }
            _ if first == END && packet.length < LONGEST_END => self.end(end_of_rows(&packet.payload).ok()),
            _ => {
                self.stage = Stage::Rows;
                self.rows += 1;
                None
            }
        }
    }

    fn end(&mut self, done: Option<Done>) -> Option<End> {
        self.stage = Stage::First;
        self.results += 1;
        let Some(done) = done else { return Some(End::Good) };
        self.escapes = Some(done.status & NO_BACKSLASH_ESCAPES == 0);
        (!done.more_results).then_some(End::Good)
    }
}
