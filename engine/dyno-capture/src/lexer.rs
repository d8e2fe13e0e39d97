//! Splits a statement into tokens, by MySQL's and MariaDB's lexical rules with their default SQL mode: double quotes are
//! strings, backslashes escape. What is in double quotes beside a point can only be a name, of the mode ANSI_QUOTES.
//!
//! White space and comments are skipped. The contents of executable comments (`/*! … */`, `/*M! … */`) are code, and
//! optimizer hints (`/*+ … */`) are tokens. Any bytes give tokens: what is not closed ends with the text.

/// A version that no server has: what mariadb-dump writes for its client alone.
const FOR_CLIENTS: &[u8] = b"999999";

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or a name.
    Word,
    /// A name in backticks; one in double quotes that is a part of a longer name.
    Quoted,
    /// A string, with its quotes and its prefix (`x'41'`).
    String,
    /// A number without its sign.
    Number,
    /// `@name` or `@@name`.
    Variable,
    /// `?`.
    Placeholder,
    /// An optimizer hint with its marks.
    Hint,
    /// One byte of anything else.
    Symbol,
}

/// A part of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub text: &'a [u8],
    /// Where it begins in the statement.
    pub start: usize,
}

impl Token<'_> {
    /// Whether it is this keyword, in any case.
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word.as_bytes())
    }

    /// Whether it is one of these keywords, in any case.
    pub fn is_any(&self, words: &[&str]) -> bool {
        self.kind == Kind::Word && words.iter().any(|word| self.text.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Whether it is this byte.
    pub fn is_symbol(&self, symbol: u8) -> bool {
        self.kind == Kind::Symbol && self.text == [symbol]
    }
}

/// The tokens of a statement from left to right.
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    /// Executable comments that are open.
    open_comments: u32,
    /// Whether a point after the last token belongs to a name.
    after_name: bool,
    /// Whether the last token is a point.
    after_point: bool,
    /// Whether the text ends within a comment.
    ends_in_comment: bool,
}

/// Splits a statement into its tokens.
pub fn tokens(text: &[u8]) -> Tokens<'_> {
    Tokens {
        text,
        at: 0,
        open_comments: 0,
        after_name: false,
        after_point: false,
        ends_in_comment: false,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl<'a> Tokens<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn starts(&self, prefix: &[u8]) -> bool {
        self.rest().starts_with(prefix)
    }

    /// Where `end` ends from `from` on, or the end of the text.
    fn after(&self, from: usize, end: &[u8]) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        let found = rest.windows(end.len()).position(|part| part == end);
        found.map_or(self.text.len(), |position| from + position + end.len())
    }

    fn skip_blanks_and_comments(&mut self) {
        loop {
            let before = self.at;
            let rest = self.rest();
            self.at += rest
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace() || **byte == 0)
                .count();
            let mark: Option<&[u8]> = [b"/*!".as_slice(), b"/*M!"].into_iter().find(|mark| self.starts(mark));
            if let Some(mark) = mark.filter(|mark| !self.rest()[mark.len()..].starts_with(FOR_CLIENTS)) {
                self.at += mark.len();
                self.at += self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
                self.open_comments += 1;
            } else if self.open_comments > 0 && self.starts(b"*/") {
                self.at += 2;
                self.open_comments -= 1;
            } else if self.starts(b"/*") && !self.starts(b"/*+") {
                self.at = self.after(self.at + 2, b"*/");
                self.ends_in_comment = self.at == self.text.len() && !self.text.ends_with(b"*/");
            } else if self.starts(b"#") || self.is_dashed_comment() {
                self.at = self.after(self.at, b"\n");
            }
            if self.at == before {
                return;
            }
        }
    }

    /// `--` begins a comment only before a blank or the end.
    fn is_dashed_comment(&self) -> bool {
        self.starts(b"--")
            && self
                .rest()
                .get(2)
                .is_none_or(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
    }

    /// The end of a quoted part whose opening quote is at `from`.
    fn quoted_end(&self, from: usize) -> usize {
        closed_at(self.text, from).unwrap_or(self.text.len())
    }

    /// The end of a number that begins here; none if it is the beginning of a name, as in `1st`.
    fn number_end(&self) -> Option<usize> {
        let rest = self.rest();
        let digits = |from: usize, is: fn(&u8) -> bool| rest[from..].iter().take_while(|byte| is(byte)).count();
        let radix = |marks: [&[u8]; 2], is: fn(&u8) -> bool| {
            let is_marked = marks.iter().any(|mark| rest.starts_with(mark));
            let count = if is_marked { digits(2, is) } else { 0 };
            let end = 2 + count;
            (count > 0 && !rest.get(end).is_some_and(|byte| is_word(*byte))).then_some(self.at + end)
        };
        let hexadecimal = radix([b"0x", b"0X"], u8::is_ascii_hexdigit);
        if let Some(end) = hexadecimal.or_else(|| radix([b"0b", b"0B"], |byte| matches!(byte, b'0' | b'1'))) {
            return Some(end);
        }
        let mut end = digits(0, u8::is_ascii_digit);
        let mut has_point = false;
        if rest.get(end) == Some(&b'.') {
            has_point = true;
            end += 1 + digits(end + 1, u8::is_ascii_digit);
        }
        if rest.get(end).is_some_and(|byte| matches!(byte, b'e' | b'E')) {
            let sign = usize::from(rest.get(end + 1).is_some_and(|byte| matches!(byte, b'+' | b'-')));
            let exponent = digits((end + 1 + sign).min(rest.len()), u8::is_ascii_digit);
            if exponent > 0 {
                end += 1 + sign + exponent;
            }
        }
        (has_point || !rest.get(end).is_some_and(|byte| is_word(*byte))).then_some(self.at + end)
    }

    fn word_end(&self) -> usize {
        self.at + self.rest().iter().take_while(|byte| is_word(**byte)).count()
    }

    fn is_before_point(&self, end: usize) -> bool {
        let mut next = self.clone();
        next.at = end;
        next.skip_blanks_and_comments();
        next.starts(b".")
    }

    fn measure(&self, byte: u8) -> (Kind, usize) {
        let next = self.rest().get(1).copied();
        match byte {
            b'"' => {
                let end = self.quoted_end(self.at);
                let is_name = self.after_point || self.is_before_point(end);
                (if is_name { Kind::Quoted } else { Kind::String }, end)
            }
            b'\'' => (Kind::String, self.quoted_end(self.at)),
            b'`' => (Kind::Quoted, self.quoted_end(self.at)),
            b'?' => (Kind::Placeholder, self.at + 1),
            b'/' if self.starts(b"/*+") => (Kind::Hint, self.after(self.at + 3, b"*/")),
            b'x' | b'X' | b'b' | b'B' | b'n' | b'N' if next == Some(b'\'') => {
                (Kind::String, self.quoted_end(self.at + 1))
            }
            b'.' if !self.after_name && next.is_some_and(|byte| byte.is_ascii_digit()) => {
                (Kind::Number, self.number_end().unwrap_or(self.at + 1))
            }
            b'0'..=b'9' => match self.number_end() {
                Some(end) => (Kind::Number, end),
                None => (Kind::Word, self.word_end()),
            },
            b'@' => {
                let marks = self.rest().iter().take_while(|byte| **byte == b'@').count();
                let name = self.at + marks;
                match self.text.get(name) {
                    Some(b'`' | b'\'' | b'"') => (Kind::Variable, self.quoted_end(name)),
                    _ => {
                        let rest = &self.text[name..];
                        let length = rest.iter().take_while(|byte| is_word(**byte) || **byte == b'.').count();
                        (Kind::Variable, name + length)
                    }
                }
            }
            byte if is_word(byte) => (Kind::Word, self.word_end()),
            _ => (Kind::Symbol, self.at + 1),
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blanks_and_comments();
        let byte = *self.rest().first()?;
        let (kind, end) = self.measure(byte);
        let start = self.at;
        self.at = end.clamp(start + 1, self.text.len());
        self.after_name = matches!(kind, Kind::Word | Kind::Quoted);
        let token = Token {
            kind,
            text: &self.text[start..self.at],
            start,
        };
        self.after_point = token.is_symbol(b'.');
        Some(token)
    }
}

/// The end of a quoted part whose opening quote is at `from`; none if it has no end.
fn closed_at(text: &[u8], from: usize) -> Option<usize> {
    let quote = text[from];
    let mut at = from + 1;
    loop {
        let byte = *text.get(at)?;
        if byte == b'\\' && quote != b'`' {
            at += 2;
        } else if byte == quote {
            if text.get(at + 1) != Some(&quote) {
                return Some(at + 1);
            }
            at += 2;
        } else {
            at += 1;
        }
    }
}

/// Whether the text ends within a string, a quoted name, a comment or a parenthesis.
pub fn is_cut(text: &[u8]) -> bool {
    let mut depth = 0i64;
    let mut last = None;
    let mut all = tokens(text);
    for token in all.by_ref() {
        depth += i64::from(token.is_symbol(b'(')) - i64::from(token.is_symbol(b')'));
        last = Some(token);
    }
    let Some(last) = last else {
        return false;
    };
    let quote = match last.kind {
        Kind::String | Kind::Quoted | Kind::Variable => {
            last.text.iter().position(|byte| matches!(byte, b'\'' | b'"' | b'`'))
        }
        _ => None,
    };
    depth > 0 || all.ends_in_comment || quote.is_some_and(|quote| closed_at(last.text, quote).is_none())
}

/// A name without its quotes.
pub fn name(token: &Token<'_>) -> Option<String> {
    match token.kind {
        Kind::Word => Some(std::str::from_utf8(token.text).ok()?.to_string()),
        Kind::Quoted => unquoted(token),
        _ => None,
    }
}

/// What is in the backticks or double quotes of a name, where nothing but a name can be.
pub fn unquoted(token: &Token<'_>) -> Option<String> {
    let text = std::str::from_utf8(token.text).ok()?;
    ["`", "\""].into_iter().find_map(|quote| {
        Some(
            text.strip_prefix(quote)?
                .strip_suffix(quote)?
                .replace(&quote.repeat(2), quote),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(Kind, &str)> {
        let shown = |token: Token<'static>| (token.kind, std::str::from_utf8(token.text).unwrap());
        // The text outlives the test.
        let text: &'static str = Box::leak(text.to_string().into_boxed_str());
        tokens(text.as_bytes()).map(shown).collect()
    }

    #[test]
    fn strings_end_where_their_quote_is_neither_doubled_nor_escaped() {
        use Kind::{Quoted, String, Symbol};
        assert_eq!(
            split(r#"'it''s','a\'b',"say ""x""",`a``b`,x'4D'"#),
            [
                (String, "'it''s'"),
                (Symbol, ","),
                (String, r"'a\'b'"),
                (Symbol, ","),
                (String, r#""say ""x""""#),
                (Symbol, ","),
                (Quoted, "`a``b`"),
                (Symbol, ","),
                (String, "x'4D'"),
            ]
        );
        assert_eq!(split("'open"), [(String, "'open")]);
        assert_eq!(split("'open\\"), [(String, "'open\\")]);
    }

    #[test]
    fn numbers_are_told_from_names() {
        use Kind::{Number, Symbol, Word};
        for number in [
            "1",
            "1.",
            "1.5",
            ".5",
            "1e9",
            "1.5E-3",
            "0xFF",
            "0b01",
            "18446744073709551615",
        ] {
            assert_eq!(split(number), [(Number, number)]);
        }
        assert_eq!(split("1st"), [(Word, "1st")]);
        assert_eq!(split("t1.c2"), [(Word, "t1"), (Symbol, "."), (Word, "c2")]);
        assert_eq!(split("0xZZ"), [(Word, "0xZZ")]);
    }

    #[test]
    fn comments_are_skipped_and_executable_ones_are_code() {
        use Kind::{Hint, Number, Symbol, Word};
        assert_eq!(
            split("a -- b\nc # d\ne /* f */ g"),
            [(Word, "a"), (Word, "c"), (Word, "e"), (Word, "g")]
        );
        assert_eq!(split("1--1").len(), 4, "two signs, no comment");
        assert_eq!(
            split("/*!40001 SQL_NO_CACHE */ 1"),
            [(Word, "SQL_NO_CACHE"), (Number, "1")]
        );
        assert_eq!(split("/*M!100100 x */"), [(Word, "x")]);
        assert_eq!(
            split("/*+ MAX_EXECUTION_TIME(1) */ *"),
            [(Hint, "/*+ MAX_EXECUTION_TIME(1) */"), (Symbol, "*")]
        );
        assert_eq!(
            split("/*M!999999\\- enable the sandbox mode */ 1"),
            [(Number, "1")],
            "for the client alone"
        );
        assert_eq!(split("/* open"), []);
    }

    #[test]
    fn double_quotes_beside_a_point_are_around_a_name() {
        use Kind::{Quoted, String, Symbol, Word};
        let (point, comma) = ((Symbol, "."), (Symbol, ","));
        let both = [(Quoted, "\"my \"\"shop\""), point, (Quoted, "\"t\"")];
        assert_eq!(split("\"my \"\"shop\".\"t\""), both);
        assert_eq!(split("\"my \"\"shop\" /* x */ . \n\"t\""), both);
        assert_eq!(split("a.\"b\""), [(Word, "a"), point, (Quoted, "\"b\"")]);
        assert_eq!(split("\"a\",\"b\""), [(String, "\"a\""), comma, (String, "\"b\"")]);
        assert_eq!(
            name(&tokens(b"\"my \"\"shop\".t").next().unwrap()).unwrap(),
            "my \"shop"
        );
    }

    #[test]
    fn variables_have_their_marks() {
        assert_eq!(split("@@session.sql_mode"), [(Kind::Variable, "@@session.sql_mode")]);
        assert_eq!(split("@`a b`"), [(Kind::Variable, "@`a b`")]);
    }

    #[test]
    fn cut_texts_are_found() {
        for text in [
            "SELECT 'it",
            "SELECT 'it\\'",
            "SELECT `a",
            "INSERT INTO t VALUES (1, 2",
            "SELECT 1 /* never",
            "SELECT @'a",
        ] {
            assert!(is_cut(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT 'it''s'",
            "SELECT ('(')",
            "SELECT 1 /* x */",
            "",
            "SELECT '' -- /* x",
            "SELECT )",
        ] {
            assert!(!is_cut(text.as_bytes()), "{text}");
        }
    }
}
