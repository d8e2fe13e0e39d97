//! Statements whose result does not depend on the data alone.

use crate::lexer::{tokens, Kind, Token};

/// Functions whose result depends on the time, the session or chance.
const VARYING_FUNCTIONS: &[&str] = &[
    "NOW",
    "SYSDATE",
    "CURDATE",
    "CURTIME",
    "UNIX_TIMESTAMP",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "CURRENT_TIMESTAMP",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "RAND",
    "UUID",
    "UUID_SHORT",
    "RANDOM_BYTES",
    "SYS_GUID",
    "CONNECTION_ID",
    "LAST_INSERT_ID",
    "FOUND_ROWS",
    "ROW_COUNT",
    "USER",
    "CURRENT_USER",
    "SESSION_USER",
    "SYSTEM_USER",
    "VERSION",
    "DATABASE",
    "SCHEMA",
    "GET_LOCK",
    "BENCHMARK",
    "NEXTVAL",
    "LASTVAL",
];
/// The functions that are also called without parentheses.
const WITHOUT_PARENTHESES: &[&str] = &[
    "CURRENT_TIMESTAMP",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "CURRENT_USER",
];
/// Schemas whose tables describe the server itself.
const OWN_SCHEMAS: &[&str] = &["information_schema", "performance_schema", "sys"];

/// Why the same statement may return other rows on the same data: the first reason found, as it stands in the statement;
/// none where its result depends on the data alone.
pub fn nondeterministic(text: &[u8]) -> Option<String> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    let first = all.first()?;
    if first.is_any(&["SHOW", "EXPLAIN", "ANALYZE", "CHECK", "CHECKSUM"]) {
        return Some(String::from_utf8_lossy(first.text).to_uppercase());
    }
    for (index, token) in all.iter().enumerate() {
        let is_call = all.get(index + 1).is_some_and(|next| next.is_symbol(b'('));
        let is_bare = token.is_any(WITHOUT_PARENTHESES);
        if token.is_any(VARYING_FUNCTIONS) && (is_call || is_bare) {
            let name = String::from_utf8_lossy(token.text).to_uppercase();
            return Some(if is_call { format!("{name}()") } else { name });
        }
        if token.is_any(OWN_SCHEMAS) {
            return Some(String::from_utf8_lossy(token.text).to_lowercase());
        }
        if token.kind == Kind::Variable && token.text.starts_with(b"@") {
            return Some(String::from_utf8_lossy(token.text).into_owned());
        }
    }
    let has = |word: &str| all.iter().any(|token| token.is_word(word));
    (has("LIMIT") && !has("ORDER")).then(|| "LIMIT without ORDER BY".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_by_itself_is_named() {
        for (text, reason) in [
            ("SELECT now()", Some("NOW()")),
            ("SELECT CURRENT_TIMESTAMP", Some("CURRENT_TIMESTAMP")),
            ("SELECT @@version", Some("@@version")),
            ("SELECT @i", Some("@i")),
            ("SHOW TABLES", Some("SHOW")),
            ("SELECT * FROM information_schema.tables", Some("information_schema")),
            ("SELECT a FROM t LIMIT 3", Some("LIMIT without ORDER BY")),
            ("SELECT a FROM t ORDER BY a LIMIT 3", None),
            ("SELECT user, version FROM t", None),
            ("SELECT 'now()'", None),
        ] {
            assert_eq!(nondeterministic(text.as_bytes()).as_deref(), reason, "{text}");
        }
    }
}
