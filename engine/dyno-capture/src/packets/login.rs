//! How connections begin: what a segment begins with where nothing is known of its connection, a client's answer to the
//! server's greeting, and COM_CHANGE_USER.

use dyno_mysql::constants::{capability, command};
use dyno_mysql::{payload_length, Compression, Error, Reader};

/// The length of a request for TLS: the beginning of an answer.
const TLS_REQUEST: usize = 32;

/// What a client has answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// What follows is encrypted.
    Tls,
    Login(Login),
}

/// Who logs in.
#[derive(Debug, PartialEq, Eq)]
pub struct Login {
    pub capabilities: u64,
    pub user: String,
    pub schema: Option<String>,
    pub charset: Option<&'static str>,
}

/// The character set of a collation's number; none of those that no client can have.
pub fn charset(collation: u8) -> Option<&'static str> {
    Some(match collation {
        1 | 84 => "big5",
        2 | 9 | 21 | 27 | 77 => "latin2",
        3 | 69 => "dec8",
        4 | 80 => "cp850",
        5 | 8 | 15 | 31 | 47..=49 | 94 => "latin1",
        6 | 72 => "hp8",
        7 | 74 => "koi8r",
        10 | 82 => "swe7",
        11 | 65 => "ascii",
        12 | 91 => "ujis",
        13 | 88 => "sjis",
        14 | 23 | 50..=52 => "cp1251",
        16 | 71 => "hebrew",
        18 | 89 => "tis620",
        19 | 85 => "euckr",
        20 | 41 | 42 | 79 => "latin7",
        22 | 75 => "koi8u",
        24 | 86 => "gb2312",
        25 | 70 => "greek",
        26 | 34 | 44 | 66 | 99 => "cp1250",
        28 | 87 => "gbk",
        29 | 58 | 59 => "cp1257",
        30 | 78 => "latin5",
        32 | 64 => "armscii8",
        33 | 76 | 83 | 192..=215 | 223 => "utf8",
        36 | 68 => "cp866",
        37 | 73 => "keybcs2",
        38 | 43 => "macce",
        39 | 53 => "macroman",
        40 | 81 => "cp852",
        45 | 46 | 224..=247 | 255 => "utf8mb4",
        57 | 67 => "cp1256",
        63 => "binary",
        92 | 93 => "geostd8",
        95 | 96 => "cp932",
        97 | 98 => "eucjpms",
        248..=250 => "gb18030",
        _ => return None,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether it is the name of a character set that a client can have.
pub fn is_charset(name: &str) -> bool {
    name == "utf8mb3" || (0..=u8::MAX).any(|collation| charset(collation) == Some(name))
}

/// Takes the answer to a greeting apart.
///
/// # Errors
/// When it is none.
pub fn answer(payload: &[u8]) -> Result<Answer, Error> {
    let mut reader = Reader::new(payload);
    let mut capabilities = u64::from(reader.u32("capabilities")?);
    reader.u32("longest packet")?;
    let charset = charset(reader.u8("character set")?);
    reader.bytes(19, "filler")?;
    let extended = reader.u32("extended capabilities")?;
    if capabilities & capability::MYSQL == 0 {
        capabilities |= u64::from(extended) << 32;
    }
    if capabilities & capability::SSL != 0 && payload.len() == TLS_REQUEST {
        return Ok(Answer::Tls);
    }
    let user = text(reader.until_zero());
    if capabilities & capability::PLUGIN_AUTH_LENENC_DATA != 0 {
        reader.length_encoded_bytes("authentication")?;
    } else if capabilities & capability::SECURE_CONNECTION != 0 {
        let length = reader.u8("length of the authentication")?;
        reader.bytes(length.into(), "authentication")?;
    } else {
        reader.until_zero();
    }
    let has_schema = capabilities & capability::CONNECT_WITH_DB != 0;
    let schema = has_schema
        .then(|| text(reader.until_zero()))
        .filter(|schema| !schema.is_empty());
    Ok(Answer::Login(Login {
        capabilities,
        user,
        schema,
        charset,
    }))
}

/// User, schema and character set of COM_CHANGE_USER, from what follows its number.
///
/// # Errors
/// When it ends early.
pub fn change(payload: &[u8]) -> Result<(String, Option<String>, Option<&'static str>), Error> {
    let mut reader = Reader::new(payload);
    let user = text(reader.until_zero());
    let length = reader.u8("length of the authentication")?;
    reader.bytes(length.into(), "authentication")?;
    let schema = Some(text(reader.until_zero())).filter(|schema| !schema.is_empty());
    // Old clients do not send it.
    let collation = reader.u16("character set").ok();
    let charset = collation.and_then(|number| charset(u8::try_from(number).unwrap_or(u8::MAX)));
    Ok((user, schema, charset))
}

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
