//! Statements that need a default schema.

use crate::lexer::{name, tokens, Token};

/// Words between FROM, INTO, UPDATE or TABLE and the table.
const BETWEEN: &[&str] = &["IF", "NOT", "EXISTS", "LOW_PRIORITY", "IGNORE", "ONLY"];
/// What is no table in its place.
const NO_TABLE: &[&str] = &["SELECT", "DUAL", "LATERAL", "OUTFILE", "DUMPFILE"];

/// Whether the statement names a table without its schema, by its text: a word after FROM, JOIN, INTO, UPDATE or TABLE. In
/// doubt, as in `TRIM(a FROM b)`, it does.
pub fn needs_default_schema(text: &[u8]) -> bool {
    let all: Vec<Token<'_>> = tokens(text).collect();
    all.iter().enumerate().any(|(index, token)| {
        let is_after = |words| index > 0 && all[index - 1].is_any(words);
        let is_clause = token.is_word("UPDATE") && is_after(&["FOR", "KEY", "ON"]);
        if is_clause || !token.is_any(&["FROM", "JOIN", "INTO", "UPDATE", "TABLE"]) {
            return false;
        }
        let mut rest = all[index + 1..].iter().skip_while(|token| token.is_any(BETWEEN));
        let is_table = rest.next().is_some_and(|token| {
            // With ANSI_QUOTES, a name.
            token.text.starts_with(b"\"") || name(token).is_some() && !token.is_any(NO_TABLE)
        });
        is_table && !rest.next().is_some_and(|next| next.is_symbol(b'.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_without_a_schema_need_a_default_one() {
        for text in [
            "SELECT 1 FROM item",
            "INSERT IGNORE INTO `item` VALUES (1)",
            "update item set a = 1",
            "SELECT * FROM shop.item JOIN sale ON 1",
            "DROP TABLE IF EXISTS item",
            "SELECT * FROM \"item\"",
        ] {
            assert!(needs_default_schema(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT 1",
            "COMMIT",
            "SELECT 1 FROM DUAL",
            "SELECT 1 FROM shop.item FOR UPDATE",
            "SELECT 1 FROM (SELECT 2) x",
            "INSERT INTO shop.item VALUES (1) ON DUPLICATE KEY UPDATE a = 1",
            "SELECT 1 INTO @a",
            "SET NAMES utf8mb4",
        ] {
            assert!(!needs_default_schema(text.as_bytes()), "{text}");
        }
    }
}
