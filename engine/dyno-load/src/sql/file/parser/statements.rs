//! The parser's part that reads statements and their parameters.

use super::{FileStatement, FileTransaction, Parser, Piece, SourcePosition};
use crate::sql::definition::StatementKind;
use crate::sql::file::rules::Rule;

impl Parser<'_> {
    pub(super) fn statement(&mut self, start: SourcePosition) -> Result<(), String> {
        if self.transactions.is_empty() {
            // A file without a line `-- transaction:` is one transaction.
            let name = self
                .path
                .file_stem()
                .map_or_else(|| "all".into(), |stem| stem.to_string_lossy().into_owned());
            self.transactions.push(FileTransaction {
                name,
                weight: 1,
                statements: Vec::new(),
                values: Vec::new(),
            });
        }
        let mut pieces = Vec::new();
        let mut text = String::new();
        loop {
            let place = self.place;
            match self.peek() {
                None => return self.fail(start, "the statement has no end: a ';' is missing"),
                Some(';') => {
                    self.take();
                    break;
                }
                Some(quote @ ('\'' | '"' | '`')) => self.quoted(quote, place, &mut text)?,
                Some('-') if self.starts_with("-- ") || self.starts_with("--\n") => {
                    let line = self.take_line();
                    let comment = line.trim_start_matches('-').trim();
                    if comment.starts_with("transaction:") || comment.starts_with("name:") {
                        return self.fail(place, "the statement before this line has no end: a ';' is missing");
                    }
                    text.push(' ');
                }
                Some('/') if self.starts_with("/*") && !self.starts_with("/*!") && !self.starts_with("/*+") => {
                    self.skip_block_comment(place)?;
                    text.push(' ');
                }
                Some('?') => return self.fail(place, "a '?' is not allowed; write a parameter as {uniform(1, 100)}"),
                Some('}') => return self.fail(place, "a '}' without a '{'"),
                Some('{') => {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(Piece::Value(self.parameter(place)?));
                }
                Some(character) => {
                    self.take();
                    text.push(character);
                }
            }
        }
        pieces.push(Piece::Text(text.trim_end().to_string()));
        self.add(pieces);
        Ok(())
    }

    pub(super) fn add(&mut self, pieces: Vec<Piece>) {
        let Some(transaction) = self.transactions.last_mut() else {
            return;
        };
        let head = match &pieces[0] {
            Piece::Text(text) => text.as_bytes(),
            Piece::Value(_) => b"",
        };
        let kind = StatementKind::of(head);
        let number = transaction.statements.len() + 1;
        let name = self.name.take();
        let name = name.unwrap_or_else(|| format!("{}-{number}-{}", transaction.name, kind.name()));
        transaction.statements.push(self.statements.len());
        self.statements.push(FileStatement { pieces, name, kind });
    }

    /// The number of the value that `{…}` stands for.
    pub(super) fn parameter(&mut self, start: SourcePosition) -> Result<usize, String> {
        self.take();
        let mut text = String::new();
        loop {
            let place = self.place;
            match self.peek() {
                None | Some(';') => return self.fail(start, "the parameter has no end: a '}' is missing"),
                Some('}') => {
                    self.take();
                    break;
                }
                Some('\'') => self.quoted('\'', place, &mut text)?,
                Some(character) => {
                    self.take();
                    text.push(character);
                }
            }
        }
        let text = text.trim();
        let colon = text
            .find(':')
            .filter(|colon| text.find('(').is_none_or(|open| *colon < open));
        let (name, rule) = match colon {
            Some(colon) => (Some(text[..colon].trim()), Some(text[colon + 1..].trim())),
            None if text.contains('(') => (None, Some(text)),
            None => (Some(text), None),
        };
        let known = name.and_then(|name| self.names.iter().position(|one| one.as_deref() == Some(name)));
        let Some(rule) = rule else {
            let Some(known) = known else {
                let message = format!(
                    "{{{text}}} is not defined before in this transaction; define it where it comes first, as in \
                     {{{}: uniform(1, 100)}}",
                    if text.is_empty() { "id" } else { text }
                );
                return self.fail(start, &message);
            };
            return Ok(known);
        };
        if known.is_some() {
            let name = name.unwrap_or("");
            let message =
                format!("{{{name}}} is defined before in this transaction; write {{{name}}} for the same value");
            return self.fail(start, &message);
        }
        if let Some(name) = name {
            self.checked_name(name, start)?;
        }
        let rule = match Rule::parse(rule, self.folder, self.sources) {
            Ok(rule) => rule,
            Err(message) => return self.fail(start, &message),
        };
        let Some(transaction) = self.transactions.last_mut() else {
            return Ok(0);
        };
        transaction.values.push(rule);
        self.names.push(name.map(str::to_string));
        Ok(transaction.values.len() - 1)
    }
}
