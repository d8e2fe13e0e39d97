//! The files of tcpdump and Wireshark, pcap and pcapng, packet by packet.

use std::io::{Error, ErrorKind, Read, Result};

use pcap_parser::pcapng::Block;
use pcap_parser::{create_reader, Linktype, PcapBlockOwned, PcapError};

use crate::timestamp::Micros;

const MAGIC: [[u8; 4]; 5] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x0a, 0x0d, 0x0d, 0x0a],
];
const BUFFER: usize = 1 << 20;
/// The end of the year 9999, s: later times are damaged.
const LATEST_S: i128 = 253_402_300_799;
/// No packet is as long: a file with one is damaged.
const LONGEST: usize = 64 << 20;

/// A packet as the file has it.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Its number in the file, from 1 on, as in Wireshark.
    pub number: u64,
    pub at: Micros,
    pub link: Linktype,
    pub data: &'a [u8],
    /// Bytes of its end that were not captured.
    pub missing: u32,
}

/// How an interface of a file is captured.
struct Interface {
    link: Linktype,
    /// Units of time in a second.
    resolution: u64,
    offset_s: i64,
}

/// Whether a file that begins with these bytes has packets.
pub fn is_its_own(first_bytes: &[u8]) -> bool {
    MAGIC.iter().any(|magic| first_bytes.starts_with(magic))
}

/// Reads packets until `take` returns false; returns whether the last one is cut off.
///
/// # Errors
/// When the file cannot be read, or is damaged.
pub fn read(file: impl Read + Send, mut take: impl FnMut(Packet<'_>) -> Result<bool>) -> Result<bool> {
    let damaged = |number: u64, why: &str| Error::new(ErrorKind::InvalidData, format!("packet {number} {why}"));
    let mut reader = match create_reader(BUFFER, file) {
        Ok(reader) => reader,
        Err(PcapError::Incomplete(_)) => return Ok(true),
        Err(_) => {
            return Err(Error::new(
                ErrorKind::InvalidData,
                "the beginning of the file is damaged",
            ))
        }
    };
    let mut interfaces = Vec::new();
    let (mut number, mut capacity) = (1, BUFFER);
    loop {
        let (length, block) = match reader.next() {
            Ok(next) => next,
            Err(PcapError::Eof) => return Ok(false),
            Err(PcapError::UnexpectedEof) => return Ok(true),
            Err(error @ (PcapError::Incomplete(_) | PcapError::BufferTooSmall)) => {
                if error == PcapError::BufferTooSmall {
                    capacity *= 2;
                    if capacity > LONGEST || !reader.grow(capacity) {
                        return Err(damaged(number, "is damaged: it is too long"));
                    }
                }
                reader.refill().map_err(|_| damaged(number, "cannot be read"))?;
                continue;
            }
            Err(_) => return Err(damaged(number, "is damaged")),
        };
        let found = match block {
            PcapBlockOwned::LegacyHeader(header) => {
                interfaces.push(Interface {
                    link: header.network,
                    resolution: if header.is_nanosecond_precision() {
                        1_000_000_000
                    } else {
                        1_000_000
                    },
                    offset_s: 0,
                });
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let interface = &interfaces[0];
                let time = u64::from(packet.ts_sec) * interface.resolution + u64::from(packet.ts_usec);
                Some((interface, time, packet.data, packet.caplen, packet.origlen))
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                interfaces.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(described)) => {
                let resolution = described.ts_resolution().filter(|resolution| *resolution > 0);
                interfaces.push(Interface {
                    link: described.linktype,
                    resolution: resolution
                        .ok_or_else(|| damaged(number, "is of an interface with an unknown clock"))?,
                    offset_s: described.ts_offset(),
                });
                None
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = interfaces.get(packet.if_id as usize);
                let interface = interface.ok_or_else(|| damaged(number, "is of an unknown interface"))?;
                let time = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let data = &packet.data[..packet.data.len().min(packet.caplen as usize)];
                Some((interface, time, data, packet.caplen, packet.origlen))
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => return Err(damaged(number, "has no time")),
            PcapBlockOwned::NG(_) => None,
        };
        if let Some((interface, time, data, captured, original)) = found {
            let us = i128::from(time) * 1_000_000 / i128::from(interface.resolution);
            let packet = Packet {
                number,
                at: (us + i128::from(interface.offset_s) * 1_000_000).clamp(0, LATEST_S * 1_000_000) as Micros,
                link: interface.link,
                data,
                missing: original.saturating_sub(captured),
            };
            if !take(packet)? {
                return Ok(false);
            }
            number += 1;
        }
        reader.consume(length);
    }
}
