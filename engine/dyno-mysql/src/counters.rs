//! What went over one connection, at each layer.

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
