//! The parser's part that reads statements and their parameters.

use dyno_capture::class::is_read_only;
use dyno_capture::lexer::{tokens, Kind};
use dyno_capture::reach::{beyond, is_system_schema, named_schemas};
use dyno_capture::statements::FileStatement as Text;

use super::{prepared, FileStatement, FileTransaction, Parser, Piece};
use crate::sql::definition::StatementKind;
use crate::sql::file::rules::Rule;

impl Parser<'_> {
    pub(super) fn statement(&mut self, statement: &Text) -> Result<(), String> {
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
        let start = statement.start;
        if statement.text.starts_with(b"--") {
            return self.fail(start, "a comment begins with two dashes and a blank");
        }
        if !statement.is_ended {
            return self.fail(start, "the statement has no end: a ';' is missing");
        }
        let text = &self.text[start..start + statement.text.len()];
        let mut pieces = Vec::new();
        let mut at = 0;
        let mut tokens = tokens(text.as_bytes());
        while let Some(token) = tokens.next() {
            let place = start + token.start;
            if token.kind == Kind::Placeholder {
                return self.fail(place, "a '?' is not allowed; write a parameter as {uniform(1, 100)}");
            }
            if token.is_symbol(b'}') {
                return self.fail(place, "a '}' without a '{'");
            }
            if token.is_symbol(b'{') {
                let Some(end) = tokens.find(|token| token.is_symbol(b'}')) else {
                    return self.fail(place, "the parameter has no end: a '}' is missing");
                };
                pieces.push(Piece::Text(text[at..token.start].to_string()));
                pieces.push(Piece::Value(self.parameter(&text[token.start + 1..end.start], place)?));
                at = end.start + 1;
            }
        }
        pieces.push(Piece::Text(text[at..].trim_end().to_string()));
        self.add(pieces, start)
    }

    /// Whether a load may execute the statement: nothing outside of its schema may change.
    fn check_reach(&self, template: &str, start: usize) -> Result<(), String> {
        let text = template.as_bytes();
        if let Some(reach) = beyond(text) {
            let message = format!(
                "the statement reaches {}; a load may change the tables of its schema alone",
                reach.words()
            );
            return self.fail(start, &message);
        }
        for schema in named_schemas(text) {
            let name = &schema.name;
            if schema.is_whole {
                let message = format!(
                    "the statement is for the schema {name} as a whole; take it out, and name the schema \
                                       by --database"
                );
                return self.fail(start, &message);
            }
            let is_own = name == self.database && !is_system_schema(name);
            if !is_own && !is_read_only(text) {
                let message = format!(
                    "the statement names the schema {name}, and the load's is {}; other schemas may only be read",
                    self.database
                );
                return self.fail(start, &message);
            }
        }
        Ok(())
    }

    fn add(&mut self, pieces: Vec<Piece>, start: usize) -> Result<(), String> {
        let Some(transaction) = self.transactions.last_mut() else {
            return Ok(());
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
        let statement = FileStatement { pieces, name, kind };
        self.check_reach(&prepared(&statement).template, start)?;
        self.statements.push(statement);
        Ok(())
    }

    /// The number of the value that `{…}` stands for.
    fn parameter(&mut self, text: &str, start: usize) -> Result<usize, String> {
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
