//! Packets of the protocol from the bytes of one side.

use std::borrow::Cow;

use dyno_mysql::constants::MAX_PACKET_PAYLOAD;
use dyno_mysql::{payload_length, Compression, Compressor, Error};

use super::stream::Place;

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
