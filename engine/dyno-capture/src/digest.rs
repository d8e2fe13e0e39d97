//! Statements without their literals, so that those that differ only in values are counted together;
//! and short names for them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lexer::{name, tokens, Kind, Token};

/// Words that are written in capitals in a digest, so that `select` and `SELECT` have the same one. Names keep their case:
/// those of tables are case-sensitive on Linux.
const KEYWORDS: &[&str] = &[
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BINARY",
    "BY",
    "CALL",
    "CASE",
    "CAST",
    "COLLATE",
    "COLUMN",
    "COMMIT",
    "CONVERT",
    "CREATE",
    "CROSS",
    "DATABASE",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DIV",
    "DO",
    "DROP",
    "DUPLICATE",
    "ELSE",
    "END",
    "ESCAPE",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FOR",
    "FORCE",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IF",
    "IGNORE",
    "IN",
    "INDEX",
    "INNER",
    "INSERT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "KEY",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCK",
    "LOCKED",
    "MODE",
    "NATURAL",
    "NOT",
    "NOWAIT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PREPARE",
    "PRIMARY",
    "RECURSIVE",
    "REGEXP",
    "RELEASE",
    "RENAME",
    "REPLACE",
    "RETURNING",
    "RIGHT",
    "RLIKE",
    "ROLLBACK",
    "SAVEPOINT",
    "SELECT",
    "SET",
    "SHARE",
    "SHOW",
    "SKIP",
    "START",
    "STRAIGHT_JOIN",
    "TABLE",
    "TABLES",
    "THEN",
    "TO",
    "TRANSACTION",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "UNIQUE",
    "UNLOCK",
    "UPDATE",
    "USE",
    "USING",
    "VALUE",
    "VALUES",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
    "XOR",
];

/// In the place of a list of literals.
const LIST: &str = "(?+)";

fn keyword(token: &Token<'_>) -> Option<&'static str> {
    let find = |word: &&&str| token.text.eq_ignore_ascii_case(word.as_bytes());
    (token.kind == Kind::Word)
        .then(|| KEYWORDS.iter().find(find).copied())
        .flatten()
}

/// The statement with `?` for each literal, `(?+)` for each list of literals (also of several such lists), keywords in
/// capitals, names without unnecessary backticks, and without comments and unnecessary blanks.
///
/// ```
/// use dyno_capture::digest;
///
/// assert_eq!(digest(b"select  * from `t` where a in (1, 2) -- x"), "SELECT * FROM t WHERE a IN (?+)");
/// assert_eq!(digest(b"INSERT INTO t VALUES (1,'a'),(2,NULL)"), "INSERT INTO t VALUES (?+)");
/// ```
pub fn digest(text: &[u8]) -> String {
    let mut pieces = Pieces::default();
    for token in tokens(text) {
        pieces.push(&token);
    }
    pieces.join()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Literal,
    List,
    Keyword,
    Name,
    Sign,
    Symbol,
}

#[derive(Debug, Default)]
struct Pieces {
    pieces: Vec<(Role, String)>,
}

impl Pieces {
    fn last(&self, back: usize) -> Option<(Role, &str)> {
        let index = self.pieces.len().checked_sub(back + 1)?;
        self.pieces.get(index).map(|(role, text)| (*role, text.as_str()))
    }

    fn add(&mut self, role: Role, text: impl Into<String>) {
        self.pieces.push((role, text.into()));
    }

    fn push(&mut self, token: &Token<'_>) {
        match token.kind {
            Kind::String | Kind::Number | Kind::Placeholder => self.literal(),
            Kind::Word => match keyword(token) {
                Some("NULL" | "TRUE" | "FALSE") if !self.follows_any(&["IS", "NOT", "DEFAULT", "ON"]) => self.literal(),
                Some(word) => self.add(Role::Keyword, word),
                None => self.add(Role::Name, String::from_utf8_lossy(token.text)),
            },
            Kind::Quoted => {
                let is_simple = |name: &String| {
                    !name.is_empty()
                        && name
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$')
                        && !name.bytes().all(|byte| byte.is_ascii_digit())
                };
                let simple = name(token).filter(is_simple);
                self.add(
                    Role::Name,
                    simple.unwrap_or_else(|| String::from_utf8_lossy(token.text).into_owned()),
                );
            }
            Kind::Variable | Kind::Hint => self.add(Role::Name, String::from_utf8_lossy(token.text)),
            Kind::Symbol => match token.text {
                b")" => self.close(),
                b"-" | b"+" if self.expects_operand() => self.add(Role::Sign, String::from_utf8_lossy(token.text)),
                _ => self.add(Role::Symbol, String::from_utf8_lossy(token.text)),
            },
        }
    }

    fn follows_any(&self, words: &[&str]) -> bool {
        self.last(0)
            .is_some_and(|(role, text)| role == Role::Keyword && words.contains(&text))
    }

    /// Whether a sign here belongs to the number after it.
    fn expects_operand(&self) -> bool {
        match self.last(0) {
            None | Some((Role::Keyword | Role::Sign, _)) => true,
            Some((Role::Symbol, text)) => text != ")",
            Some(_) => false,
        }
    }

    fn literal(&mut self) {
        while matches!(self.last(0), Some((Role::Sign, _))) {
            self.pieces.pop();
        }
        // Strings next to each other are one string.
        if !matches!(self.last(0), Some((Role::Literal, _))) {
            self.add(Role::Literal, "?");
        }
    }

    /// A closing parenthesis: a list of literals becomes one piece, and so do several such lists.
    fn close(&mut self) {
        let mut literals = 0;
        let mut back = 0;
        let is_list = loop {
            match self.last(back) {
                Some((Role::Literal, _)) => literals += 1,
                Some((Role::Symbol, ",")) => {}
                Some((Role::Symbol, "(")) => break literals > 0,
                _ => break false,
            }
            back += 1;
        };
        let follows_list = matches!(self.last(back + 1), Some((Role::Symbol, ",")))
            && matches!(self.last(back + 2), Some((Role::List, _)));
        let opens_list = matches!(self.last(back + 1), Some((Role::Keyword, "IN" | "VALUES" | "VALUE")));
        if !is_list || literals < 2 && !follows_list && !opens_list {
            self.add(Role::Symbol, ")");
            return;
        }
        let kept = self.pieces.len() - back - 1;
        self.pieces.truncate(if follows_list { kept - 1 } else { kept });
        if !follows_list {
            self.add(Role::List, LIST);
        }
    }

    fn join(&self) -> String {
        let mut text = String::new();
        let mut before: Option<&(Role, String)> = None;
        for piece in &self.pieces {
            let is_tight = match (before, piece.1.as_str()) {
                (None, _) | (_, "," | ")" | "." | ";") => true,
                (Some((_, before)), _) if before == "(" || before == "." => true,
                (Some((Role::Sign, _)), _) => true,
                (Some((Role::Name, _)), "(") => true,
                (Some((Role::Name, name)), LIST) => !name.starts_with('`'),
                (Some((Role::Symbol, before)), symbol) => {
                    piece.0 == Role::Symbol && is_operator(before) && is_operator(symbol)
                }
                _ => false,
            };
            if !is_tight {
                text.push(' ');
            }
            text.push_str(&piece.1);
            before = Some(piece);
        }
        let end = text.trim_end_matches([';', ' ']).len();
        text.truncate(end);
        text
    }
}

/// A digest in at most `most` characters: whole if it fits, else without the list of columns before FROM, so that the verb
/// and the tables stay.
pub fn digest_label(digest: &str, most: usize) -> String {
    let fits = |text: &str| text.chars().count() <= most;
    if fits(digest) {
        return digest.to_string();
    }
    let label = match from_place(digest) {
        Some(from) => format!("SELECT … {}", &digest[from..]),
        None => digest.to_string(),
    };
    if fits(&label) {
        return label;
    }
    let kept: String = label.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Where the FROM of a SELECT begins, outside of parentheses and quoted names.
fn from_place(digest: &str) -> Option<usize> {
    digest.strip_prefix("SELECT ")?;
    let (mut depth, mut is_quoted) = (0, false);
    for (place, byte) in digest.bytes().enumerate() {
        match byte {
            b'`' => is_quoted = !is_quoted,
            b'(' if !is_quoted => depth += 1,
            b')' if !is_quoted => depth -= 1,
            b'F' if !is_quoted
                && depth == 0
                && digest[..place].ends_with(' ')
                && digest[place..].starts_with("FROM ") =>
            {
                return Some(place);
            }
            _ => {}
        }
    }
    None
}

fn is_operator(symbol: &str) -> bool {
    matches!(symbol, "<" | ">" | "=" | "!" | ":" | "|" | "&")
}

/// A short name for a digest: XXH3 of its text, 64 bits.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16)
            .map(Fingerprint)
            .map_err(|_| serde::de::Error::custom(format!("'{text}' is not a fingerprint of 16 hexadecimal digits")))
    }
}

/// The fingerprint of bytes, such as a digest or the encoded values of a row.
pub fn fingerprint(bytes: &[u8]) -> Fingerprint {
    Fingerprint(xxhash_rust::xxh3::xxh3_64(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_question_marks_and_lists_collapse() {
        for (text, expected) in [
            ("SELECT * FROM t WHERE id = 42", "SELECT * FROM t WHERE id = ?"),
            (
                "select 'a' 'b', -1.5e3, 0xFF, x'41', NULL, TRUE",
                "SELECT ?, ?, ?, ?, ?, ?",
            ),
            (
                "SELECT a FROM t WHERE a IS NOT NULL AND b IN ('x')",
                "SELECT a FROM t WHERE a IS NOT NULL AND b IN (?+)",
            ),
            (
                "INSERT INTO t(a, b) VALUES (1, -2), (3, 4);",
                "INSERT INTO t(a, b) VALUES (?+)",
            ),
            (
                "UPDATE t SET stock = stock - 1 WHERE id=-7",
                "UPDATE t SET stock = stock - ? WHERE id = ?",
            ),
            ("SELECT SLEEP(0.2), CONCAT('a','b')", "SELECT SLEEP(?), CONCAT(?+)"),
            (
                "SELECT `t`.`a b` FROM db.`t` WHERE a<>1 && b>=2",
                "SELECT t.`a b` FROM db.t WHERE a <> ? && b >= ?",
            ),
            ("SELECT /* x */ 1 -- y", "SELECT ?"),
            ("SET @a := 1", "SET @a := ?"),
            ("SELECT ?", "SELECT ?"),
            ("SELECT (1)", "SELECT (?)"),
            ("", ""),
        ] {
            assert_eq!(digest(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn the_digest_of_a_digest_is_itself() {
        for text in [
            "SELECT a FROM t WHERE b = 'x' LIMIT 5",
            "UPDATE t SET a = a - 1 WHERE b < 4 AND c IS NULL",
        ] {
            let once = digest(text.as_bytes());
            assert_eq!(digest(once.as_bytes()), once);
        }
    }

    #[test]
    fn a_label_keeps_the_verb_and_the_tables() {
        for (digest, expected) in [
            ("SELECT a FROM t WHERE b = ?", "SELECT a FROM t WHERE b = ?"),
            (
                "SELECT first_column, second_column FROM orders WHERE b = ?",
                "SELECT … FROM orders WHERE b = ?",
            ),
            (
                "SELECT (SELECT MAX(a) FROM other), `x FROM y` FROM orders WHERE b = ?",
                "SELECT … FROM orders WHERE b = ?",
            ),
            (
                "UPDATE orders SET first_column = ? WHERE second_column = ?",
                "UPDATE orders SET first_column = ? WHER…",
            ),
            (
                "SELECT a_function(first_column, second_column, third)",
                "SELECT a_function(first_column, second_…",
            ),
        ] {
            assert_eq!(digest_label(digest, 40), expected);
        }
        assert_eq!(digest_label("SELECT ü, ü, ü FROM straße", 12), "SELECT … FR…");
    }
}
