//! The statements that a connection sends, as text or prepared.

use std::collections::HashMap;

use dyno_mysql::constants::command;

use super::parameters::{after_attributes, begins_with_attributes, Prepared};
use crate::compound::first_end;

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
