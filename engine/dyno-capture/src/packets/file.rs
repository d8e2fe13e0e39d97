//! The files of tcpdump and Wireshark, pcap and pcapng, packet by packet; and what of a packet is TCP.

use std::io::{Error, ErrorKind, Read, Result};
use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
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

/// The version of IP that a header of its own names (BSD's loopback, numbers differ between systems).
const NULL: i32 = 0;
const ETHERNET: i32 = 1;
/// IP alone, by the numbers of different systems.
const RAW: [i32; 5] = [12, 14, 101, 228, 229];
const LOOP: i32 = 108;
/// `tcpdump -i any`: 14 bytes and the protocol; 20 bytes that begin with it.
const COOKED: i32 = 113;
const COOKED_2: i32 = 276;

/// A TCP segment.
#[derive(Debug)]
pub struct Frame<'a> {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub sequence: u32,
    pub acknowledged: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    pub payload: &'a [u8],
    /// Whether bytes of its end were not captured.
    pub is_cut: bool,
}

/// Whether packets of this link layer can be read.
pub fn is_known(link: Linktype) -> bool {
    matches!(link.0, NULL | ETHERNET | LOOP | COOKED | COOKED_2) || RAW.contains(&link.0)
}

fn slice(link: Linktype, data: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let typed = |place: usize, payload: usize| {
        let ether_type = u16::from_be_bytes(data.get(place..place + 2)?.try_into().ok()?);
        Some(LaxSlicedPacket::from_ether_type(
            EtherType(ether_type),
            data.get(payload..)?,
        ))
    };
    match link.0 {
        ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        COOKED => typed(14, 16),
        COOKED_2 => typed(0, 20),
        NULL | LOOP => LaxSlicedPacket::from_ip(data.get(4..)?).ok(),
        _ => LaxSlicedPacket::from_ip(data).ok(),
    }
}

/// The TCP segment of a packet; none where it is something else.
pub fn frame(link: Linktype, data: &[u8]) -> Option<Frame<'_>> {
    let packet = slice(link, data)?;
    let (source, destination, ip) = match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let (source, destination) = (header.source_addr(), header.destination_addr());
            (IpAddr::from(source), IpAddr::from(destination), ip.payload())
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let (source, destination) = (header.source_addr(), header.destination_addr());
            (IpAddr::from(source), IpAddr::from(destination), ip.payload())
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else {
        return None;
    };
    Some(Frame {
        source: (source, tcp.source_port()).into(),
        destination: (destination, tcp.destination_port()).into(),
        sequence: tcp.sequence_number(),
        acknowledged: tcp.ack().then(|| tcp.acknowledgment_number()),
        syn: tcp.syn(),
        fin: tcp.fin(),
        rst: tcp.rst(),
        payload: tcp.payload(),
        is_cut: ip.incomplete,
    })
}
