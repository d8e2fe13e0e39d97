//! What lies between MySQL packets and the socket: compression, then TLS, each only when in use; and
//! what went over each of these layers.

use std::cell::RefCell;
use std::io::{Read, Write};

use rustls::ClientConnection;

use crate::compress::Compressor;
use crate::error::Error;

/// Buffers larger than this are given back once they are empty; a bulk loader's statements stay below.
pub(crate) const KEEP: usize = 1 << 21;

thread_local! {
    /// Buffers that no connection needs now: an idle connection holds none.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, warm when the thread has one.
fn borrow() -> Vec<u8> {
    SPARE.with_borrow_mut(|spare| spare.pop()).unwrap_or_default()
}

/// Gives a buffer to the next who needs one.
fn give_back(mut buffer: Vec<u8>) {
    if buffer.capacity() > 0 {
        buffer.clear();
        buffer.shrink_to(KEEP);
        SPARE.with_borrow_mut(|spare| spare.push(buffer));
    }
}

/// The layers of one connection and the bytes between them.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub tls: Option<Box<ClientConnection>>,
    pub compression: Option<Compressor>,
    /// MySQL packets received, and how many of these bytes are parsed. Lent by the thread while it holds any.
    pub plain: Vec<u8>,
    pub parsed: usize,
    /// Bytes for the socket.
    pub wire: Vec<u8>,
}

impl Layers {
    /// Layers behind bytes that must go out untouched.
    pub fn before(wire: Vec<u8>) -> Layers {
        Layers {
            wire,
            ..Layers::default()
        }
    }

    /// Takes bytes from the socket down to MySQL packets.
    pub fn feed(&mut self, input: &[u8], counters: &mut Counters) -> Result<(), Error> {
        if self.plain.capacity() == 0 {
            self.plain = borrow();
        }
        match (&mut self.tls, &mut self.compression) {
            (None, None) => {
                counters.compressed_bytes_in += input.len() as u64;
                self.plain.extend_from_slice(input);
                Ok(())
            }
            (None, Some(compression)) => {
                counters.compressed_bytes_in += input.len() as u64;
                compression.decompress(input, &mut self.plain)
            }
            (Some(tls), None) => {
                counters.compressed_bytes_in += decipher(tls, input, &mut self.plain, &mut self.wire)?;
                Ok(())
            }
            (Some(tls), Some(compression)) => {
                let mut deciphered = borrow();
                counters.compressed_bytes_in += decipher(tls, input, &mut deciphered, &mut self.wire)?;
                let result = compression.decompress(&deciphered, &mut self.plain);
                give_back(deciphered);
                result
            }
        }
    }

    /// Takes the packets of one command up to bytes for the socket.
    pub fn seal(&mut self, raw: &[u8], counters: &mut Counters) -> Result<(), Error> {
        let Some(tls) = &mut self.tls else {
            let before = self.wire.len();
            match &self.compression {
                Some(compression) => compression.compress(raw, &mut self.wire)?,
                None => self.wire.extend_from_slice(raw),
            }
            counters.compressed_bytes_out += (self.wire.len() - before) as u64;
            return Ok(());
        };
        let write = |bytes: &[u8], tls: &mut ClientConnection| {
            tls.writer()
                .write_all(bytes)
                .map_err(|error| Error::Io("handing bytes to TLS", error))
        };
        match &self.compression {
            Some(compression) => {
                let mut compressed = borrow();
                compression.compress(raw, &mut compressed)?;
                counters.compressed_bytes_out += compressed.len() as u64;
                write(&compressed, tls)?;
                give_back(compressed);
            }
            None => {
                counters.compressed_bytes_out += raw.len() as u64;
                write(raw, tls)?;
            }
        }
        drain(tls, &mut self.wire)
    }

    /// Says goodbye to the TLS peer.
    pub fn close(&mut self) -> Result<(), Error> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        tls.send_close_notify();
        drain(tls, &mut self.wire)
    }

    /// Forgets parsed bytes, and gives the buffer back once all are.
    pub fn reclaim(&mut self) {
        if self.parsed == self.plain.len() {
            self.parsed = 0;
            give_back(std::mem::take(&mut self.plain));
        }
    }
}

/// Appends deciphered bytes to `out` and records for the peer to `wire`; returns how many were deciphered.
fn decipher(tls: &mut ClientConnection, mut input: &[u8], out: &mut Vec<u8>, wire: &mut Vec<u8>) -> Result<u64, Error> {
    let start = out.len();
    while !input.is_empty() {
        let taken = tls
            .read_tls(&mut input)
            .map_err(|error| Error::Io("reading TLS records", error))?;
        let state = match tls.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // The alert that tells the server why is worth sending; the first error is the one to report.
                let _ = drain(tls, wire);
                return Err(error.into());
            }
        };
        let available = state.plaintext_bytes_to_read();
        if available > 0 {
            let at = out.len();
            out.resize(at + available, 0);
            tls.reader()
                .read_exact(&mut out[at..])
                .map_err(|error| Error::Io("reading from TLS", error))?;
        }
        if taken == 0 {
            return Err(Error::Closed("inside TLS"));
        }
    }
    drain(tls, wire)?;
    Ok((out.len() - start) as u64)
}

/// Moves all records that TLS has ready to `wire`.
fn drain(tls: &mut ClientConnection, wire: &mut Vec<u8>) -> Result<(), Error> {
    while tls.wants_write() {
        tls.write_tls(wire)
            .map_err(|error| Error::Io("writing TLS records", error))?;
    }
    Ok(())
}

/// Bytes and packets of one connection since it began, counted where they cross each layer.
///
/// `raw` is MySQL packets with their headers; `compressed` is the same after compression (equal to `raw` without);
/// `wire` is what the socket carried (equal to `compressed` without TLS). The layers come in that order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// MySQL packets received; a payload over 16 MiB counts one for each of its packets.
    pub packets_in: u64,
    /// MySQL packets made.
    pub packets_out: u64,
    /// Bytes of MySQL packets received.
    pub raw_bytes_in: u64,
    /// Bytes of MySQL packets made.
    pub raw_bytes_out: u64,
    /// Bytes received after TLS was taken off, before decompression.
    pub compressed_bytes_in: u64,
    /// Bytes after compression, before TLS.
    pub compressed_bytes_out: u64,
    /// Bytes fed from the socket.
    pub wire_bytes_in: u64,
    /// Bytes handed out for the socket.
    pub wire_bytes_out: u64,
}

impl Counters {
    /// What was added since `earlier`, for figures of one interval.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            packets_in: self.packets_in - earlier.packets_in,
            packets_out: self.packets_out - earlier.packets_out,
            raw_bytes_in: self.raw_bytes_in - earlier.raw_bytes_in,
            raw_bytes_out: self.raw_bytes_out - earlier.raw_bytes_out,
            compressed_bytes_in: self.compressed_bytes_in - earlier.compressed_bytes_in,
            compressed_bytes_out: self.compressed_bytes_out - earlier.compressed_bytes_out,
            wire_bytes_in: self.wire_bytes_in - earlier.wire_bytes_in,
            wire_bytes_out: self.wire_bytes_out - earlier.wire_bytes_out,
        }
    }

    /// The sum of both, for figures of several connections.
    pub fn plus(&self, other: &Counters) -> Counters {
        Counters {
            packets_in: self.packets_in + other.packets_in,
            packets_out: self.packets_out + other.packets_out,
            raw_bytes_in: self.raw_bytes_in + other.raw_bytes_in,
            raw_bytes_out: self.raw_bytes_out + other.raw_bytes_out,
            compressed_bytes_in: self.compressed_bytes_in + other.compressed_bytes_in,
            compressed_bytes_out: self.compressed_bytes_out + other.compressed_bytes_out,
            wire_bytes_in: self.wire_bytes_in + other.wire_bytes_in,
            wire_bytes_out: self.wire_bytes_out + other.wire_bytes_out,
        }
    }
}
