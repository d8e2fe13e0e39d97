//! Values of rows, as binary and as text results have them.

use dyno_mysql::Value;

use super::money;

/// A whole number; `None` for NULL, or what is none.
pub fn integer(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        Value::UInt(value) => i64::try_from(*value).ok(),
        Value::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A whole number from 0 to 2^32 - 1.
pub fn unsigned(value: &Value<'_>) -> Option<u32> {
    integer(value)?.try_into().ok()
}

/// An amount; a DECIMAL is a text in both protocols.
pub fn cents(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Bytes(text) => money::parse(text),
        _ => None,
    }
}
