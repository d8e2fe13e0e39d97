//! Splits a file of SQL into statements as the mysql client does: by the delimiter outside of quotes and comments, with
//! the client's command DELIMITER. In linear time, with one statement in memory.

use std::io::BufRead;
use std::ops::Range;

/// The longest statement: no server takes a longer packet.
const MOST_BYTES: usize = 1 << 30;

/// A statement of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStatement {
    /// Its bytes, without the delimiter and without comments before it.
    pub text: Vec<u8>,
    /// The line where it begins, from 1.
    pub line: u64,
    /// Its first byte in the file, from 0.
    pub start: usize,
    /// Whether a delimiter ends it, and not the end of the file.
    pub is_ended: bool,
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum Broken {
    /// It cannot be read.
    Unreadable(std::io::Error),
    /// It ends within a string, a name or a comment that begins in this line.
    Open(u64),
    /// A statement is longer than any server takes. The line where it begins.
    TooLong(u64),
}

/// What the bytes before belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Code,
    Quotes { quote: u8, is_escaped: bool },
    LineComment,
    BlockComment,
}

/// The statements of a file, one after the other.
#[derive(Debug)]
pub struct Statements<R> {
    input: R,
    delimiter: Vec<u8>,
    line: u64,
    /// The line that the reader is in, as far as it was read; a position in it.
    bytes: Vec<u8>,
    at: usize,
    /// The bytes of the lines before this one.
    before: usize,
    comments: Vec<Range<usize>>,
}

impl<R: BufRead> Statements<R> {
    /// The statements of this text.
    pub fn new(input: R) -> Self {
        Self {
            input,
            delimiter: b";".to_vec(),
            line: 0,
            bytes: Vec::new(),
            at: 0,
            before: 0,
            comments: Vec::new(),
        }
    }

    /// Where comments of one line are in the file, with their marks: those between the last statement but one and the
    /// last one that was returned, and within it; at the end those after it.
    pub fn comments(&self) -> &[Range<usize>] {
        &self.comments
    }

    /// The next statement; none at the end.
    ///
    /// # Errors
    /// When the file cannot be read, or ends within a string or a comment.
    pub fn next_statement(&mut self) -> Result<Option<FileStatement>, Broken> {
        let mut text: Vec<u8> = Vec::new();
        let (mut begin, mut start) = (0, 0);
        let mut opened = 0;
        self.comments.clear();
        let mut within = Within::Code;
        loop {
            if self.at == self.bytes.len() && !self.read_line()? {
                return match within {
                    Within::Quotes { .. } | Within::BlockComment => Err(Broken::Open(opened)),
                    Within::Code | Within::LineComment => Ok(finished(text, begin, start, false)),
                };
            }
            if within == Within::Code && self.is_delimiter_command(&text) {
                continue;
            }
            let rest = &self.bytes[self.at..];
            if within == Within::Code && rest.starts_with(&self.delimiter) {
                self.at += self.delimiter.len();
                if let Some(statement) = finished(std::mem::take(&mut text), begin, start, true) {
                    return Ok(Some(statement));
                }
                continue;
            }
            let before = within;
            let taken = self.step(&mut within);
            if before == Within::Code && within != Within::Code {
                opened = self.line;
            }
            let part = &self.bytes[self.at - taken..self.at];
            let is_comment = |state| matches!(state, Within::LineComment | Within::BlockComment);
            // Comments before a statement are no part of it.
            let is_before =
                text.is_empty() && (is_comment(before) || is_comment(within) || part.trim_ascii().is_empty());
            if !is_before {
                if text.is_empty() {
                    (begin, start) = (self.line, self.before + self.at - taken);
                }
                text.extend_from_slice(part);
                if text.len() > MOST_BYTES {
                    return Err(Broken::TooLong(begin));
                }
            }
        }
    }

    fn read_line(&mut self) -> Result<bool, Broken> {
        self.before += self.bytes.len();
        self.bytes.clear();
        self.at = 0;
        // A line without an end, as a file that is no text may have, is bounded like a statement.
        let mut bounded = std::io::Read::take(&mut self.input, MOST_BYTES as u64 + 1);
        let count = bounded.read_until(b'\n', &mut self.bytes).map_err(Broken::Unreadable)?;
        if count > MOST_BYTES {
            return Err(Broken::TooLong(self.line + 1));
        }
        self.line += u64::from(count > 0);
        Ok(count > 0)
    }

    /// DELIMITER at the beginning of a line, before a statement.
    fn is_delimiter_command(&mut self, text: &[u8]) -> bool {
        const COMMAND: &[u8] = b"DELIMITER";
        let line = self.bytes.trim_ascii();
        let is_command = self.at == 0
            && text.is_empty()
            && line.len() > COMMAND.len()
            && line[..COMMAND.len()].eq_ignore_ascii_case(COMMAND)
            && line[COMMAND.len()].is_ascii_whitespace();
        if is_command {
            let word = line[COMMAND.len()..].trim_ascii_start();
            let end = word.iter().position(u8::is_ascii_whitespace).unwrap_or(word.len());
            self.delimiter = word[..end].to_vec();
            self.at = self.bytes.len();
        }
        is_command
    }

    /// Takes one byte, the two of an escape or of a comment's mark, or all that is the same up to the next byte that
    /// could change it. Returns how many.
    fn step(&mut self, within: &mut Within) -> usize {
        let rest = &self.bytes[self.at..];
        let run = |is_end: &dyn Fn(u8) -> bool| rest.iter().take_while(|byte| !is_end(**byte)).count();
        let next = rest.get(1).copied();
        let taken = match *within {
            Within::Code => match rest[0] {
                quote @ (b'\'' | b'"' | b'`') => {
                    *within = Within::Quotes {
                        quote,
                        is_escaped: quote != b'`',
                    };
                    1
                }
                b'#' => {
                    *within = Within::LineComment;
                    1
                }
                b'-' if next == Some(b'-') && rest.get(2).is_none_or(|byte| byte.is_ascii_whitespace()) => {
                    *within = Within::LineComment;
                    2
                }
                b'/' if next == Some(b'*') && !is_executable(rest) => {
                    *within = Within::BlockComment;
                    2
                }
                byte if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 => {
                    // A delimiter may be a word: it begins where a word does.
                    run(&|byte| !(byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80))
                }
                _ => 1,
            },
            Within::Quotes { quote, is_escaped } => match rest[0] {
                b'\\' if is_escaped => 2.min(rest.len()),
                // A doubled quote ends a text and begins another: the same.
                byte if byte == quote => {
                    *within = Within::Code;
                    1
                }
                _ => run(&|byte| byte == quote || byte == b'\\').max(1),
            },
            Within::LineComment => {
                *within = Within::Code;
                let mark = if self.bytes[self.at - 1] == b'#' { 1 } else { 2 };
                self.comments
                    .push(self.before + self.at - mark..self.before + self.bytes.len());
                rest.len()
            }
            Within::BlockComment => match rest[0] {
                b'*' if next == Some(b'/') => {
                    *within = Within::Code;
                    2
                }
                b'*' => 1,
                _ => run(&|byte| byte == b'*'),
            },
        };
        self.at += taken;
        taken
    }
}

fn finished(text: Vec<u8>, line: u64, start: usize, is_ended: bool) -> Option<FileStatement> {
    let has_code = crate::lexer::tokens(&text).next().is_some();
    has_code.then_some(FileStatement {
        text,
        line,
        start,
        is_ended,
    })
}

/// Comments that a server executes, and hints of the optimizer.
fn is_executable(text: &[u8]) -> bool {
    [b"/*!".as_slice(), b"/*+", b"/*M!"]
        .iter()
        .any(|mark| text.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &[u8]) -> Result<Vec<(u64, String)>, Broken> {
        let mut statements = Statements::new(text);
        let mut found = Vec::new();
        while let Some(one) = statements.next_statement()? {
            found.push((one.line, String::from_utf8(one.text).unwrap()));
        }
        Ok(found)
    }

    fn texts(text: &str) -> Vec<String> {
        split(text.as_bytes())
            .unwrap()
            .into_iter()
            .map(|(_, text)| text)
            .collect()
    }

    #[test]
    fn statements_end_at_the_delimiter_outside_of_quotes_and_comments() {
        let text =
            "-- MariaDB dump\n\n/* a; b */ /*!40101 SET NAMES utf8mb4 */; SELECT 1;SELECT 2; -- c;\nCREATE TABLE t \
                    (\n  a INT -- ;\n);\nINSERT INTO t VALUES ('x;\n-- y\\'', \"it''s;\", `a;`);# d;\n;\n\nSELECT 3";
        let expected = [
            (3, "/*!40101 SET NAMES utf8mb4 */"),
            (3, "SELECT 1"),
            (3, "SELECT 2"),
            (4, "CREATE TABLE t (\n  a INT -- ;\n)"),
            (7, "INSERT INTO t VALUES ('x;\n-- y\\'', \"it''s;\", `a;`)"),
            (11, "SELECT 3"),
        ];
        let found = split(text.as_bytes()).unwrap();
        let shown: Vec<(u64, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_delimiter_is_what_the_command_names() {
        let text =
            "DELIMITER ;;\nCREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; END;;\nDELIMITER ;\n\
                    delimiter $$\r\nSELECT 1; $$\ndelimiter //\nSELECT 4 / 2 //\nDELIMITER ;\nSELECT 2;\n";
        assert_eq!(
            texts(text),
            [
                "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; END",
                "SELECT 1; ",
                "SELECT 4 / 2 ",
                "SELECT 2",
            ]
        );
    }

    #[test]
    fn comments_after_the_last_statement_are_none() {
        assert_eq!(texts("SELECT 1;\n-- Dump completed"), ["SELECT 1"]);
        assert_eq!(texts("SELECT 1; /* done */"), ["SELECT 1"]);
        assert_eq!(texts(""), [""; 0]);
    }

    #[test]
    fn what_has_no_end_is_named_by_its_line() {
        for (text, expected) in [("SELECT 1;\nSELECT 'a\n\n", 2), ("/* a\n", 1), ("SELECT `a\n", 1)] {
            match split(text.as_bytes()) {
                Err(Broken::Open(line)) => assert_eq!(line, expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_long_text_with_many_lines_takes_linear_time() {
        let text = format!("INSERT INTO t VALUES ('{}');", "a;\n".repeat(400_000));
        assert_eq!(texts(&text), [&text[..text.len() - 1]]);
    }
}
