//! The meta commands: mg, ms, md, ma, mn of memcached 1.6 (doc/protocol.txt). Quiet requests carry an opaque, by which
//! their failures are known.

use crate::event::{Detail, Error, Status};
use crate::intake::Measure;
use crate::request::{Arithmetic, Expected, Item, Kind, Step, Store};
use crate::text::{self, first_line, refusal, simple, whole};

const NAME: &str = "meta";
const LONGEST_VALUE: u64 = 1 << 30;

/// `mg key v`, with flags and cas where asked.
#[inline]
pub fn get(out: &mut Vec<u8>, key: &[u8], cas: bool) {
    out.extend_from_slice(b"mg ");
    out.extend_from_slice(key);
    out.extend_from_slice(if cas { b" f c v\r\n" } else { b" v\r\n" });
}

/// `mg key k v q`: a miss says nothing.
#[inline]
pub fn quiet_get(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"mg ");
    out.extend_from_slice(key);
    out.extend_from_slice(b" k v q\r\n");
}

/// `ms key bytes` and the value.
#[inline]
pub fn store(out: &mut Vec<u8>, store: Store, item: &Item<'_>, sequence: Option<u32>) {
    out.reserve(item.key.len() + item.value.len() + 96);
    out.extend_from_slice(b"ms ");
    out.extend_from_slice(item.key);
    out.push(b' ');
    text::push(out, item.value.len() as u64);
    for (flag, value) in [(b'F', item.flags), (b'T', item.ttl_s)] {
        if value != 0 {
            out.extend_from_slice(&[b' ', flag]);
            text::push(out, u64::from(value));
        }
    }
    match store {
        Store::Set => {}
        Store::Add => out.extend_from_slice(b" ME"),
        Store::Replace => out.extend_from_slice(b" MR"),
        Store::Cas(cas) => {
            out.extend_from_slice(b" C");
            text::push(out, cas);
        }
    }
    end(out, sequence);
    out.extend_from_slice(item.value);
    out.extend_from_slice(b"\r\n");
}

/// `md key`.
pub fn delete(out: &mut Vec<u8>, key: &[u8], sequence: Option<u32>) {
    out.extend_from_slice(b"md ");
    out.extend_from_slice(key);
    end(out, sequence);
}

/// `ma key v`.
pub fn arithmetic(out: &mut Vec<u8>, operation: Arithmetic, key: &[u8], delta: u64, sequence: Option<u32>) {
    out.extend_from_slice(b"ma ");
    out.extend_from_slice(key);
    if operation == Arithmetic::Decrement {
        out.extend_from_slice(b" MD");
    }
    out.extend_from_slice(b" v D");
    text::push(out, delta);
    end(out, sequence);
}

/// `mg key T…`: a new time to live, without the value.
pub fn touch(out: &mut Vec<u8>, key: &[u8], ttl_s: u32) {
    out.extend_from_slice(b"mg ");
    out.extend_from_slice(key);
    out.extend_from_slice(b" T");
    text::push(out, u64::from(ttl_s));
    end(out, None);
}

fn end(out: &mut Vec<u8>, sequence: Option<u32>) {
    if let Some(sequence) = sequence {
        out.extend_from_slice(b" q O");
        text::push(out, u64::from(sequence));
    }
    out.extend_from_slice(b"\r\n");
}

/// The length of the first unit: a line, with its data where the caller needs that in one piece.
///
/// # Errors
/// When the line is not the protocol's.
#[inline]
pub fn measure(expected: Option<&Expected>, bytes: &[u8]) -> Result<Measure, Error> {
    let Some(line) = first_line(bytes, NAME)? else {
        return Ok(Measure::Line);
    };
    let with_data = expected
        .is_some_and(|expected| expected.detail == Detail::Deliver || matches!(expected.kind, Kind::Arithmetic));
    if with_data && line.starts_with(b"VA ") {
        return Ok(whole(line.len() + 2 + data_length(line)? + 2, bytes));
    }
    Ok(Measure::Complete(line.len() + 2))
}

/// The length in `VA length flags…`.
#[inline]
fn data_length(line: &[u8]) -> Result<usize, Error> {
    let field = line[3..].split(|byte| *byte == b' ').next();
    field
        .and_then(text::parse)
        .filter(|length| *length <= LONGEST_VALUE)
        .map(|length| length as usize)
        .ok_or_else(|| Error::malformed(NAME, line))
}

/// Where the argument of a flag stands in a line.
fn flag(line: &[u8], name: u8) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    for (position, field) in line.split(|byte| *byte == b' ').enumerate() {
        if position > 0 && field.first() == Some(&name) {
            return Some(at + 1..at + field.len());
        }
        at += field.len() + 1;
    }
    None
}

/// What a unit means.
///
/// # Errors
/// When it is no reply to the request.
#[inline]
pub fn interpret(expected: Option<&Expected>, unit: &[u8]) -> Result<Step, Error> {
    let foreign = || Error::malformed(NAME, unit);
    let Some(line) = first_line(unit, NAME)? else {
        return Err(foreign());
    };
    let code = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    if matches!(code, b"NS" | b"EX" | b"NF") && flag(line, b'O').is_some() {
        return Ok(Step::QuietFailed(status_of(code)));
    }
    let Some(expected) = expected else {
        return Err(foreign());
    };
    let step = match (expected.kind, code) {
        (Kind::Get | Kind::MultiGet, b"VA") => Some(value(expected, line, unit)?),
        (Kind::Get, b"EN") | (Kind::Touch, b"EN") => Some(Step::Done(Status::NotFound)),
        (Kind::MultiGet | Kind::Noop, b"MN") => Some(Step::Done(Status::Success)),
        (Kind::Store | Kind::Delete | Kind::Touch, b"HD") => Some(Step::Done(Status::Success)),
        (Kind::Store | Kind::Delete | Kind::Arithmetic, b"NS" | b"EX" | b"NF") => Some(Step::Done(status_of(code))),
        (Kind::Arithmetic, b"VA") => {
            text::parse(data(line, unit)?.1.trim_ascii_end()).map(|value| Step::Done(Status::Number(value)))
        }
        (Kind::Flush | Kind::Stats | Kind::Version, _) => simple(expected.kind, line),
        _ => None,
    };
    step.or_else(|| refusal(line)).ok_or_else(foreign)
}

fn status_of(code: &[u8]) -> Status {
    match code {
        b"NS" => Status::NotStored,
        b"EX" => Status::Exists,
        _ => Status::NotFound,
    }
}

fn data<'a>(line: &[u8], unit: &'a [u8]) -> Result<(std::ops::Range<usize>, &'a [u8]), Error> {
    let start = line.len() + 2;
    let range = start..start + data_length(line)?;
    match unit.get(range.clone()) {
        Some(bytes) if &unit[range.end..] == b"\r\n" => Ok((range, bytes)),
        _ => Err(Error::malformed(NAME, unit)),
    }
}

fn value(expected: &Expected, line: &[u8], unit: &[u8]) -> Result<Step, Error> {
    let last = expected.kind == Kind::Get;
    if expected.hits >= expected.keys {
        return Err(Error::malformed(NAME, line));
    }
    if expected.detail == Detail::Skip {
        return Ok(Step::Skip {
            data: data_length(line)?,
            trailer: true,
            last,
        });
    }
    let number_of = |name: u8| match flag(line, name) {
        Some(range) => text::parse(&line[range])
            .map(Some)
            .ok_or_else(|| Error::malformed(NAME, line)),
        None => Ok(None),
    };
    Ok(Step::Value {
        key: flag(line, b'k').unwrap_or(0..0),
        flags: number_of(b'f')?.unwrap_or(0) as u32,
        cas: number_of(b'c')?,
        data: data(line, unit)?.0,
        last,
    })
}
