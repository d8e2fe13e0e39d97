//! Packets between clients and servers, as tcpdump writes them: their statements.
//!
//! The TCP segments in a file's packets (`file`) belong to connections, whose bytes are put in order (`stream`) and read
//! as packets of the protocol: commands and replies (`session`). A statement's time is that of the packet that it begins
//! in, and its duration lasts to the packet in which its reply begins.

mod file;
mod login;
mod parameters;
mod reply;
mod session;
mod stream;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Error, ErrorKind, Read, Result};
use std::net::SocketAddr;

pub use login::is_charset;

use file::{frame, Frame, Packet};
use session::Session;
use stream::{Place, Receiver, Segment, Side, Stream, WAIT_US};

use crate::assembler::Assembler;
use crate::problems::{Problem, ProblemCount};
use crate::timestamp::Micros;

/// How long after a packet its copy with another address is captured, where addresses are translated.
const COPY_US: Micros = 100_000;
/// No packet of IP is longer.
const LONGEST: u32 = u16::MAX as u32;

/// A connection: stream and session; no session where it has ended, or is a copy of another one.
#[derive(Debug)]
struct Connection {
    stream: Stream,
    session: Option<Box<Session>>,
    /// The sequence number of the client's SYN.
    first: Option<u32>,
    /// Whether it is among those with waiting segments.
    is_listed: bool,
}

impl Connection {
    /// Stream, session, and whether it is listed; none where nothing more is captured.
    fn open(&mut self) -> Option<(&mut Stream, &mut Session, &mut bool)> {
        let session = self.session.as_deref_mut()?;
        Some((&mut self.stream, session, &mut self.is_listed))
    }
}

/// Client and server.
type Key = (SocketAddr, SocketAddr);

/// The first packet of a connection.
#[derive(Debug)]
struct First {
    at: Micros,
    key: Key,
    side: Side,
    sequence: u32,
    acknowledged: Option<u32>,
}

/// Reads files of packets.
#[derive(Debug)]
pub struct PacketReader {
    ports: Vec<u16>,
    connections: HashMap<Key, Connection>,
    /// How many there were.
    count: u64,
    /// Those with waiting segments, and since when.
    waiting: VecDeque<(Micros, Key)>,
    recent: VecDeque<First>,
    /// Segments of other ports, by the lower one.
    others: BTreeMap<u16, u64>,
}

struct Taker<'a> {
    session: &'a mut Session,
    assembler: &'a mut Assembler,
}

impl Receiver for Taker<'_> {
    fn begins(&mut self, side: Side) {
        self.session.begin(side);
    }

    fn data(&mut self, side: Side, data: &[u8], place: Place) {
        self.session.data(side, data, place, self.assembler);
    }

    fn lost(&mut self, side: Side, problem: Problem, place: Place) {
        self.session.lost(side, problem, place, self.assembler);
    }

    fn ends(&mut self, place: Place) {
        self.session.end(place, self.assembler);
    }
}

/// Whether a file that begins with these bytes has packets.
pub fn is_its_own(first_bytes: &[u8]) -> bool {
    file::is_its_own(first_bytes)
}

/// The time of the first packet.
pub fn first_time(first_bytes: &[u8]) -> Option<Micros> {
    let mut first = None;
    let read = file::read(first_bytes, |packet| {
        first = Some(packet.at);
        Ok(false)
    });
    read.ok().and(first)
}

impl PacketReader {
    /// `ports` are those of the servers.
    pub fn new(ports: &[u16]) -> Self {
        Self {
            ports: ports.to_vec(),
            connections: HashMap::new(),
            count: 0,
            waiting: VecDeque::new(),
            recent: VecDeque::new(),
            others: BTreeMap::new(),
        }
    }

    /// Takes the packets of a file.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or has another link layer.
    pub fn read(&mut self, file: impl Read + Send, assembler: &mut Assembler) -> Result<()> {
        let mut last = 0;
        let is_cut = file::read(file, |packet| {
            last = packet.number;
            if !file::is_known(packet.link) {
                let link = packet.link.0;
                let why = format!("its link layer has number {link}, which is not read; capture with tcpdump -i any");
                return Err(Error::new(ErrorKind::InvalidData, why));
            }
            self.packet(&packet, assembler);
            Ok(true)
        })?;
        if is_cut {
            assembler.problems.count(Problem::CutPacket, last + 1);
        }
        Ok(())
    }

    /// The end of the last file.
    pub fn end(&mut self, assembler: &mut Assembler) {
        let mut all: Vec<Connection> = std::mem::take(&mut self.connections).into_values().collect();
        all.sort_by_key(|connection| connection.session.as_ref().map(|session| session.number()));
        for Connection { stream, session, .. } in &mut all {
            if let Some(session) = session {
                stream.deliver_all(&mut Taker { session, assembler });
                session.finish(assembler);
            }
        }
    }

    /// Why there is no statement, where that can be said, and what to do.
    pub fn obstacle(&self, problems: &[ProblemCount]) -> Option<String> {
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let ports = ports.join(", ");
        if self.count == 0 {
            let most = self.others.iter().max_by_key(|(_, count)| **count);
            return Some(match most {
                Some((port, _)) => format!("no packet is of port {ports}, most are of {port}: --port {port}"),
                None => format!("no packet is of TCP: capture with tcpdump -i any -s 0 -w FILE port {ports}"),
            });
        }
        let found = |problem| problems.iter().find(|one| one.problem == problem);
        let count = |problem| found(problem).map_or(0, |one| one.count);
        if count(Problem::Encrypted) > 0 {
            let (encrypted, all) = (count(Problem::Encrypted), self.count);
            return Some(format!(
                "{encrypted} of its {all} connections are encrypted (TLS): let the application connect without TLS while \
                 packets are captured (--ssl-mode=DISABLED, sslMode=DISABLED, tls=false), or capture the general log"
            ));
        }
        (count(Problem::CutPacket) > 0).then(|| "its packets are cut off: capture with tcpdump -s 0".into())
    }

    fn packet(&mut self, packet: &Packet<'_>, assembler: &mut Assembler) {
        self.go_on(packet.at, assembler);
        let Some(frame) = frame(packet.link, packet.data) else {
            return;
        };
        let (key, side) = if self.ports.contains(&frame.destination.port()) {
            ((frame.source, frame.destination), Side::Client)
        } else if self.ports.contains(&frame.source.port()) {
            ((frame.destination, frame.source), Side::Server)
        } else {
            let port = frame.source.port().min(frame.destination.port());
            *self.others.entry(port).or_default() += 1;
            return;
        };
        let place = Place {
            at: packet.at,
            number: packet.number,
        };
        self.segment(key, side, place, &frame, packet.missing, assembler);
    }

    fn segment(&mut self, key: Key, side: Side, place: Place, frame: &Frame, missing: u32, assembler: &mut Assembler) {
        let first = (frame.syn && side == Side::Client).then_some(frame.sequence);
        let is_other = |known: &Connection| known.first != first && (known.first.is_some() || known.stream.has_begun());
        if first.is_some() && self.connections.get(&key).is_some_and(is_other) {
            // The client's port is used again.
            let known = self.connections.remove(&key);
            if let Some((mut stream, mut session)) = known.and_then(|known| Some((known.stream, known.session?))) {
                let session = &mut *session;
                stream.end(place, &mut Taker { session, assembler });
            }
        }
        let is_empty = frame.payload.is_empty() && !frame.syn;
        if is_empty && !self.connections.contains_key(&key) {
            return;
        }
        if !self.connections.contains_key(&key) {
            let connection = self.connection(key, side, place, frame, assembler);
            self.connections.insert(key, connection);
        }
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        connection.first = connection.first.or(first);
        let Some((stream, session, is_listed)) = connection.open() else {
            return;
        };
        let mut taker = Taker { session, assembler };
        if frame.rst {
            stream.end(place, &mut taker);
        } else {
            let segment = Segment {
                side,
                place,
                sequence: frame.sequence,
                acknowledged: frame.acknowledged,
                syn: frame.syn,
                fin: frame.fin,
                data: Cow::Borrowed(frame.payload),
                missing: if frame.is_cut { missing.min(LONGEST) } else { 0 },
            };
            stream.push(segment, &mut taker);
        }
        match stream.waits_since() {
            Some(since) if !std::mem::replace(is_listed, true) => self.waiting.push_back((since, key)),
            None if stream.has_ended() => connection.session = None,
            _ => {}
        }
    }

    /// A connection of which this is the first packet.
    fn connection(
        &mut self,
        key: Key,
        side: Side,
        place: Place,
        frame: &Frame,
        assembler: &mut Assembler,
    ) -> Connection {
        let oldest = place.at - COPY_US;
        while self.recent.front().is_some_and(|first| first.at < oldest) {
            self.recent.pop_front();
        }
        let (sequence, acknowledged) = (frame.sequence, frame.acknowledged);
        let is_same =
            |first: &First| first.side == side && (first.sequence, first.acknowledged) == (sequence, acknowledged);
        let is_copy = self.recent.iter().any(|first| first.key != key && is_same(first));
        let session = if is_copy {
            assembler.problems.count(Problem::SeenTwice, place.number);
            None
        } else {
            self.count += 1;
            self.recent.push_back(First {
                at: place.at,
                key,
                side,
                sequence,
                acknowledged,
            });
            Some(Box::new(Session::new(self.count, key.0.ip().to_string())))
        };
        Connection {
            stream: Stream::default(),
            session,
            first: None,
            is_listed: false,
        }
    }

    /// Segments have waited long enough.
    fn go_on(&mut self, at: Micros, assembler: &mut Assembler) {
        while self.waiting.front().is_some_and(|(since, _)| since + WAIT_US < at) {
            let Some((_, key)) = self.waiting.pop_front() else {
                return;
            };
            let open = self.connections.get_mut(&key).and_then(Connection::open);
            let Some((stream, session, is_listed)) = open else {
                continue;
            };
            stream.deliver_before(at - WAIT_US, &mut Taker { session, assembler });
            let since = stream.waits_since();
            *is_listed = since.is_some();
            self.waiting.extend(since.map(|since| (since, key)));
        }
    }
}
