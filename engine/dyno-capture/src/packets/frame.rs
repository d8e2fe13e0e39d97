//! What of a packet is TCP: from the link layer to the payload.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::Linktype;

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
