//! The binary protocol (BinaryProtocolRevamped in memcached's wiki; deprecated as of memcached 1.6.0). Frames of 24 bytes
//! and a body, big-endian. Quiet requests carry an opaque above 0.

use crate::event::{readable, Detail, Error, ServerError, Status};
use crate::intake::Measure;
use crate::request::{Arithmetic, Expected, Item, Kind, Step, Store};
use crate::text::whole;

const NAME: &str = "binary";
const HEADER: usize = 24;
const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
/// Longest body that is taken for one: memcached's items end at 1 GiB.
const LONGEST_BODY: usize = (1 << 30) + 1024;
/// incr of an item that is not there fails rather than makes it.
const NO_INITIAL: u32 = 0xffff_ffff;

mod opcode {
    pub const GET: u8 = 0x00;
    pub const SET: u8 = 0x01;
    pub const ADD: u8 = 0x02;
    pub const REPLACE: u8 = 0x03;
    pub const DELETE: u8 = 0x04;
    pub const INCREMENT: u8 = 0x05;
    pub const DECREMENT: u8 = 0x06;
    pub const FLUSH: u8 = 0x08;
    pub const NOOP: u8 = 0x0a;
    pub const VERSION: u8 = 0x0b;
    pub const GET_KEY_QUIET: u8 = 0x0d;
    pub const STAT: u8 = 0x10;
    pub const TOUCH: u8 = 0x1c;
    /// From a request to its quiet twin, for SET to DECREMENT.
    pub const QUIET: u8 = 0x10;
}

mod status {
    pub const SUCCESS: u16 = 0;
    pub const NOT_FOUND: u16 = 1;
    pub const EXISTS: u16 = 2;
    pub const NOT_STORED: u16 = 5;
}

struct Frame<'a> {
    opcode: u8,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    opaque: u32,
    cas: u64,
}

#[inline]
fn push(out: &mut Vec<u8>, frame: &Frame<'_>) {
    let body = frame.extras.len() + frame.key.len() + frame.value.len();
    let mut header = [0u8; HEADER];
    header[0] = REQUEST;
    header[1] = frame.opcode;
    header[2..4].copy_from_slice(&(frame.key.len() as u16).to_be_bytes());
    header[4] = frame.extras.len() as u8;
    header[8..12].copy_from_slice(&(body as u32).to_be_bytes());
    header[12..16].copy_from_slice(&frame.opaque.to_be_bytes());
    header[16..24].copy_from_slice(&frame.cas.to_be_bytes());
    out.reserve(HEADER + body);
    out.extend_from_slice(&header);
    out.extend_from_slice(frame.extras);
    out.extend_from_slice(frame.key);
    out.extend_from_slice(frame.value);
}

#[inline]
fn push_key(out: &mut Vec<u8>, opcode: u8, extras: &[u8], key: &[u8], sequence: Option<u32>) {
    push(
        out,
        &Frame {
            opcode: quiet(opcode, sequence),
            extras,
            key,
            value: &[],
            opaque: sequence.unwrap_or(0),
            cas: 0,
        },
    );
}

fn quiet(opcode: u8, sequence: Option<u32>) -> u8 {
    opcode + if sequence.is_some() { opcode::QUIET } else { 0 }
}

/// Get.
#[inline]
pub fn get(out: &mut Vec<u8>, key: &[u8]) {
    push_key(out, opcode::GET, &[], key, None);
}

/// GetKQ: a miss says nothing.
#[inline]
pub fn quiet_get(out: &mut Vec<u8>, key: &[u8]) {
    push_key(out, opcode::GET_KEY_QUIET, &[], key, None);
}

/// Set, Add or Replace; with a cas value a Set that compares.
#[inline]
pub fn store(out: &mut Vec<u8>, store: Store, item: &Item<'_>, sequence: Option<u32>) {
    let (opcode, cas) = match store {
        Store::Set => (opcode::SET, 0),
        Store::Add => (opcode::ADD, 0),
        Store::Replace => (opcode::REPLACE, 0),
        Store::Cas(cas) => (opcode::SET, cas),
    };
    let mut extras = [0u8; 8];
    extras[..4].copy_from_slice(&item.flags.to_be_bytes());
    extras[4..].copy_from_slice(&item.ttl_s.to_be_bytes());
    push(
        out,
        &Frame {
            opcode: quiet(opcode, sequence),
            extras: &extras,
            key: item.key,
            value: item.value,
            opaque: sequence.unwrap_or(0),
            cas,
        },
    );
}

/// Delete.
pub fn delete(out: &mut Vec<u8>, key: &[u8], sequence: Option<u32>) {
    push_key(out, opcode::DELETE, &[], key, sequence);
}

/// Increment or Decrement, without an initial value.
pub fn arithmetic(out: &mut Vec<u8>, operation: Arithmetic, key: &[u8], delta: u64, sequence: Option<u32>) {
    let opcode = match operation {
        Arithmetic::Increment => opcode::INCREMENT,
        Arithmetic::Decrement => opcode::DECREMENT,
    };
    let mut extras = [0u8; 20];
    extras[..8].copy_from_slice(&delta.to_be_bytes());
    extras[16..].copy_from_slice(&NO_INITIAL.to_be_bytes());
    push_key(out, opcode, &extras, key, sequence);
}

/// Touch.
pub fn touch(out: &mut Vec<u8>, key: &[u8], ttl_s: u32) {
    push_key(out, opcode::TOUCH, &ttl_s.to_be_bytes(), key, None);
}

/// Flush, at once.
pub fn flush_all(out: &mut Vec<u8>) {
    push_key(out, opcode::FLUSH, &[], &[], None);
}

/// Stat.
pub fn stats(out: &mut Vec<u8>, group: &[u8]) {
    push_key(out, opcode::STAT, &[], group, None);
}

/// Version.
pub fn version(out: &mut Vec<u8>) {
    push_key(out, opcode::VERSION, &[], &[], None);
}

/// No-op.
pub fn noop(out: &mut Vec<u8>) {
    push_key(out, opcode::NOOP, &[], &[], None);
}

/// The head of a reply.
struct Reply {
    opcode: u8,
    key: usize,
    extras: usize,
    status: u16,
    body: usize,
    opaque: u32,
    cas: u64,
}

/// Reads the head; `None` when it is not all there.
#[inline]
fn head(bytes: &[u8]) -> Result<Option<Reply>, Error> {
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return match bytes.first() {
            Some(&magic) if magic != RESPONSE => Err(Error::malformed(NAME, bytes)),
            _ => Ok(None),
        };
    };
    let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let long = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let reply = Reply {
        opcode: header[1],
        key: usize::from(short(2)),
        extras: usize::from(header[4]),
        status: short(6),
        body: long(8) as usize,
        opaque: long(12),
        cas: u64::from(long(16)) << 32 | u64::from(long(20)),
    };
    if header[0] != RESPONSE || reply.body > LONGEST_BODY || reply.key + reply.extras > reply.body {
        return Err(Error::malformed(NAME, header));
    }
    Ok(Some(reply))
}

/// Whether the body of this reply need not be in one piece: the value that a get found and nobody looks at.
#[inline]
fn skippable(expected: Option<&Expected>, reply: &Reply) -> bool {
    reply.status == status::SUCCESS
        && matches!(reply.opcode, opcode::GET | opcode::GET_KEY_QUIET)
        && expected.is_some_and(|expected| expected.detail == Detail::Skip)
}

/// The length of the first unit: a frame, or its head alone where the body will be skipped.
///
/// # Errors
/// When it is no head of a reply.
#[inline]
pub fn measure(expected: Option<&Expected>, bytes: &[u8]) -> Result<Measure, Error> {
    match head(bytes)? {
        None => Ok(Measure::Bytes(HEADER)),
        Some(reply) if skippable(expected, &reply) => Ok(Measure::Complete(HEADER)),
        Some(reply) => Ok(whole(HEADER + reply.body, bytes)),
    }
}

/// What a unit means.
///
/// # Errors
/// When it is no reply to the request.
#[inline]
pub fn interpret(expected: Option<&Expected>, unit: &[u8]) -> Result<Step, Error> {
    let foreign = || Error::malformed(NAME, unit);
    let reply = head(unit)?.ok_or_else(foreign)?;
    if reply.opaque != 0 {
        return failure(&reply, unit).map_or_else(
            || Err(foreign()),
            |status| match status {
                Ok(status) => Ok(Step::QuietFailed(status)),
                Err(_) => Ok(Step::QuietFailed(Status::NotStored)),
            },
        );
    }
    let expected = expected.ok_or_else(foreign)?;
    if !answers(expected.kind, reply.opcode) {
        return Err(foreign());
    }
    match failure(&reply, unit) {
        Some(Ok(status)) => return Ok(Step::Done(status)),
        Some(Err(error)) => return Ok(Step::Failed(error)),
        None => {}
    }
    let value = HEADER + reply.extras + reply.key;
    match (expected.kind, reply.opcode) {
        (Kind::Get | Kind::MultiGet, opcode::GET | opcode::GET_KEY_QUIET) => found(expected, &reply, unit),
        (Kind::Arithmetic, _) => match unit.get(value..).and_then(|body| body.first_chunk::<8>()) {
            Some(number) => Ok(Step::Done(Status::Number(u64::from_be_bytes(*number)))),
            None => Err(foreign()),
        },
        (Kind::Stats, _) if reply.key > 0 => Ok(Step::Stat {
            name: HEADER + reply.extras..value,
            value: value..unit.len(),
        }),
        (Kind::Version, _) => Ok(Step::Version(value..unit.len())),
        _ => Ok(Step::Done(Status::Success)),
    }
}

fn answers(kind: Kind, opcode: u8) -> bool {
    match kind {
        Kind::Get => opcode == opcode::GET,
        Kind::MultiGet => matches!(opcode, opcode::GET_KEY_QUIET | opcode::NOOP),
        Kind::Store => matches!(opcode, opcode::SET | opcode::ADD | opcode::REPLACE),
        Kind::Delete => opcode == opcode::DELETE,
        Kind::Arithmetic => matches!(opcode, opcode::INCREMENT | opcode::DECREMENT),
        Kind::Touch => opcode == opcode::TOUCH,
        Kind::Flush => opcode == opcode::FLUSH,
        Kind::Stats => opcode == opcode::STAT,
        Kind::Version => opcode == opcode::VERSION,
        Kind::Noop => opcode == opcode::NOOP,
    }
}

/// What a status above 0 means: a normal answer, or a refusal.
fn failure(reply: &Reply, unit: &[u8]) -> Option<Result<Status, ServerError>> {
    Some(match reply.status {
        status::SUCCESS => return None,
        status::NOT_FOUND => Ok(Status::NotFound),
        status::EXISTS => Ok(Status::Exists),
        status::NOT_STORED => Ok(Status::NotStored),
        code => Err(ServerError {
            status: Some(code),
            message: format!(
                "status 0x{code:04x}: {}",
                readable(unit.get(HEADER..).unwrap_or_default())
            ),
        }),
    })
}

fn found(expected: &Expected, reply: &Reply, unit: &[u8]) -> Result<Step, Error> {
    if expected.hits >= expected.keys {
        return Err(Error::malformed(NAME, unit));
    }
    let last = expected.kind == Kind::Get;
    if expected.detail == Detail::Skip {
        return Ok(Step::Skip {
            data: reply.body,
            trailer: false,
            last,
        });
    }
    let key = HEADER + reply.extras..HEADER + reply.extras + reply.key;
    let flags = unit[HEADER..key.start]
        .first_chunk::<4>()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes));
    Ok(Step::Value {
        data: key.end..unit.len(),
        key,
        flags,
        cas: Some(reply.cas),
        last,
    })
}
