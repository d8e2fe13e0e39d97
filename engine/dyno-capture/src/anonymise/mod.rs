//! Literals replaced by pseudonyms of their types.

mod context;
mod dates;
mod permutation;
mod values;

use std::collections::BTreeSet;

use crate::event::{Action, Capture};
use crate::lexer::{tokens, Kind, Token};
use crate::reach::{beyond, definer, Beyond};
use context::Context;
use permutation::Permutation;

/// Length of a key.
pub const KEY_BYTES: usize = 32;

/// What a statement about accounts keeps: it is not replayed.
const OF_ACCOUNTS: &[&str] = &[
    "GRANT", "REVOKE", "CREATE", "ALTER", "DROP", "RENAME", "USER", "ROLE", "SET", "PASSWORD", "DEFAULT",
];
/// Replaces strings, numbers and users by pseudonyms of their types, by a permutation with a key: the same literal has
/// the same pseudonym with the same key, different literals have different ones, and without the key they cannot be
/// computed back; short literals can be guessed by how often they occur. What is no data stays: formats, values of
/// variables, lengths and limits, definitions of tables, values of their ENUM and SET columns. Comments are left out,
/// names of tables and columns stay.
pub struct Anonymiser {
    permutation: Permutation,
    /// Values of ENUM and SET columns, in small letters.
    members: BTreeSet<Vec<u8>>,
}

impl std::fmt::Debug for Anonymiser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Anonymiser(***)")
    }
}

impl Anonymiser {
    /// With a key.
    pub fn new(key: [u8; KEY_BYTES]) -> Self {
        Self {
            permutation: Permutation::new(&key),
            members: BTreeSet::new(),
        }
    }

    /// Keeps the values of the ENUM and SET columns that a statement defines.
    pub fn keep_members(&mut self, text: &[u8]) {
        let all: Vec<Token<'_>> = tokens(text).collect();
        if !Context::of(&all).is_definition {
            return;
        }
        let mut rest = &all[..];
        while let Some(place) = rest.iter().position(|token| token.is_any(&["ENUM", "SET"])) {
            rest = &rest[place + 1..];
            let is_list = rest.first().is_some_and(|token| token.is_symbol(b'('));
            let list = rest
                .iter()
                .skip(1)
                .take_while(|token| is_list && !token.is_symbol(b')'));
            let members = list.filter(|token| token.kind == Kind::String);
            self.members
                .extend(members.map(|token| Literal::of(token.text).content.to_ascii_lowercase()));
        }
    }

    /// The whole capture.
    pub fn capture(&mut self, capture: &mut Capture) {
        capture.header.anonymised = true;
        for event in &capture.events {
            if let Action::Statement(statement) = &event.action {
                self.keep_members(&statement.text);
            }
        }
        for event in &mut capture.events {
            match &mut event.action {
                Action::Statement(statement) => statement.text = self.statement(&statement.text),
                Action::Connect { user, .. } | Action::Reset { user, .. } => {
                    if let Some(user) = user {
                        *user = self.word(user);
                    }
                }
                Action::Schema(_) | Action::Quit => {}
            }
        }
    }

    /// A statement.
    pub fn statement(&self, text: &[u8]) -> Vec<u8> {
        let without_definer;
        let text = match definer(text) {
            Some(range) => {
                without_definer = [&text[..range.start], &text[range.end..]].concat();
                &without_definer
            }
            None => text,
        };
        let all: Vec<Token<'_>> = tokens(text).collect();
        if beyond(text) == Some(Beyond::Accounts) {
            let words = all.iter().take_while(|token| token.is_any(OF_ACCOUNTS));
            return words.map(|token| token.text).collect::<Vec<_>>().join(&b' ');
        }
        let mut out = Vec::with_capacity(text.len());
        let mut end = 0;
        let mut context = Context::of(&all);
        for (place, token) in all.iter().enumerate() {
            let between = &text[end..token.start];
            if !between.is_empty() {
                // Blanks as they are, comments as one blank; the code of an executable comment stays without its marks.
                let is_blank = between.iter().all(u8::is_ascii_whitespace);
                out.extend_from_slice(if is_blank { between } else { b" " });
            }
            end = token.start + token.text.len();
            match token.kind {
                Kind::String | Kind::Number if context.keeps(&all, place) => out.extend_from_slice(token.text),
                Kind::String => self.string(&all, place, &context, &mut out),
                Kind::Number => self.number(token.text, &context, &mut out),
                _ => out.extend_from_slice(token.text),
            }
            context.take(&all, place);
        }
        out
    }

    /// A word, such as a user's name.
    pub fn word(&self, word: &str) -> String {
        String::from_utf8_lossy(&self.permutation.text(word.as_bytes(), |_| false)).into_owned()
    }

    fn string(&self, all: &[Token<'_>], place: usize, context: &Context, out: &mut Vec<u8>) {
        let literal = Literal::of(all[place].text);
        let before = place.checked_sub(1).map(|before| &all[before]);
        let content = &literal.content;
        let is_after = |words: &[&str]| before.is_some_and(|token| token.is_any(words));
        let is_statement = is_after(&["FROM"]) && all[0].is_word("PREPARE") || is_after(&["IMMEDIATE"]);
        let is_pattern =
            is_after(&["REGEXP", "RLIKE"]) || context.calls.last().is_some_and(|call| call.starts_with(b"REGEXP_"));
        let made = match literal.prefix {
            b"x" | b"X" => self.coded(content),
            b"b" | b"B" => self.permutation.bits(content),
            _ if is_statement => self.statement(content),
            _ if is_pattern => self.pattern(content),
            _ if context.is_call(&["STR_TO_DATE"]) => self.permutation.formatted_date(content),
            _ if context.is_call(&["UNHEX"]) => self.coded(content),
            _ if self.is_of_members(content) => content.clone(),
            _ => self.permutation.value(content),
        };
        literal.write(&made, out);
    }

    /// A value of an ENUM column, or several of a SET column.
    fn is_of_members(&self, content: &[u8]) -> bool {
        let lower = content.to_ascii_lowercase();
        let is_member = |part: &[u8]| self.members.contains(part);
        is_member(&lower) || lower.split(|byte| *byte == b',').all(is_member)
    }

    /// Bytes in hexadecimal digits: of a text again those of a text.
    fn coded(&self, digits: &[u8]) -> Vec<u8> {
        let value = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
        let byte = |pair: &[u8]| Some(value(pair[0])? * 16 + value(*pair.get(1)?)?);
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        let is_text = |bytes: &Vec<u8>| {
            std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(|character: char| character.is_control()))
        };
        match bytes.filter(is_text) {
            Some(bytes) => {
                let made = self.permutation.value(&bytes);
                made.iter()
                    .flat_map(|byte| format!("{byte:02x}").into_bytes())
                    .collect()
            }
            None => self.permutation.hexadecimal_number(digits),
        }
    }

    /// A regular expression: what is escaped, in brackets or in braces stays.
    fn pattern(&self, content: &[u8]) -> Vec<u8> {
        let mut fixed = vec![false; content.len()];
        let mut open = None;
        for (place, byte) in content.iter().enumerate() {
            let is_escaped = place > 0 && matches!(content[place - 1], b'\\' | b'?');
            match (open, byte) {
                (None, b'[') => open = Some(b']'),
                (None, b'{') => open = Some(b'}'),
                (Some(end), byte) if *byte == end => open = None,
                _ => fixed[place] = open.is_some() || is_escaped,
            }
        }
        self.permutation.text(content, |place| fixed[place])
    }

    fn number(&self, text: &[u8], context: &Context, out: &mut Vec<u8>) {
        let (mark, digits) = text.split_at(2.min(text.len()));
        let decimal = String::from_utf8_lossy(text);
        match mark {
            b"0x" | b"0X" => out.extend([mark, &self.coded(digits)].concat()),
            b"0b" | b"0B" => out.extend([mark, &self.permutation.bits(digits)].concat()),
            _ if context.is_call(&["PERIOD_ADD", "PERIOD_DIFF"]) && text.len() == 4 => {
                out.extend(self.permutation.short_period(&decimal).into_bytes());
            }
            _ => out.extend(self.permutation.number(&decimal).into_bytes()),
        }
    }
}

/// A literal's parts.
pub(super) struct Literal<'a> {
    /// `x` of `x'4D'`.
    pub prefix: &'a [u8],
    quote: u8,
    /// Without its escapes.
    pub content: Vec<u8>,
    is_closed: bool,
}

impl<'a> Literal<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        let place = text.iter().position(|byte| matches!(byte, b'\'' | b'"')).unwrap_or(0);
        let quote = text[place];
        let mut content = Vec::with_capacity(text.len());
        let mut rest = text[place + 1..].iter().copied().peekable();
        let mut is_closed = false;
        while let Some(byte) = rest.next() {
            match byte {
                b'\\' => match rest.next() {
                    Some(b'0') => content.push(0),
                    Some(b'b') => content.push(8),
                    Some(b'n') => content.push(b'\n'),
                    Some(b'r') => content.push(b'\r'),
                    Some(b't') => content.push(b'\t'),
                    Some(b'Z') => content.push(26),
                    // In patterns.
                    Some(mark @ (b'%' | b'_')) => content.extend([b'\\', mark]),
                    other => content.extend(other),
                },
                _ if byte == quote && rest.peek() == Some(&quote) => {
                    rest.next();
                    content.push(quote);
                }
                _ if byte == quote => is_closed = true,
                _ => content.push(byte),
            }
        }
        Self {
            prefix: &text[..place],
            quote,
            content,
            is_closed,
        }
    }

    /// With another content.
    pub(super) fn write(&self, content: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix);
        out.push(self.quote);
        for (place, byte) in content.iter().enumerate() {
            match byte {
                b'\\' if matches!(content.get(place + 1), Some(b'%' | b'_')) => out.push(b'\\'),
                b'\\' => out.extend_from_slice(b"\\\\"),
                0 => out.extend_from_slice(b"\\0"),
                byte if *byte == self.quote => out.extend([*byte, *byte]),
                byte => out.push(*byte),
            }
        }
        if self.is_closed {
            out.push(self.quote);
        }
    }
}

/// After these comes the name of a table, if not a parenthesis or another keyword.
const BEFORE_TABLES: &[&str] = &["INTO", "JOIN", "TABLE", "UPDATE"];

/// Whether a statement has double quotes where only a name can be, or sets the mode.
pub fn has_ansi_quotes(text: &[u8]) -> bool {
    let all: Vec<Token<'_>> = tokens(text).collect();
    sets_mode(&all) || has_name(&all)
}

fn has_name(all: &[Token<'_>]) -> bool {
    let is_quoted = |token: &Token<'_>| token.text.starts_with(b"\"");
    let mut depth = 0;
    all.windows(2).any(|pair| {
        let (first, second) = (&pair[0], &pair[1]);
        depth += i32::from(first.is_symbol(b'(')) - i32::from(first.is_symbol(b')'));
        // Within parentheses FROM can be a function's, as in TRIM('x' FROM "xa").
        let is_before = first.is_any(BEFORE_TABLES) || first.is_symbol(b'.') || (first.is_word("FROM") && depth == 0);
        (is_before && is_quoted(second)) || (is_quoted(first) && second.is_symbol(b'.'))
    })
}

fn sets_mode(all: &[Token<'_>]) -> bool {
    let is_set = all.first().is_some_and(|token| token.is_word("SET"));
    let is_mode = |token: &Token<'_>| token.text.to_ascii_lowercase().ends_with(b"sql_mode");
    let has_ansi = |token: &Token<'_>| {
        token.kind == Kind::String && token.text.to_ascii_uppercase().windows(4).any(|part| part == b"ANSI")
    };
    is_set && all.iter().any(is_mode) && all.iter().any(has_ansi)
}

#[cfg(test)]
mod tests;
