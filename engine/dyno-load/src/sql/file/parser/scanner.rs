//! The parser's part that takes characters, and knows where they are.

use super::{Parser, SourcePosition};

impl Parser<'_> {
    /// Takes a text in quotes as it is, braces and question marks included.
    pub(super) fn quoted(&mut self, quote: char, start: SourcePosition, text: &mut String) -> Result<(), String> {
        text.extend(self.take());
        loop {
            match self.take() {
                None => return self.fail(start, &format!("the text has no end: a {quote} is missing")),
                Some('\\') if quote != '`' => {
                    text.push('\\');
                    text.extend(self.take());
                }
                Some(character) => {
                    text.push(character);
                    if character == quote {
                        return Ok(());
                    }
                }
            }
        }
    }

    pub(super) fn skip_block_comment(&mut self, start: SourcePosition) -> Result<(), String> {
        while !self.starts_with("*/") {
            if self.take().is_none() {
                return self.fail(start, "the comment has no end: a */ is missing");
            }
        }
        self.take();
        self.take();
        Ok(())
    }

    pub(super) fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.take();
        }
    }

    pub(super) fn take_line(&mut self) -> String {
        let mut line = String::new();
        while let Some(character) = self.take() {
            if character == '\n' {
                break;
            }
            line.push(character);
        }
        line
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.characters.get(self.next).copied()
    }

    pub(super) fn starts_with(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(place, character)| self.characters.get(self.next + place) == Some(&character))
    }

    pub(super) fn take(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.next += 1;
        if character == '\n' {
            self.place = SourcePosition {
                line: self.place.line + 1,
                column: 1,
            };
        } else {
            self.place.column += 1;
        }
        Some(character)
    }
}
