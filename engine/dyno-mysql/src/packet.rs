//! Packets: the 4-byte header, the integers and strings inside, writing in place.

use crate::constants::MAX_PACKET_PAYLOAD;
use crate::error::Error;

/// Length of a packet header: 3 bytes of payload length, 1 byte of sequence number.
pub(crate) const HEADER: usize = 4;

/// The payload length that a header announces.
#[inline(always)]
pub fn payload_length(header: &[u8]) -> usize {
    header[0] as usize | (header[1] as usize) << 8 | (header[2] as usize) << 16
}

/// Reads a payload from front to back; every read past the end is a protocol error, never a panic.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// At the payload's start.
    pub fn new(payload: &'a [u8]) -> Reader<'a> {
        Reader { rest: payload }
    }

    /// Whether all of it was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that was not read yet.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// So many bytes; `what` is named where they are missing.
    ///
    /// # Errors
    /// Past the end, as with all that follow.
    pub fn bytes(&mut self, length: usize, what: &str) -> Result<&'a [u8], Error> {
        if length > self.rest.len() {
            return Err(Error::protocol(format!(
                "{what} needs {length} bytes, the packet has {} left",
                self.rest.len()
            )));
        }
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }

    /// A fixed number of bytes.
    ///
    /// # Errors
    /// Past the end.
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N, what)?);
        Ok(out)
    }

    /// One byte.
    ///
    /// # Errors
    /// Past the end.
    pub fn u8(&mut self, what: &str) -> Result<u8, Error> {
        Ok(self.array::<1>(what)?[0])
    }

    /// Two bytes, the lowest first.
    ///
    /// # Errors
    /// Past the end.
    pub fn u16(&mut self, what: &str) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Four bytes, the lowest first.
    ///
    /// # Errors
    /// Past the end.
    pub fn u32(&mut self, what: &str) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Eight bytes, the lowest first.
    ///
    /// # Errors
    /// Past the end.
    pub fn u64(&mut self, what: &str) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A length-encoded integer.
    ///
    /// # Errors
    /// Past the end; 0xfb (NULL) and 0xff.
    pub fn length_encoded(&mut self, what: &str) -> Result<u64, Error> {
        match self.u8(what)? {
            small @ 0..=0xfa => Ok(small as u64),
            0xfc => Ok(self.u16(what)? as u64),
            0xfd => Ok(payload_length(self.bytes(3, what)?) as u64),
            0xfe => self.u64(what),
            other => Err(Error::protocol(format!(
                "{what} starts with 0x{other:02x}, which is not a length"
            ))),
        }
    }

    /// A length-encoded string.
    ///
    /// # Errors
    /// Past the end.
    pub fn length_encoded_bytes(&mut self, what: &str) -> Result<&'a [u8], Error> {
        let length = self.length_encoded(what)?;
        self.bytes(usize::try_from(length).unwrap_or(usize::MAX), what)
    }

    /// A value of a text row: `None` is SQL NULL.
    pub(crate) fn nullable_bytes(&mut self, what: &str) -> Result<Option<&'a [u8]>, Error> {
        if self.rest.first() == Some(&0xfb) {
            self.rest = &self.rest[1..];
            return Ok(None);
        }
        self.length_encoded_bytes(what).map(Some)
    }

    /// Bytes up to a zero byte, which is consumed; the whole rest when there is none.
    pub fn until_zero(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|&byte| byte == 0);
        let taken = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
        taken
    }
}

/// Appends a length-encoded integer.
pub(crate) fn put_length(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=0xfa => out.push(value as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(value as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&value.to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Appends a length-encoded string.
pub(crate) fn put_bytes(out: &mut Vec<u8>, value: &[u8]) {
    put_length(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Leaves room for a header and returns where it is; `finish` fills it.
#[inline]
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; HEADER]);
    at
}

/// Fills the header left by `begin`, splitting payloads of 16 MiB − 1 and more; returns how many packets it made.
#[inline]
pub(crate) fn finish(out: &mut Vec<u8>, at: usize, sequence: u8) -> u8 {
    let length = out.len() - at - HEADER;
    if length < MAX_PACKET_PAYLOAD {
        out[at..at + HEADER].copy_from_slice(&((length as u32) | (sequence as u32) << 24).to_le_bytes());
        return 1;
    }
    split(out, at, length, sequence)
}

/// Spreads one long payload over packets, moving the pieces from last to first.
#[cold]
fn split(out: &mut Vec<u8>, at: usize, length: usize, sequence: u8) -> u8 {
    let pieces = length / MAX_PACKET_PAYLOAD + 1;
    out.resize(out.len() + (pieces - 1) * HEADER, 0);
    for piece in (0..pieces).rev() {
        let start = piece * MAX_PACKET_PAYLOAD;
        let size = (length - start).min(MAX_PACKET_PAYLOAD);
        let from = at + HEADER + start;
        let header = at + piece * (MAX_PACKET_PAYLOAD + HEADER);
        out.copy_within(from..from + size, header + HEADER);
        let word = size as u32 | (sequence.wrapping_add(piece as u8) as u32) << 24;
        out[header..header + HEADER].copy_from_slice(&word.to_le_bytes());
    }
    pieces as u8
}

/// Appends one whole packet.
pub(crate) fn put_packet(out: &mut Vec<u8>, sequence: u8, payload: &[u8]) -> u8 {
    let at = begin(out);
    out.extend_from_slice(payload);
    finish(out, at, sequence)
}

/// Of names and versions that a server states.
pub(crate) const MOST_NAME_BYTES: usize = 256;

/// What a server wrote, as one line and no longer than it may be.
pub(crate) fn text(bytes: &[u8], most: usize) -> String {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]);
    let line = shown.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    if bytes.len() > most {
        line + "…"
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_integers_come_back_as_written_at_every_boundary() {
        for value in [0, 0xfa, 0xfb, 0xfc, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut out = Vec::new();
            put_length(&mut out, value);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.length_encoded("value").unwrap(), value);
            assert!(reader.is_empty());
            assert!(Reader::new(&out[..out.len() - 1]).length_encoded("value").is_err());
        }
    }

    #[test]
    fn a_payload_of_exactly_the_limit_is_followed_by_an_empty_packet() {
        let mut out = Vec::new();
        assert_eq!(put_packet(&mut out, 3, &vec![7; MAX_PACKET_PAYLOAD]), 2);
        assert_eq!(&out[..4], &[0xff, 0xff, 0xff, 3]);
        assert_eq!(&out[HEADER + MAX_PACKET_PAYLOAD..], &[0, 0, 0, 4]);
    }

    #[test]
    fn a_split_payload_keeps_every_byte_in_order() {
        let payload: Vec<u8> = (0..MAX_PACKET_PAYLOAD * 2 + 5).map(|i| (i % 251) as u8).collect();
        let mut out = vec![9];
        let at = begin(&mut out);
        out.extend_from_slice(&payload);
        assert_eq!(finish(&mut out, at, 0), 3);
        let (mut joined, mut rest) = (Vec::new(), &out[1..]);
        for sequence in 0..3 {
            assert_eq!(rest[3], sequence);
            let length = payload_length(rest);
            joined.extend_from_slice(&rest[HEADER..HEADER + length]);
            rest = &rest[HEADER + length..];
        }
        assert!(rest.is_empty() && joined == payload);
    }
}
