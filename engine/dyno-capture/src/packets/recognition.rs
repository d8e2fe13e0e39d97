//! What a segment begins with, where nothing is known of its connection.

use dyno_mysql::constants::command;
use dyno_mysql::{payload_length, Compression};

const HEADER: usize = 4;
const COMPRESSED_HEADER: usize = 7;
/// A command of several segments fills its first one.
const FULL_SEGMENT: usize = 500;
const LONGEST_TLS_RECORD: u16 = 16_640;
/// How compressed data begin.
const ZLIB_MARK: u8 = 0x78;
const ZSTD_MARK: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The levels do not count here.
pub const ZLIB: Compression = Compression::Zlib { level: 6 };
pub const ZSTD: Compression = Compression::Zstd { level: 3 };

/// What it is.
#[derive(Debug, PartialEq)]
pub enum Recognised {
    Tls,
    Command,
    Compressed(Compression),
}

/// What a client's segment begins with.
pub fn recognise(data: &[u8], is_compressed: bool) -> Option<Recognised> {
    if let [0x14..=0x17, 3, 0..=4, high, low, ..] = *data {
        if u16::from_be_bytes([high, low]) <= LONGEST_TLS_RECORD {
            return Some(Recognised::Tls);
        }
    }
    if !is_compressed && is_command(data) {
        return Some(Recognised::Command);
    }
    let (header, frame) = data.split_at_checked(COMPRESSED_HEADER)?;
    if header[3] != 0 || payload_length(header) != frame.len() {
        return None;
    }
    let is_raw = payload_length(&header[4..]) == 0;
    match frame {
        [ZLIB_MARK, ..] if !is_raw => Some(Recognised::Compressed(ZLIB)),
        _ if !is_raw && frame.starts_with(&ZSTD_MARK) => Some(Recognised::Compressed(ZSTD)),
        _ if is_raw && is_command(frame) => Some(Recognised::Compressed(ZLIB)),
        _ => None,
    }
}

/// Whether these are packets, each with a command, or the beginning of a long one.
fn is_command(data: &[u8]) -> bool {
    let [_, _, _, 0, number, ..] = *data else {
        return false;
    };
    let end = HEADER + payload_length(data);
    let is_known = matches!(number, command::QUIT..=command::CLONE | command::STMT_BULK_EXECUTE);
    let is_long = matches!(
        number,
        command::QUERY
            | command::STMT_PREPARE
            | command::STMT_EXECUTE
            | command::STMT_SEND_LONG_DATA
            | command::STMT_BULK_EXECUTE
    );
    match data.len().checked_sub(end) {
        _ if !is_known || end == HEADER => false,
        Some(0) => true,
        Some(_) => is_command(&data[end..]),
        None => is_long && data.len() >= FULL_SEGMENT,
    }
}
