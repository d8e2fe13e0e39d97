//! Statements of sessions with the SQL mode ANSI_QUOTES: what stands in double quotes is a name, not a string.

use crate::lexer::{tokens, Kind, Token};

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
mod tests {
    use super::has_ansi_quotes;

    #[test]
    fn a_name_in_double_quotes_is_told_from_a_string() {
        for text in [
            "SELECT \"a\" FROM \"t\"",
            "SELECT \"t\".\"a\" FROM t",
            "SELECT t.\"a\" FROM t",
            "INSERT INTO \"t\" VALUES ('x')",
            "UPDATE \"t\" SET a = 1",
            "SELECT 1 FROM a JOIN \"b\"",
            "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_TRANS_TABLES'",
            "SET @@sql_mode='ansi'",
        ] {
            assert!(has_ansi_quotes(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT \"a\" AS \"b\" FROM t WHERE c = \"d\" AND e LIKE \"FROM\"",
            "SELECT TRIM('x' FROM \"xa\"), EXTRACT(YEAR FROM \"2026-11-28\")",
            "INSERT INTO t VALUES (\"x\", \"y\")",
            "SET sql_mode = 'STRICT_TRANS_TABLES'",
            "SET @a = 'ANSI'",
        ] {
            assert!(!has_ansi_quotes(text.as_bytes()), "{text}");
        }
    }
}
