//! Finding packets in the bytes received, whole or cut anywhere; skipping rows without looking into them.

use std::ops::Range;

use crate::constants::MAX_PACKET_PAYLOAD;
use crate::error::Error;
use crate::layers::{Counters, KEEP};
use crate::packet::{payload_length, HEADER};

/// First byte of an error packet.
pub(crate) const ERROR_MARKER: u8 = 0xff;
/// First byte of the packet that ends rows (EOF, or OK in its place), when the packet is also short enough.
pub(crate) const END_MARKER: u8 = 0xfe;

/// The longest payload before commands can be given: greetings and proofs have some hundred bytes.
pub(crate) const LONGEST_OF_LOGIN: usize = 64 * 1024;

/// The longest result that a control connection keeps, the longest packet of one, and the longest column definitions.
pub(crate) const LONGEST_RESULT: usize = 64 << 20;

/// Where a whole payload lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PayloadLocation {
    /// In the bytes just given.
    Input(Range<usize>),
    /// In the intake's own buffer, joined from parts.
    Carry,
}

/// Why skipping stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// The bytes are used up.
    NeedMore,
    /// The next packet ends the rows or is an error; it is not consumed.
    Marker,
    /// As many packets as asked are past.
    Enough,
}

/// The state between two calls: a part of a header, a part of a payload, or bytes to skip.
#[derive(Debug)]
pub(crate) struct Intake {
    carry: Vec<u8>,
    header: [u8; HEADER],
    header_length: u8,
    /// A payload's header was read and `missing` bytes of this piece are still to come.
    assembling: bool,
    /// The carry holds a payload already handed out.
    spent: bool,
    /// The last piece was of the maximal length, so the next packet continues it.
    continued: bool,
    missing: usize,
    /// The sequence number the next packet must have.
    pub sequence: u8,
    /// Off under compression, where servers count otherwise.
    pub check_sequence: bool,
    /// The longest packet that can end the rows: an EOF is shorter than 9 bytes, an OK in its place than 16 MiB − 1.
    pub end_limit: usize,
    /// The longest payload that is put together from parts.
    pub longest: usize,
}

impl Intake {
    pub fn new() -> Intake {
        Intake {
            carry: Vec::new(),
            header: [0; HEADER],
            header_length: 0,
            assembling: false,
            spent: false,
            continued: false,
            missing: 0,
            sequence: 0,
            check_sequence: true,
            end_limit: 9,
            longest: LONGEST_OF_LOGIN,
        }
    }

    fn check_length(&self, length: usize) -> Result<(), Error> {
        if length > self.longest {
            return Err(Error::protocol(format!(
                "the server sent a packet of more than {} kB where {} kB are the limit",
                length / 1024,
                self.longest / 1024
            )));
        }
        Ok(())
    }

    /// The payload at `place`.
    pub fn payload<'a>(&'a self, place: &PayloadLocation, source: &'a [u8]) -> &'a [u8] {
        match place {
            PayloadLocation::Input(range) => &source[range.clone()],
            PayloadLocation::Carry => &self.carry,
        }
    }

    /// Whether a packet is in the middle of arriving.
    pub fn is_partial(&self) -> bool {
        self.header_length > 0 || self.assembling || self.continued || self.missing > 0
    }

    fn check(&mut self, sequence: u8, marker: u8) -> Result<(), Error> {
        // An error packet may come unasked (a killed or idle connection), numbered as the server likes.
        if sequence != self.sequence && self.check_sequence && marker != ERROR_MARKER {
            return Err(Error::protocol(format!(
                "packet number {sequence} came where {} belongs",
                self.sequence
            )));
        }
        self.sequence = sequence.wrapping_add(1);
        Ok(())
    }

    /// The next whole payload, joined over packets; `None` when `source` is used up before its end.
    pub fn packet(
        &mut self,
        source: &[u8],
        position: &mut usize,
        counters: &mut Counters,
    ) -> Result<Option<PayloadLocation>, Error> {
        if self.spent {
            self.carry.clear();
            self.carry.shrink_to(KEEP);
            self.spent = false;
        }
        loop {
            if !self.assembling {
                let rest = &source[*position..];
                if self.header_length == 0 && !self.continued && rest.len() >= HEADER {
                    let length = payload_length(rest);
                    if length < MAX_PACKET_PAYLOAD && rest.len() >= HEADER + length {
                        let start = *position + HEADER;
                        self.check(rest[3], rest.get(HEADER).copied().unwrap_or(0))?;
                        counters.packets_in += 1;
                        counters.raw_bytes_in += (HEADER + length) as u64;
                        *position = start + length;
                        return Ok(Some(PayloadLocation::Input(start..start + length)));
                    }
                }
                if !self.fill_header(source, position) {
                    return Ok(None);
                }
                self.header_length = 0;
                self.assembling = true;
                self.missing = payload_length(&self.header);
                self.check_length(self.carry.len() + self.missing)?;
                self.continued = self.missing == MAX_PACKET_PAYLOAD;
                counters.packets_in += 1;
                counters.raw_bytes_in += (HEADER + self.missing) as u64;
            }
            let taken = self.missing.min(source.len() - *position);
            self.carry.extend_from_slice(&source[*position..*position + taken]);
            *position += taken;
            self.missing -= taken;
            if self.missing > 0 {
                return Ok(None);
            }
            self.assembling = false;
            self.check(self.header[3], self.carry.first().copied().unwrap_or(0))?;
            if !self.continued {
                self.spent = true;
                return Ok(Some(PayloadLocation::Carry));
            }
        }
    }

    /// Completes the header from `source`; false when it is used up.
    fn fill_header(&mut self, source: &[u8], position: &mut usize) -> bool {
        let held = self.header_length as usize;
        let taken = (HEADER - held).min(source.len() - *position);
        self.header[held..held + taken].copy_from_slice(&source[*position..*position + taken]);
        *position += taken;
        self.header_length += taken as u8;
        self.header_length as usize == HEADER
    }

    fn is_marker(&self, first: u8, length: usize) -> bool {
        first >= END_MARKER && (first == ERROR_MARKER || length < self.end_limit)
    }

    /// Passes over payloads, counting them in `count` up to `limit`, until one that ends the rows.
    ///
    /// Costs one look at the header and first byte of each packet; nothing is copied.
    pub fn skip(
        &mut self,
        source: &[u8],
        position: &mut usize,
        counters: &mut Counters,
        count: &mut u64,
        limit: u64,
    ) -> Result<Skipped, Error> {
        // The packet that ends the rows has begun to be put together.
        if self.assembling {
            return Ok(Skipped::Marker);
        }
        loop {
            if self.missing > 0 {
                let taken = self.missing.min(source.len() - *position);
                *position += taken;
                self.missing -= taken;
                if self.missing > 0 {
                    return Ok(Skipped::NeedMore);
                }
            }
            if !self.continued && *count >= limit {
                return Ok(Skipped::Enough);
            }
            if self.header_length == 0 && !self.continued {
                if let Some(stop) = self.skip_whole(source, position, counters, count, limit)? {
                    return Ok(stop);
                }
                if self.missing > 0 || self.continued {
                    continue;
                }
            }
            if !self.fill_header(source, position) {
                return Ok(Skipped::NeedMore);
            }
            let length = payload_length(&self.header);
            if !self.continued {
                let Some(&first) = source.get(*position) else {
                    return Ok(Skipped::NeedMore);
                };
                if self.is_marker(first, length) {
                    return Ok(Skipped::Marker);
                }
                if length == 0 {
                    return Err(Error::protocol("an empty packet where a row belongs"));
                }
                *count += 1;
            }
            self.check(self.header[3], 0)?;
            self.header_length = 0;
            self.missing = length;
            self.continued = length == MAX_PACKET_PAYLOAD;
            counters.packets_in += 1;
            counters.raw_bytes_in += (HEADER + length) as u64;
        }
    }

    /// The hot loop of `skip`: packets whose header and first byte are at hand.
    #[inline]
    fn skip_whole(
        &mut self,
        source: &[u8],
        position: &mut usize,
        counters: &mut Counters,
        count: &mut u64,
        limit: u64,
    ) -> Result<Option<Skipped>, Error> {
        let mut at = *position;
        let (mut packets, mut bytes) = (0, 0);
        let mut stop = None;
        while let Some(head) = source.get(at..at + HEADER + 1) {
            let length = payload_length(head);
            if self.is_marker(head[HEADER], length) {
                stop = Some(Skipped::Marker);
                break;
            }
            if length == 0 {
                return Err(Error::protocol("an empty packet where a row belongs"));
            }
            self.check(head[3], 0)?;
            packets += 1;
            bytes += (HEADER + length) as u64;
            at += HEADER + length;
            if length == MAX_PACKET_PAYLOAD {
                self.continued = true;
                break;
            }
            if *count + packets >= limit {
                stop = Some(Skipped::Enough);
                break;
            }
        }
        if at > source.len() {
            self.missing = at - source.len();
            at = source.len();
            stop = None;
        }
        *position = at;
        *count += packets;
        counters.packets_in += packets;
        counters.raw_bytes_in += bytes;
        Ok(stop)
    }
}
