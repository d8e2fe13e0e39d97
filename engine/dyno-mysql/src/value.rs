//! Values: parameters of prepared statements, and what rows hold.

use crate::constants::column_type as t;
use crate::error::Error;
use crate::packet::{put_bytes, Reader};

/// A date with its time of day, as the server keeps it (no zone; "0000-00-00" is all zeros).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the field names say all
pub struct DateTime {
    pub year: u16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub microsecond: u32,
}

/// A span of time, or a time of day: up to ±838:59:59.999999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the field names say all
pub struct Time {
    pub negative: bool,
    pub days: u32,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub microsecond: u32,
}

/// One value. Text rows hold only `Null` and `Bytes`; binary rows hold each column's own type
/// (decimals, strings, JSON and bit fields as `Bytes`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// Any signed integer; as a parameter a BIGINT.
    Int(i64),
    /// Only as a parameter: an INT of four bytes, what C programs bind most.
    Int32(i32),
    /// Any unsigned integer; as a parameter a BIGINT UNSIGNED.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// Text or bytes.
    Bytes(&'a [u8]),
    /// DATE, DATETIME, TIMESTAMP.
    DateTime(DateTime),
    /// TIME.
    Time(Time),
}

/// Set in the second byte of a parameter's type when it is unsigned.
const UNSIGNED: u16 = 0x8000;

impl<'a> Value<'a> {
    /// The type word that a parameter of this value is announced with.
    #[inline]
    pub(crate) fn parameter_type(&self) -> u16 {
        match self {
            Value::Null => t::NULL as u16,
            Value::Int(_) => t::LONGLONG as u16,
            Value::Int32(_) => t::LONG as u16,
            Value::UInt(_) => t::LONGLONG as u16 | UNSIGNED,
            Value::Float(_) => t::FLOAT as u16,
            Value::Double(_) => t::DOUBLE as u16,
            Value::Bytes(_) => t::VAR_STRING as u16,
            Value::DateTime(_) => t::DATETIME as u16,
            Value::Time(_) => t::TIME as u16,
        }
    }

    /// Appends the value as a parameter; NULL takes no room.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Value::Null => {}
            Value::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Int32(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::UInt(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Bytes(value) => put_bytes(out, value),
            Value::DateTime(v) => {
                out.push(11);
                out.extend_from_slice(&v.year.to_le_bytes());
                out.extend_from_slice(&[v.month, v.day, v.hour, v.minute, v.second]);
                out.extend_from_slice(&v.microsecond.to_le_bytes());
            }
            Value::Time(v) => {
                out.extend_from_slice(&[12, v.negative as u8]);
                out.extend_from_slice(&v.days.to_le_bytes());
                out.extend_from_slice(&[v.hour, v.minute, v.second]);
                out.extend_from_slice(&v.microsecond.to_le_bytes());
            }
        }
    }

    /// Reads one value that is not NULL from a binary row, or from the parameters of an execution.
    ///
    /// # Errors
    /// When it ends early, or is no value of this type.
    pub fn read(reader: &mut Reader<'a>, kind: u8, unsigned: bool) -> Result<Value<'a>, Error> {
        let signed_or = |signed: i64, mask: u64| {
            if unsigned {
                Value::UInt(signed as u64 & mask)
            } else {
                Value::Int(signed)
            }
        };
        Ok(match kind {
            t::TINY => signed_or(reader.u8("TINYINT")? as i8 as i64, 0xff),
            t::SHORT | t::YEAR => signed_or(reader.u16("SMALLINT")? as i16 as i64, 0xffff),
            t::LONG | t::INT24 => signed_or(reader.u32("INT")? as i32 as i64, 0xffff_ffff),
            t::LONGLONG => signed_or(reader.u64("BIGINT")? as i64, u64::MAX),
            t::FLOAT => Value::Float(f32::from_bits(reader.u32("FLOAT")?)),
            t::DOUBLE => Value::Double(f64::from_bits(reader.u64("DOUBLE")?)),
            t::DATE | t::DATETIME | t::TIMESTAMP => Value::DateTime(read_date_time(reader)?),
            t::TIME => Value::Time(read_time(reader)?),
            t::NULL => Value::Null,
            _ => Value::Bytes(reader.length_encoded_bytes("value")?),
        })
    }
}

/// 0, 4, 7 or 11 bytes: what is left out is zero.
fn read_date_time(reader: &mut Reader<'_>) -> Result<DateTime, Error> {
    let length = reader.u8("length of a date")?;
    if !matches!(length, 0 | 4 | 7 | 11) {
        return Err(Error::protocol(format!("a date of {length} bytes")));
    }
    let mut out = DateTime::default();
    if length >= 4 {
        out.year = reader.u16("year")?;
        [out.month, out.day] = reader.array("month and day")?;
    }
    if length >= 7 {
        [out.hour, out.minute, out.second] = reader.array("time of day")?;
    }
    if length == 11 {
        out.microsecond = reader.u32("microseconds")?;
    }
    Ok(out)
}

/// 0, 8 or 12 bytes: what is left out is zero.
fn read_time(reader: &mut Reader<'_>) -> Result<Time, Error> {
    let length = reader.u8("length of a time")?;
    if !matches!(length, 0 | 8 | 12) {
        return Err(Error::protocol(format!("a time of {length} bytes")));
    }
    let mut out = Time::default();
    if length >= 8 {
        out.negative = reader.u8("sign")? != 0;
        out.days = reader.u32("days")?;
        [out.hour, out.minute, out.second] = reader.array("time of day")?;
    }
    if length == 12 {
        out.microsecond = reader.u32("microseconds")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(value: Value<'_>, kind: u8, unsigned: bool) {
        let mut out = Vec::new();
        value.put(&mut out);
        let mut reader = Reader::new(&out);
        assert_eq!(Value::read(&mut reader, kind, unsigned).unwrap(), value);
        assert!(reader.is_empty());
        for length in 0..out.len() {
            assert!(Value::read(&mut Reader::new(&out[..length]), kind, unsigned).is_err());
        }
    }

    #[test]
    fn values_come_back_as_written_and_never_from_a_part() {
        back(Value::Int(-5), t::LONGLONG, false);
        back(Value::UInt(u64::MAX), t::LONGLONG, true);
        back(Value::Float(1.5), t::FLOAT, false);
        back(Value::Double(-2.25), t::DOUBLE, false);
        back(Value::Bytes(&[7; 300]), t::VAR_STRING, false);
        let date = DateTime {
            year: 2026,
            month: 11,
            day: 21,
            hour: 1,
            minute: 2,
            second: 3,
            microsecond: 4,
        };
        back(Value::DateTime(date), t::DATETIME, false);
        let time = Time {
            negative: true,
            days: 34,
            hour: 22,
            minute: 59,
            second: 59,
            microsecond: 999_999,
        };
        back(Value::Time(time), t::TIME, false);
    }

    #[test]
    fn small_integers_keep_their_sign() {
        let read = |bytes: &'static [u8], kind, unsigned| Value::read(&mut Reader::new(bytes), kind, unsigned).unwrap();
        assert_eq!(read(&[0xff], t::TINY, false), Value::Int(-1));
        assert_eq!(read(&[0xff], t::TINY, true), Value::UInt(255));
        assert_eq!(read(&[0xfe, 0xff], t::SHORT, false), Value::Int(-2));
        assert_eq!(read(&[0xfe, 0xff, 0xff, 0xff], t::LONG, true), Value::UInt(0xffff_fffe));
    }

    #[test]
    fn dates_and_times_of_odd_lengths_are_errors() {
        assert!(Value::read(&mut Reader::new(&[5, 0, 0, 0, 0, 0]), t::DATE, false).is_err());
        assert!(Value::read(&mut Reader::new(&[9; 10]), t::TIME, false).is_err());
        assert_eq!(
            Value::read(&mut Reader::new(&[0]), t::DATE, false).unwrap(),
            Value::DateTime(DateTime::default())
        );
    }
}
