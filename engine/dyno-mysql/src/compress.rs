//! Compression: MySQL packets in 7-byte-headed frames, each deflated or zstd-compressed on its own.
//! Source: the MySQL manual's source documentation, "Compression". Frames are independent of one another, so the
//! contexts (a quarter of a megabyte for zlib) are held once per thread and level, not per connection.

use std::cell::RefCell;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use zstd_safe::{CCtx, DCtx};

use crate::constants::MAX_PACKET_PAYLOAD;
use crate::error::Error;
use crate::options::Compression;
use crate::packet::payload_length;

const FRAME_HEADER: usize = 7;
/// libmysql's MIN_COMPRESS_LENGTH: shorter payloads are not worth it.
const MIN_COMPRESSED: usize = 50;

/// The compression layer of one connection.
#[derive(Debug)]
pub struct Compressor {
    algorithm: Compression,
    /// An incomplete frame, kept until the rest comes.
    partial: Vec<u8>,
}

thread_local! {
    static DEFLATE: RefCell<Vec<(u32, Compress)>> = const { RefCell::new(Vec::new()) };
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(true));
    static ZSTD_COMPRESS: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static ZSTD_DECOMPRESS: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

impl Compressor {
    /// The layer for an algorithm that is not `Off`.
    ///
    /// # Errors
    /// When the level is outside its range.
    pub fn new(algorithm: Compression) -> Result<Compressor, Error> {
        match algorithm {
            Compression::Zlib { level } if level > 9 => {
                Err(Error::setup(format!("zlib level {level} is not one of 0 to 9")))
            }
            Compression::Zstd { level } if !(1..=22).contains(&level) => {
                Err(Error::setup(format!("zstd level {level} is not one of 1 to 22")))
            }
            _ => Ok(Compressor {
                algorithm,
                partial: Vec::new(),
            }),
        }
    }

    /// Appends the frames for the packets of one command to `out`.
    ///
    /// # Errors
    /// None at present.
    pub fn compress(&self, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        for (sequence, chunk) in raw.chunks(MAX_PACKET_PAYLOAD).enumerate() {
            let at = out.len();
            out.extend_from_slice(&[0; FRAME_HEADER]);
            let shorter = chunk.len() >= MIN_COMPRESSED && self.deflate(chunk, out)?;
            let uncompressed_length = if shorter { chunk.len() } else { 0 };
            if !shorter {
                out.truncate(at + FRAME_HEADER);
                out.extend_from_slice(chunk);
            }
            let length = out.len() - at - FRAME_HEADER;
            out[at..at + 3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
            out[at + 3] = sequence as u8;
            out[at + 4..at + 7].copy_from_slice(&(uncompressed_length as u32).to_le_bytes()[..3]);
        }
        Ok(())
    }

    /// Appends the compressed chunk; false when it would not be shorter (what was appended is then of no use).
    fn deflate(&self, chunk: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let at = out.len();
        out.resize(at + chunk.len(), 0);
        let room = &mut out[at..];
        let made = match self.algorithm {
            Compression::Off => None,
            Compression::Zlib { level } => DEFLATE.with_borrow_mut(|contexts| {
                let index = contexts.iter().position(|(of, _)| *of == level).unwrap_or_else(|| {
                    contexts.push((level, Compress::new(flate2::Compression::new(level), true)));
                    contexts.len() - 1
                });
                let context = &mut contexts[index].1;
                context.reset();
                match context.compress(chunk, room, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => Some(context.total_out() as usize),
                    _ => None,
                }
            }),
            Compression::Zstd { level } => {
                ZSTD_COMPRESS.with_borrow_mut(|context| context.compress(room, chunk, level as i32).ok())
            }
        };
        out.truncate(at + made.unwrap_or(0));
        Ok(made.is_some_and(|length| length < chunk.len()))
    }

    /// Takes compressed bytes as they come and appends the packets inside whole frames to `out`.
    ///
    /// # Errors
    /// When a frame is damaged.
    pub fn decompress(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        while !self.partial.is_empty() && !input.is_empty() {
            let wanted = match self.partial.len() {
                held @ 0..FRAME_HEADER => FRAME_HEADER - held,
                held => FRAME_HEADER + payload_length(&self.partial) - held,
            };
            let (taken, rest) = input.split_at(wanted.min(input.len()));
            self.partial.extend_from_slice(taken);
            input = rest;
            if self.partial.len() >= FRAME_HEADER && self.partial.len() == FRAME_HEADER + payload_length(&self.partial)
            {
                self.inflate(&self.partial, out)?;
                // Most frames come whole; a connection that waits holds no buffer.
                self.partial = Vec::new();
            }
        }
        while input.len() >= FRAME_HEADER && input.len() >= FRAME_HEADER + payload_length(input) {
            let (frame, rest) = input.split_at(FRAME_HEADER + payload_length(input));
            self.inflate(frame, out)?;
            input = rest;
        }
        self.partial.extend_from_slice(input);
        Ok(())
    }

    /// Appends what one whole frame holds.
    fn inflate(&self, frame: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let (header, body) = frame.split_at(FRAME_HEADER);
        let length = payload_length(&header[4..]);
        if length == 0 {
            out.extend_from_slice(body);
            return Ok(());
        }
        let at = out.len();
        out.resize(at + length, 0);
        let room = &mut out[at..];
        let made = match self.algorithm {
            Compression::Zstd { .. } => ZSTD_DECOMPRESS
                .with_borrow_mut(|context| context.decompress(room, body).map_err(zstd_safe::get_error_name)),
            _ => INFLATE.with_borrow_mut(|context| {
                context.reset(true);
                match context.decompress(body, room, FlushDecompress::Finish) {
                    Ok(Status::StreamEnd) => Ok(context.total_out() as usize),
                    Ok(_) => Err("its stream does not end where it should"),
                    Err(_) => Err("its stream is damaged"),
                }
            }),
        };
        match made {
            Ok(made) if made == length => Ok(()),
            Ok(made) => Err(Error::protocol(format!(
                "a compressed packet holds {made} bytes and promises {length}"
            ))),
            Err(why) => Err(Error::protocol(format!(
                "a compressed packet of {} bytes: {why}",
                body.len()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn both() -> [Compression; 3] {
        [
            Compression::Zlib { level: 1 },
            Compression::Zlib { level: 6 },
            Compression::Zstd { level: 3 },
        ]
    }

    #[test]
    fn short_payloads_travel_as_they_are() {
        for algorithm in both() {
            let mut out = Vec::new();
            Compressor::new(algorithm)
                .unwrap()
                .compress(&[7; 49], &mut out)
                .unwrap();
            assert_eq!(&out[..FRAME_HEADER], &[49, 0, 0, 0, 0, 0, 0]);
            assert_eq!(&out[FRAME_HEADER..], &[7; 49]);
        }
    }

    #[test]
    fn payloads_over_the_frame_limit_come_back_whole() {
        let raw: Vec<u8> = (0..MAX_PACKET_PAYLOAD + 1000).map(|i| (i / 100) as u8).collect();
        for algorithm in both() {
            let mut layer = Compressor::new(algorithm).unwrap();
            let (mut wire, mut back) = (Vec::new(), Vec::new());
            layer.compress(&raw, &mut wire).unwrap();
            assert!(wire.len() < raw.len() / 10);
            layer.decompress(&wire, &mut back).unwrap();
            assert!(back == raw);
        }
    }

    #[test]
    fn levels_outside_the_range_are_refused() {
        assert!(Compressor::new(Compression::Zlib { level: 10 }).is_err());
        assert!(Compressor::new(Compression::Zstd { level: 0 }).is_err());
        assert!(Compressor::new(Compression::Zstd { level: 23 }).is_err());
    }

    proptest! {
        #[test]
        fn any_payload_split_anywhere_comes_back(
            seed in proptest::collection::vec(any::<u8>(), 0..40), repeat in 1usize..40, cut in 1usize..60,
        ) {
            let raw = seed.repeat(repeat);
            for algorithm in both() {
                let mut layer = Compressor::new(algorithm).unwrap();
                let (mut wire, mut back) = (Vec::new(), Vec::new());
                layer.compress(&raw, &mut wire).unwrap();
                for piece in wire.chunks(cut) {
                    layer.decompress(piece, &mut back).unwrap();
                }
                prop_assert_eq!(&back, &raw);
            }
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for algorithm in both() {
                let mut frame = vec![bytes.len() as u8, 0, 0, 0, 200, 0, 0];
                frame.extend_from_slice(&bytes);
                let _ = Compressor::new(algorithm).unwrap().decompress(&frame, &mut Vec::new());
            }
        }
    }
}
