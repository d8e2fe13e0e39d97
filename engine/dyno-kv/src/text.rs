//! The text protocol: doc/protocol.txt of memcached 1.6.18.

use std::ops::Range;

use crate::event::{Detail, Error, ServerError, Status};
use crate::intake::Measure;
use crate::request::{Arithmetic, Expected, Item, Kind, Step, Store};

const NAME: &str = "text";
/// Longest line that is taken for one; memcached's own are below 3 KB.
const LONGEST_LINE: usize = 8 * 1024;
/// Longest value that is taken for one; memcached's items end at 1 GiB.
const LONGEST_VALUE: u64 = 1 << 30;

/// `get key` or `gets key`.
#[inline]
pub fn get(out: &mut Vec<u8>, key: &[u8], cas: bool) {
    out.extend_from_slice(if cas { b"gets " } else { b"get " });
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

/// One more key of a get.
#[inline]
pub fn another_key(out: &mut Vec<u8>, key: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(key);
}

/// `set key flags ttl bytes [cas] [noreply]` and the value.
#[inline]
pub fn store(out: &mut Vec<u8>, store: Store, item: &Item<'_>, quiet: bool) {
    out.reserve(item.key.len() + item.value.len() + 80);
    out.extend_from_slice(match store {
        Store::Set => b"set ",
        Store::Add => b"add ",
        Store::Replace => b"replace ",
        Store::Cas(_) => b"cas ",
    });
    out.extend_from_slice(item.key);
    for value in [u64::from(item.flags), u64::from(item.ttl_s), item.value.len() as u64] {
        out.push(b' ');
        push(out, value);
    }
    if let Store::Cas(cas) = store {
        out.push(b' ');
        push(out, cas);
    }
    end(out, quiet);
    out.extend_from_slice(item.value);
    out.extend_from_slice(b"\r\n");
}

/// `delete key [noreply]`.
pub fn delete(out: &mut Vec<u8>, key: &[u8], quiet: bool) {
    out.extend_from_slice(b"delete ");
    out.extend_from_slice(key);
    end(out, quiet);
}

/// `incr key delta [noreply]`.
pub fn arithmetic(out: &mut Vec<u8>, operation: Arithmetic, key: &[u8], delta: u64, quiet: bool) {
    out.extend_from_slice(match operation {
        Arithmetic::Increment => b"incr ",
        Arithmetic::Decrement => b"decr ",
    });
    out.extend_from_slice(key);
    out.push(b' ');
    push(out, delta);
    end(out, quiet);
}

/// `touch key ttl`.
pub fn touch(out: &mut Vec<u8>, key: &[u8], ttl_s: u32) {
    out.extend_from_slice(b"touch ");
    out.extend_from_slice(key);
    out.push(b' ');
    push(out, u64::from(ttl_s));
    end(out, false);
}

/// `stats [group]`.
pub fn stats(out: &mut Vec<u8>, group: &[u8]) {
    out.extend_from_slice(b"stats");
    if !group.is_empty() {
        another_key(out, group);
    }
    end(out, false);
}

fn end(out: &mut Vec<u8>, quiet: bool) {
    out.extend_from_slice(if quiet { b" noreply\r\n" } else { b"\r\n" });
}

/// The first line without its CR LF; `None` when its end is not there.
///
/// # Errors
/// When it is longer than any line, or ends in a bare line feed.
#[inline]
pub fn first_line<'a>(bytes: &'a [u8], protocol: &'static str) -> Result<Option<&'a [u8]>, Error> {
    match memchr::memchr(b'\n', bytes) {
        Some(at) if at > 0 && bytes[at - 1] == b'\r' && at <= LONGEST_LINE => Ok(Some(&bytes[..at - 1])),
        None if bytes.len() <= LONGEST_LINE => Ok(None),
        _ => Err(Error::malformed(protocol, bytes)),
    }
}

/// The length of the first unit: a line, with its data where the caller wants that in one piece.
///
/// # Errors
/// When the line is not the protocol's.
#[inline]
pub fn measure(expected: Option<&Expected>, bytes: &[u8]) -> Result<Measure, Error> {
    let Some(line) = first_line(bytes, NAME)? else {
        return Ok(Measure::Line);
    };
    let with_data = expected.is_some_and(|expected| expected.detail == Detail::Deliver);
    if with_data && line.starts_with(b"VALUE ") {
        let value = value_line(line)?;
        return Ok(whole(line.len() + 2 + value.length + 2, bytes));
    }
    Ok(Measure::Complete(line.len() + 2))
}

/// A unit of known length, there or not.
pub fn whole(length: usize, bytes: &[u8]) -> Measure {
    if bytes.len() >= length {
        Measure::Complete(length)
    } else {
        Measure::Bytes(length)
    }
}

struct ValueLine {
    key: Range<usize>,
    flags: u32,
    length: usize,
    cas: Option<u64>,
}

/// `VALUE key flags bytes [cas]`.
#[inline]
fn value_line(line: &[u8]) -> Result<ValueLine, Error> {
    let parse = || {
        let key_end = 6 + memchr::memchr(b' ', &line[6..])?;
        let mut fields = line[key_end + 1..].split(|byte| *byte == b' ');
        let value = ValueLine {
            key: 6..key_end,
            flags: u32::try_from(parse(fields.next()?)?).ok()?,
            length: parse(fields.next()?).filter(|length| *length <= LONGEST_VALUE)? as usize,
            cas: match fields.next() {
                Some(field) => Some(parse(field)?),
                None => None,
            },
        };
        fields.next().is_none().then_some(value)
    };
    parse().ok_or_else(|| Error::malformed(NAME, line))
}

/// What a unit means.
///
/// # Errors
/// When it is no reply to the request.
#[inline]
pub fn interpret(expected: Option<&Expected>, unit: &[u8]) -> Result<Step, Error> {
    let foreign = || Error::malformed(NAME, unit);
    let (Some(expected), Some(line)) = (expected, first_line(unit, NAME)?) else {
        return Err(foreign());
    };
    if matches!(expected.kind, Kind::Get | Kind::MultiGet) {
        if line.starts_with(b"VALUE ") {
            return value(expected, line, unit);
        }
        if line == b"END" {
            let missed = expected.kind == Kind::Get && expected.hits == 0;
            return Ok(Step::Done(if missed { Status::NotFound } else { Status::Success }));
        }
    } else if let Some(step) = simple(expected.kind, line) {
        return Ok(step);
    }
    refusal(line).ok_or_else(foreign)
}

fn value(expected: &Expected, line: &[u8], unit: &[u8]) -> Result<Step, Error> {
    let value = value_line(line)?;
    // A server that sends more than was asked for would shift every later reply.
    if expected.hits >= expected.keys {
        return Err(Error::malformed(NAME, line));
    }
    if expected.detail == Detail::Skip {
        return Ok(Step::Skip {
            data: value.length,
            trailer: true,
            last: false,
        });
    }
    let start = line.len() + 2;
    let data = start..start + value.length;
    if &unit[data.end..] != b"\r\n" {
        return Err(Error::malformed(NAME, &unit[data.end..]));
    }
    Ok(Step::Value {
        key: value.key,
        flags: value.flags,
        cas: value.cas,
        data,
        last: false,
    })
}

/// The replies of every request but get; `None` when it is none of them.
pub fn simple(kind: Kind, line: &[u8]) -> Option<Step> {
    let status = match (kind, line) {
        (Kind::Store, b"STORED")
        | (Kind::Delete, b"DELETED")
        | (Kind::Touch, b"TOUCHED")
        | (Kind::Flush, b"OK")
        | (Kind::Stats, b"END" | b"RESET") => Status::Success,
        (Kind::Store, b"NOT_STORED") => Status::NotStored,
        (Kind::Store, b"EXISTS") => Status::Exists,
        (Kind::Store | Kind::Delete | Kind::Touch | Kind::Arithmetic, b"NOT_FOUND") => Status::NotFound,
        (Kind::Arithmetic, digits) => Status::Number(parse(digits.trim_ascii_end())?),
        (Kind::Noop, line) if line.starts_with(b"VERSION ") => Status::Success,
        (Kind::Version, line) if line.starts_with(b"VERSION ") => return Some(Step::Version(8..line.len())),
        (Kind::Stats, line) => return stat(line),
        _ => return None,
    };
    Some(Step::Done(status))
}

/// `STAT name value`; the value may hold spaces, or be empty.
fn stat(line: &[u8]) -> Option<Step> {
    let rest = line.strip_prefix(b"STAT ")?;
    let name = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    Some(Step::Stat {
        name: 5..5 + name,
        value: (5 + name + 1).min(line.len())..line.len(),
    })
}

/// `ERROR`, `CLIENT_ERROR …`, `SERVER_ERROR …`.
#[cold]
pub fn refusal(line: &[u8]) -> Option<Step> {
    let known = line == b"ERROR" || line.starts_with(b"CLIENT_ERROR") || line.starts_with(b"SERVER_ERROR");
    known.then(|| {
        Step::Failed(ServerError {
            status: None,
            message: String::from_utf8_lossy(line).into_owned(),
        })
    })
}

/// Appends a number in decimal.
#[inline]
pub fn push(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Reads a whole field as a decimal number; `None` when it is none, or above 2^64 - 1.
#[inline]
pub fn parse(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut value = 0u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_and_nothing_else_is_one() {
        for value in [0, 9, 10, 1024, u64::from(u32::MAX), u64::MAX] {
            let mut text = Vec::new();
            push(&mut text, value);
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(parse(&text), Some(value));
        }
        for wrong in ["", "-1", "1 ", "0x1", "18446744073709551616", "999999999999999999999"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
