//! The statements of a session, those prepared with their parameters; and their text with their values in it, as servers
//! write it into the general log.

use std::collections::HashMap;
use std::io::Write as _;

use dyno_mysql::constants::{column_type, command};
use dyno_mysql::{Error, Reader, Value};

use crate::compound::first_end;
use crate::lexer::{tokens, Kind};

/// The bit of a parameter's type that says that it is unsigned.
const UNSIGNED: u16 = 0x8000;
/// Decimals since MySQL 5.0; those before have number 0.
const NEW_DECIMAL: u8 = 246;
const FIRST_BLOB: u8 = 249;
const LAST_BLOB: u8 = 252;
/// What servers write after a backslash in the place of a byte.
const ESCAPED: [(u8, u8); 6] = [
    (0, b'0'),
    (b'\'', b'\''),
    (b'\n', b'n'),
    (b'\r', b'r'),
    (b'\\', b'\\'),
    (0x1a, b'Z'),
];
/// What a parameter of a bulk execution has before its value, if it has one.
const HAS_VALUE: u8 = 0;
const IS_NULL: u8 = 1;
const BULK_SENDS_TYPES: u16 = 128;

/// A statement that a connection has prepared.
#[derive(Debug)]
pub struct Prepared {
    text: Vec<u8>,
    /// Where its placeholders are.
    places: Vec<usize>,
    types: Vec<u16>,
    /// Values that were sent before the execution, by the number of the parameter.
    pub long: HashMap<u16, Vec<u8>>,
}

impl Prepared {
    pub fn new(text: Vec<u8>) -> Self {
        let placeholders = tokens(&text).filter(|token| token.kind == Kind::Placeholder);
        Self {
            places: placeholders.map(|token| token.start).collect(),
            text,
            types: Vec::new(),
            long: HashMap::new(),
        }
    }

    /// The text of an execution, from what follows the iteration count; none where its values cannot be read.
    pub fn execution(&mut self, values: &[u8], has_attributes: bool, escapes: bool) -> Option<Vec<u8>> {
        let count = self.places.len();
        if count == 0 {
            return Some(self.text.clone());
        }
        let mut reader = Reader::new(values);
        let literals = read(&mut reader, count, has_attributes, &mut self.types, &self.long, escapes).ok()?;
        (reader.is_empty() && literals.len() >= count).then(|| self.filled(&literals))
    }

    /// The texts of MariaDB's execution of one statement with many sets of values, from its flags on.
    pub fn executions(&mut self, payload: &[u8], escapes: bool) -> Option<Vec<Vec<u8>>> {
        let mut reader = Reader::new(payload);
        if reader.u16("flags").ok()? & BULK_SENDS_TYPES != 0 {
            self.types = (self.places.iter().map(|_| reader.u16("type")))
                .collect::<Result<_, _>>()
                .ok()?;
        }
        let mut texts = Vec::new();
        while !reader.is_empty() && self.types.len() == self.places.len() && !self.places.is_empty() {
            let mut literals = Vec::new();
            for kind in &self.types {
                literals.push(match reader.u8("indicator").ok()? {
                    HAS_VALUE => value(&mut reader, *kind, escapes).ok()?,
                    IS_NULL => b"NULL".to_vec(),
                    _ => b"DEFAULT".to_vec(),
                });
            }
            texts.push(self.filled(&literals));
        }
        (!texts.is_empty()).then_some(texts)
    }

    fn filled(&self, literals: &[Vec<u8>]) -> Vec<u8> {
        let (mut text, mut end) = (Vec::new(), 0);
        for (place, literal) in self.places.iter().zip(literals) {
            text.extend_from_slice(&self.text[end..*place]);
            text.extend_from_slice(literal);
            end = place + 1;
        }
        text.extend_from_slice(&self.text[end..]);
        text
    }
}

/// The text of a query whose attributes stand before it.
pub fn after_attributes(payload: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(payload);
    let count = usize::try_from(reader.length_encoded("attributes").ok()?).ok()?;
    reader.length_encoded("sets of attributes").ok()?;
    if count > 0 {
        read_values(&mut reader, count, true, &mut Vec::new(), &HashMap::new(), true).ok()?;
    }
    Some(reader.rest())
}

/// Whether a query begins with the numbers of its attributes, and of their sets: one. No statement begins so.
pub fn begins_with_attributes(payload: &[u8]) -> bool {
    matches!(payload, [0..=8, 1, ..])
}

/// The values of an execution as literals, and those of its attributes after them.
fn read(
    reader: &mut Reader<'_>,
    mut count: usize,
    has_attributes: bool,
    types: &mut Vec<u16>,
    long: &HashMap<u16, Vec<u8>>,
    escapes: bool,
) -> Result<Vec<Vec<u8>>, Error> {
    if has_attributes {
        count = usize::try_from(reader.length_encoded("parameters")?).unwrap_or(usize::MAX);
    }
    read_values(reader, count, has_attributes, types, long, escapes)
}

fn read_values(
    reader: &mut Reader<'_>,
    count: usize,
    are_named: bool,
    types: &mut Vec<u16>,
    long: &HashMap<u16, Vec<u8>>,
    escapes: bool,
) -> Result<Vec<Vec<u8>>, Error> {
    let nulls = reader.bytes(count.div_ceil(8), "NULLs")?;
    if reader.u8("whether types follow")? == 1 {
        types.clear();
        for _ in 0..count {
            types.push(reader.u16("type")?);
            if are_named {
                reader.length_encoded_bytes("name")?;
            }
        }
    }
    let mut literals = Vec::new();
    for place in 0..count {
        // Attributes come after the parameters, and may have come without types that are known.
        let kind = types.get(place).copied().unwrap_or(column_type::NULL.into());
        let is_long = u16::try_from(place).ok().and_then(|place| long.get(&place));
        literals.push(match is_long {
            Some(bytes) => quoted(bytes, kind as u8, escapes),
            None if nulls[place / 8] & 1 << (place % 8) != 0 => b"NULL".to_vec(),
            None => value(reader, kind, escapes)?,
        });
    }
    Ok(literals)
}

fn value(reader: &mut Reader<'_>, kind: u16, escapes: bool) -> Result<Vec<u8>, Error> {
    let value = Value::read(reader, kind as u8, kind & UNSIGNED != 0)?;
    let mut out = Vec::new();
    // Writing to memory cannot fail.
    let _ = match value {
        Value::Null => write!(out, "NULL"),
        Value::Int(value) => write!(out, "{value}"),
        Value::Int32(value) => write!(out, "{value}"),
        Value::UInt(value) => write!(out, "{value}"),
        Value::Float(value) if value.is_finite() => write!(out, "{value:?}"),
        Value::Double(value) if value.is_finite() => write!(out, "{value:?}"),
        Value::Float(_) | Value::Double(_) => write!(out, "NULL"),
        Value::Bytes(bytes) => return Ok(quoted(bytes, kind as u8, escapes)),
        Value::DateTime(at) => {
            let _ = write!(out, "'{:04}-{:02}-{:02}", at.year, at.month, at.day);
            if kind as u8 != column_type::DATE {
                let _ = write!(out, " {:02}:{:02}:{:02}", at.hour, at.minute, at.second);
            }
            fraction(&mut out, at.microsecond)
        }
        Value::Time(time) => {
            let sign = if time.negative { "-" } else { "" };
            let hours = u64::from(time.days) * 24 + u64::from(time.hour);
            let _ = write!(out, "'{sign}{hours:02}:{:02}:{:02}", time.minute, time.second);
            fraction(&mut out, time.microsecond)
        }
    };
    Ok(out)
}

fn fraction(out: &mut Vec<u8>, microsecond: u32) -> std::io::Result<()> {
    match microsecond {
        0 => write!(out, "'"),
        _ => write!(out, ".{microsecond:06}'"),
    }
}

/// Bytes as a literal: decimals as numbers, BLOBs that are no text as hexadecimal digits, all else as a string.
fn quoted(bytes: &[u8], kind: u8, escapes: bool) -> Vec<u8> {
    let is_of_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    if matches!(kind, column_type::DECIMAL | NEW_DECIMAL) && !bytes.is_empty() && bytes.iter().all(is_of_number) {
        return bytes.to_vec();
    }
    let mut out = Vec::with_capacity(bytes.len() + 2);
    if (FIRST_BLOB..=LAST_BLOB).contains(&kind) && std::str::from_utf8(bytes).is_err() {
        out.extend_from_slice(b"x'");
        for byte in bytes {
            let _ = write!(out, "{byte:02x}");
        }
    } else {
        out.push(b'\'');
        for byte in bytes {
            match ESCAPED.iter().find(|(plain, _)| plain == byte) {
                Some((_, escaped)) if escapes => out.extend([b'\\', *escaped]),
                _ if *byte == b'\'' => out.extend(b"''"),
                _ => out.push(*byte),
            }
        }
    }
    out.push(b'\'');
    out
}

/// MariaDB's clients name the statement that they have prepared last so.
const LAST_PREPARED: u32 = u32::MAX;
/// The statement's number, cursor and iteration count.
const BEFORE_VALUES: usize = 9;

/// What is known of a connection's statements.
#[derive(Debug)]
pub struct Statements {
    /// Whether attributes may come with statements, once that is known.
    pub has_attributes: Option<bool>,
    /// Whether backslashes escape.
    pub escapes: bool,
    /// By numbers of our own: the server's come later.
    prepared: HashMap<u64, Prepared>,
    numbers: HashMap<u32, u64>,
    last: u64,
}

impl Default for Statements {
    fn default() -> Self {
        Self {
            has_attributes: None,
            escapes: true,
            prepared: HashMap::new(),
            numbers: HashMap::new(),
            last: 0,
        }
    }
}

impl Statements {
    /// The statements of a COM_QUERY, from what follows its number.
    pub fn texts(&mut self, payload: &[u8]) -> Option<Vec<Vec<u8>>> {
        let begins = begins_with_attributes(payload);
        let mut text = match begins && *self.has_attributes.get_or_insert(true) {
            true => after_attributes(payload)?,
            false => payload,
        };
        self.has_attributes.get_or_insert(begins);
        let mut texts = Vec::new();
        loop {
            let end = if text.contains(&b';') {
                first_end(text)
            } else {
                text.len()
            };
            texts.push(text[..end].trim_ascii().to_vec());
            text = text.get(end + 1..).unwrap_or_default();
            if text.trim_ascii().is_empty() {
                return Some(texts);
            }
        }
    }

    /// Takes the text of COM_STMT_PREPARE; returns its number until the server has replied.
    pub fn prepare(&mut self, text: &[u8]) -> u64 {
        self.last += 1;
        self.prepared.insert(self.last, Prepared::new(text.to_vec()));
        self.last
    }

    /// The server has prepared it under its own number, or not at all.
    pub fn reply(&mut self, own: u64, number: Option<u32>) {
        match number {
            Some(number) => drop(self.numbers.insert(number, own)),
            None => drop(self.prepared.remove(&own)),
        }
    }

    /// All prepared statements are gone.
    pub fn clear(&mut self) {
        self.prepared.clear();
        self.numbers.clear();
    }

    fn own(&self, payload: &[u8]) -> Option<u64> {
        match u32::from_le_bytes(*payload.first_chunk()?) {
            LAST_PREPARED => Some(self.last),
            number => self.numbers.get(&number).copied(),
        }
    }

    /// COM_STMT_CLOSE.
    pub fn close(&mut self, payload: &[u8]) {
        if let Some(own) = self.own(payload) {
            self.prepared.remove(&own);
        }
    }

    /// COM_STMT_RESET.
    pub fn reset(&mut self, payload: &[u8]) {
        if let Some(prepared) = self.own(payload).and_then(|own| self.prepared.get_mut(&own)) {
            prepared.long.clear();
        }
    }

    /// COM_STMT_SEND_LONG_DATA: a part of a value.
    pub fn long_data(&mut self, payload: &[u8]) {
        let prepared = self.own(payload).and_then(|own| self.prepared.get_mut(&own));
        let parameter = payload.get(4..).and_then(|rest| rest.split_first_chunk());
        if let (Some(prepared), Some((parameter, data))) = (prepared, parameter) {
            let value = prepared.long.entry(u16::from_le_bytes(*parameter)).or_default();
            value.extend_from_slice(data);
        }
    }

    /// The statements of an execution, with their values; none where they are not known.
    pub fn executed(&mut self, number: u8, payload: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (known, escapes) = (self.has_attributes, self.escapes);
        let own = self.own(payload)?;
        let prepared = self.prepared.get_mut(&own)?;
        if number == command::STMT_BULK_EXECUTE {
            return prepared.executions(payload.get(4..)?, escapes);
        }
        let values = payload.get(BEFORE_VALUES..)?;
        let tried = [known.unwrap_or(false), known.unwrap_or(true)];
        let text = tried
            .iter()
            .find_map(|has_attributes| prepared.execution(values, *has_attributes, escapes))?;
        prepared.long.clear();
        Some(vec![text])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_literals_of_their_types() {
        let literal = |bytes: &[u8], kind: u8| {
            let values = [&[0, 1, kind, 0, bytes.len() as u8], bytes].concat();
            let text = Prepared::new(b"SELECT ?".to_vec()).execution(&values, false, true);
            String::from_utf8_lossy(&text.unwrap()).into_owned()
        };
        assert_eq!(literal(b"-12.50", 246), "SELECT -12.50");
        assert_eq!(literal(b"\x00\xff", 252), "SELECT x'00ff'");
        assert_eq!(literal(b"text", 252), "SELECT 'text'");
        let mut bulk = Prepared::new(b"INSERT INTO t VALUES (?, ?)".to_vec());
        let rows = bulk
            .executions(b"\x80\0\x01\0\xfd\0\0\x07\0\x02ab\x02\x01", true)
            .unwrap();
        assert_eq!(
            rows,
            [
                b"INSERT INTO t VALUES (7, 'ab')".to_vec(),
                b"INSERT INTO t VALUES (DEFAULT, NULL)".to_vec()
            ]
        );
        assert_eq!(bulk.executions(b"\x80\0\x01\0\xfd\0\0", true), None);
    }
}
