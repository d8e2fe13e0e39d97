//! What a script's coroutine yields, and what it is resumed with.

use mlua::{FromLuaMulti, IntoLuaMulti, Lua, MultiValue, Value};
use smallvec::SmallVec;

use super::rows::{FetchedRow, StoredRows};

/// A value for a parameter of a prepared statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// A DOUBLE.
    Double(f64),
    /// CHAR or VARCHAR.
    Text(Vec<u8>),
}

/// What a coroutine wants, by the numbers of sysbench.lua. Connections and statements have the numbers that they were
/// given by [`Answer::Number`].
#[derive(Debug)]
pub enum Request {
    /// A new connection.
    Connect,
    /// Its end.
    Disconnect(usize),
    /// A statement as text.
    Query(usize, Vec<u8>),
    /// A statement to prepare.
    Prepare(usize, Vec<u8>),
    /// A prepared statement with its values.
    Execute(usize, usize, SmallVec<[Parameter; 4]>),
    /// The end of a prepared statement.
    Close(usize, usize),
    /// The next row of the connection's last result.
    Fetch(usize),
    /// Whether the connection's last statement has further results.
    MoreResults(usize),
    /// The next one of them.
    NextResult(usize),
    /// thread_init() is over.
    Ready,
    /// The event is over, and the next one may start.
    Next,
    /// There are no further events.
    Stop,
    /// An error that the script has counted itself.
    CountError,
}

fn integer(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Integer(value) => Some(*value),
        Value::Number(value) => Some(*value as i64),
        _ => None,
    }
}

fn number(value: Option<&Value>) -> usize {
    integer(value).unwrap_or(0) as usize
}

fn text(value: Option<&Value>) -> Vec<u8> {
    match value {
        Some(Value::String(text)) => text.as_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// A parameter whose type is not a DOUBLE; numbers are cut to whole ones, as when C stores them in a BIGINT.
fn parameter(value: &Value) -> Parameter {
    match value {
        Value::Integer(value) => Parameter::Integer(*value),
        Value::Number(value) => Parameter::Integer(*value as i64),
        Value::Boolean(value) => Parameter::Integer(i64::from(*value)),
        Value::String(text) => Parameter::Text(text.as_bytes().to_vec()),
        _ => Parameter::Null,
    }
}

fn typed(kind: u8, value: &Value) -> Parameter {
    match (kind, value) {
        (b'd', Value::Integer(value)) => Parameter::Double(*value as f64),
        (b'd', Value::Number(value)) => Parameter::Double(*value),
        _ => parameter(value),
    }
}

impl FromLuaMulti for Request {
    fn from_lua_multi(values: MultiValue, _lua: &Lua) -> mlua::Result<Self> {
        let code = integer(values.front()).unwrap_or(0);
        let connection = number(values.get(1));
        Ok(match code {
            1 => Self::Connect,
            2 => Self::Disconnect(connection),
            3 => Self::Query(connection, text(values.get(2))),
            4 => Self::Prepare(connection, text(values.get(2))),
            5 => {
                let parameters = values.iter().skip(3).map(parameter).collect();
                Self::Execute(connection, number(values.get(2)), parameters)
            }
            6 => {
                let kinds = text(values.get(3));
                let pairs = kinds
                    .iter()
                    .zip(values.iter().skip(4).chain(std::iter::repeat(&Value::Nil)));
                let parameters = pairs.map(|(kind, value)| typed(*kind, value)).collect();
                Self::Execute(connection, number(values.get(2)), parameters)
            }
            7 => Self::Close(connection, number(values.get(2))),
            8 => Self::Fetch(connection),
            9 => Self::Ready,
            10 => Self::Next,
            11 => Self::Stop,
            12 => Self::CountError,
            13 => Self::MoreResults(connection),
            14 => Self::NextResult(connection),
            _ => {
                return Err(mlua::Error::runtime(
                    "the script yielded outside of a coroutine of its own; coroutine.yield() is dynoload's there",
                ))
            }
        })
    }
}

/// An error of the server, or (number 0) one of dynoload.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The server's number.
    pub number: u16,
    /// The SQL state.
    pub state: String,
    /// The text.
    pub message: String,
    /// Whether --ignore-errors has it.
    pub ignorable: bool,
}

impl Refusal {
    /// One that is not of the server.
    pub fn own(message: impl Into<String>) -> Self {
        Self {
            number: 0,
            state: "HY000".into(),
            message: message.into(),
            ignorable: false,
        }
    }
}

/// What a coroutine is resumed with.
#[derive(Debug)]
pub enum Answer {
    /// Nothing.
    Nothing,
    /// Whether there is an event to run.
    Goes(bool),
    /// A connection's or a statement's number.
    Number(usize),
    /// The result of a statement: its rows and columns.
    Result(u64, u64),
    /// A row; none after the last.
    Row(Option<FetchedRow>),
    /// It failed.
    Refused(Refusal),
}

impl Answer {
    /// The result that a statement's rows begin with.
    pub fn first_of(rows: &StoredRows) -> Self {
        let (rows, columns) = rows.size();
        Self::Result(rows, columns)
    }

    /// The result after that.
    pub fn next_of(rows: &mut StoredRows) -> Self {
        rows.next_result();
        Self::first_of(rows)
    }
}

impl IntoLuaMulti for Answer {
    fn into_lua_multi(self, lua: &Lua) -> mlua::Result<MultiValue> {
        match self {
            Self::Nothing => Ok(MultiValue::new()),
            Self::Goes(goes) => goes.into_lua_multi(lua),
            Self::Number(number) => (number as i64).into_lua_multi(lua),
            Self::Result(rows, columns) => (rows as i64, columns as i64).into_lua_multi(lua),
            Self::Row(None) => Value::Nil.into_lua_multi(lua),
            Self::Row(Some(row)) => {
                let table = lua.create_table_with_capacity(row.len(), 0)?;
                for (index, value) in row.iter().enumerate() {
                    if let Some(bytes) = value {
                        table.raw_set(index + 1, lua.create_string(bytes)?)?;
                    }
                }
                table.into_lua_multi(lua)
            }
            Self::Refused(refusal) => (
                Value::Nil,
                i64::from(refusal.number),
                refusal.state,
                refusal.message,
                refusal.ignorable,
            )
                .into_lua_multi(lua),
        }
    }
}
