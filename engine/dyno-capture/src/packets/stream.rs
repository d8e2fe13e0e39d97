//! A TCP connection: the bytes of both sides, each in the order in which it was sent, and either side's only when what it
//! had received before was delivered. So the order of packets in the file does not count, nor do copies of them.
//!
//! A segment that does not follow what was delivered waits for what is missing. When others have waited for [`WAIT_US`],
//! or are too many, the missing bytes are lost. A connection that began before the capture waits in the same way for its
//! beginning.

use std::borrow::Cow;

use dyno_mysql::constants::MAX_PACKET_PAYLOAD;
use dyno_mysql::{payload_length, Compression, Compressor, Error};

use crate::problems::Problem;
use crate::timestamp::Micros;

/// How long segments wait for missing ones: longer than TCP takes to send one again.
pub const WAIT_US: Micros = 1_000_000;
/// How many wait at most.
const MOST_WAITING: usize = 1024;

/// Who sent something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// When something was captured, and in which packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    pub at: Micros,
    pub number: u64,
}

/// A segment.
#[derive(Debug, Clone)]
pub struct Segment<'a> {
    pub side: Side,
    pub place: Place,
    pub sequence: u32,
    pub acknowledged: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub data: Cow<'a, [u8]>,
    /// Bytes after the data that were not captured.
    pub missing: u32,
}

impl Segment<'_> {
    fn length(&self) -> u32 {
        self.data.len() as u32 + self.missing + u32::from(self.fin)
    }

    fn into_owned(self) -> Segment<'static> {
        Segment {
            data: Cow::Owned(self.data.into_owned()),
            ..self
        }
    }
}

/// What takes the bytes.
pub trait Receiver {
    /// The side's first byte follows: the connection begins.
    fn begins(&mut self, side: Side);
    /// The next bytes.
    fn data(&mut self, side: Side, data: &[u8], place: Place);
    /// Bytes are missing before those that follow.
    fn lost(&mut self, side: Side, problem: Problem, place: Place);
    /// Nothing follows.
    fn ends(&mut self, place: Place);
}

/// Puts the segments of a connection in order.
#[derive(Debug, Default)]
pub struct Stream {
    /// What follows on each side, once that is known.
    next: [Option<u32>; 2],
    waiting: Vec<Segment<'static>>,
    has_ended: bool,
}

/// How far a number is after another one; they wrap around.
fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}

impl Stream {
    /// Whether something of the client was delivered, or may be.
    pub fn has_begun(&self) -> bool {
        self.next[Side::Client as usize].is_some()
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Takes a segment, and delivers what can be.
    pub fn push(&mut self, mut segment: Segment<'_>, receiver: &mut impl Receiver) {
        if self.has_ended {
            return;
        }
        if segment.syn {
            segment.sequence = segment.sequence.wrapping_add(1);
            let next = &mut self.next[segment.side as usize];
            if next.is_none() {
                *next = Some(segment.sequence);
                receiver.begins(segment.side);
            }
        }
        if segment.length() > 0 && !self.is_old(&segment) {
            if self.is_ready(&segment) {
                self.deliver(&segment, receiver);
            } else {
                self.waiting.push(segment.into_owned());
            }
        }
        self.deliver_waiting(receiver);
        while self.waiting.len() > MOST_WAITING {
            self.go_on(receiver);
        }
    }

    /// Since when a segment has been waiting.
    pub fn waits_since(&self) -> Option<Micros> {
        self.waiting.iter().map(|segment| segment.place.at).min()
    }

    /// Delivers what was captured before a time; what is missing until then is lost.
    pub fn deliver_before(&mut self, at: Micros, receiver: &mut impl Receiver) {
        while self.waits_since().is_some_and(|since| since < at) {
            self.go_on(receiver);
        }
    }

    /// Delivers all; what is missing is lost.
    pub fn deliver_all(&mut self, receiver: &mut impl Receiver) {
        while !self.waiting.is_empty() {
            self.go_on(receiver);
        }
    }

    /// The same, at the end of the connection.
    pub fn end(&mut self, place: Place, receiver: &mut impl Receiver) {
        self.deliver_all(receiver);
        if !std::mem::replace(&mut self.has_ended, true) {
            receiver.ends(place);
        }
    }

    /// Whether it was delivered before.
    fn is_old(&self, segment: &Segment<'_>) -> bool {
        let end = segment.sequence.wrapping_add(segment.length());
        self.next[segment.side as usize].is_some_and(|next| distance(next, end) <= 0)
    }

    fn is_ready(&self, segment: &Segment<'_>) -> bool {
        let has =
            |side: Side, sequence: u32| self.next[side as usize].is_some_and(|next| distance(sequence, next) >= 0);
        let has_received = |acknowledged| has(segment.side.other(), acknowledged);
        has(segment.side, segment.sequence) && segment.acknowledged.is_none_or(has_received)
    }

    fn deliver(&mut self, segment: &Segment<'_>, receiver: &mut impl Receiver) {
        let next = self.next[segment.side as usize].get_or_insert(segment.sequence);
        let known = distance(segment.sequence, *next).max(0) as usize;
        *next = segment.sequence.wrapping_add(segment.length());
        let new = segment.data.get(known..).unwrap_or_default();
        if !new.is_empty() {
            receiver.data(segment.side, new, segment.place);
        }
        if segment.missing > 0 {
            receiver.lost(segment.side, Problem::CutPacket, segment.place);
        }
        if segment.fin {
            self.waiting = Vec::new();
            self.has_ended = true;
            receiver.ends(segment.place);
        }
    }

    fn deliver_waiting(&mut self, receiver: &mut impl Receiver) {
        while !self.waiting.is_empty() {
            let mut waiting = std::mem::take(&mut self.waiting);
            waiting.retain(|segment| !self.is_old(segment));
            let ready = waiting.iter().position(|segment| self.is_ready(segment));
            let segment = ready.map(|place| waiting.remove(place));
            self.waiting = waiting;
            match segment {
                Some(segment) => self.deliver(&segment, receiver),
                None => return,
            }
        }
    }

    /// Goes on with the first waiting segment: what it follows is lost.
    fn go_on(&mut self, receiver: &mut impl Receiver) {
        let first = |side: Side| {
            let of_side = self
                .waiting
                .iter()
                .enumerate()
                .filter(|(_, segment)| segment.side == side);
            of_side.min_by(|(_, left), (_, right)| distance(right.sequence, left.sequence).cmp(&0))
        };
        let place = match (first(Side::Client), first(Side::Server)) {
            (Some((client, sent)), Some((server, answer))) => {
                let is_before = sent
                    .acknowledged
                    .is_none_or(|seen| distance(seen, answer.sequence) >= 0);
                if is_before {
                    client
                } else {
                    server
                }
            }
            (Some((place, _)), None) | (None, Some((place, _))) => place,
            (None, None) => return,
        };
        let segment = self.waiting.remove(place);
        self.skip_to(segment.side, segment.sequence, segment.place, receiver);
        if let Some(acknowledged) = segment.acknowledged {
            self.skip_to(segment.side.other(), acknowledged, segment.place, receiver);
        }
        self.deliver(&segment, receiver);
        self.deliver_waiting(receiver);
    }

    fn skip_to(&mut self, side: Side, sequence: u32, place: Place, receiver: &mut impl Receiver) {
        let next = &mut self.next[side as usize];
        if next.is_some_and(|next| distance(sequence, next) >= 0) {
            return;
        }
        if next.replace(sequence).is_some() {
            receiver.lost(side, Problem::LostPackets, place);
        }
    }
}

const HEADER: usize = 4;

/// A packet of the protocol; one that goes on in others is one with them.
#[derive(Debug)]
pub struct Packet {
    /// Of its first byte.
    pub place: Place,
    pub sequence: u8,
    /// As much of it as is kept.
    pub payload: Vec<u8>,
    /// The length of all of it.
    pub length: usize,
}

/// Collects the bytes of a packet.
#[derive(Debug)]
pub struct Intake {
    /// How much of a payload is kept.
    most: usize,
    compression: Option<Compression>,
    compressor: Option<Compressor>,
    /// Whether what follows does not continue what came before.
    pub is_lost: bool,
    place: Place,
    header: Vec<u8>,
    payload: Vec<u8>,
    sequence: u8,
    length: usize,
    /// Bytes of the payload that are to come.
    left: usize,
    is_continued: bool,
}

impl Intake {
    /// One whose beginning is unknown.
    pub fn new(most: usize, compression: Option<Compression>) -> Self {
        Self {
            most,
            compression,
            compressor: compression.and_then(|compression| Compressor::new(compression).ok()),
            is_lost: true,
            place: Place::default(),
            header: Vec::with_capacity(HEADER),
            payload: Vec::new(),
            sequence: 0,
            length: 0,
            left: 0,
            is_continued: false,
        }
    }

    /// What follows does not continue what came before.
    pub fn lose(&mut self) {
        *self = Self::new(self.most, self.compression);
    }

    /// What follows is compressed, or is not.
    pub fn compress(&mut self, compression: Option<Compression>) {
        *self = Self {
            is_lost: self.is_lost,
            ..Self::new(self.most, compression)
        };
    }

    pub fn is_between_packets(&self) -> bool {
        self.header.is_empty() && !self.is_continued
    }

    pub fn is_compressed(&self) -> bool {
        self.compression.is_some()
    }

    /// The bytes of packets.
    ///
    /// # Errors
    /// When they are compressed, and damaged.
    pub fn plain<'a>(&mut self, data: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
        let Some(compressor) = &mut self.compressor else {
            return Ok(Cow::Borrowed(data));
        };
        let mut plain = Vec::new();
        compressor.decompress(data, &mut plain)?;
        Ok(Cow::Owned(plain))
    }

    /// The next whole packet; what was used of `rest` is taken from it.
    pub fn next(&mut self, rest: &mut &[u8], place: Place) -> Option<Packet> {
        loop {
            if self.header.len() < HEADER {
                if self.header.is_empty() && !self.is_continued && !rest.is_empty() {
                    self.place = place;
                }
                self.header.extend_from_slice(taken(rest, HEADER - self.header.len()));
                if self.header.len() < HEADER {
                    return None;
                }
                self.left = payload_length(&self.header);
                if !self.is_continued {
                    (self.sequence, self.length) = (self.header[3], 0);
                }
                self.is_continued = self.left == MAX_PACKET_PAYLOAD;
            }
            let bytes = taken(rest, self.left);
            self.left -= bytes.len();
            self.length += bytes.len();
            let room = self.most - self.payload.len();
            self.payload.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if self.left > 0 {
                return None;
            }
            self.header.clear();
            if !self.is_continued {
                return Some(Packet {
                    place: self.place,
                    sequence: self.sequence,
                    payload: std::mem::take(&mut self.payload),
                    length: self.length,
                });
            }
        }
    }
}

fn taken<'a>(rest: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, after) = rest.split_at(most.min(rest.len()));
    *rest = after;
    taken
}
