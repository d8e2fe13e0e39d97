//! Statements whose result does not depend on the data alone.

use crate::lexer::{tokens, Kind, Token};
use crate::unique::{finds_one_row, UniqueKeys};

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

/// Why the same statement may return other rows on the same data. It explains neither an error nor another number of
/// changed rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varying {
    /// The first reason found, as it stands in the statement.
    pub reason: String,
    /// Whether the number of rows may differ too.
    pub in_number: bool,
}

/// Why the statement's result does not depend on the data alone; none where it does, which a LIMIT does not change for a
/// query that finds one row at most by these unique keys.
pub fn nondeterministic(text: &[u8], keys: &UniqueKeys) -> Option<Varying> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    if let Some(reason) = varying(&all) {
        return Some(Varying {
            reason,
            in_number: true,
        });
    }
    let in_subquery = limited(&all)?;
    (!finds_one_row(text, keys)).then(|| Varying {
        reason: "LIMIT without ORDER BY".into(),
        // So many rows as there are, up to the limit; unless the limit is of a subquery.
        in_number: in_subquery,
    })
}

/// Whether a LIMIT without ORDER BY is in a subquery; none where there is no such LIMIT.
fn limited(all: &[Token<'_>]) -> Option<bool> {
    let mut is_ordered = vec![false];
    let mut found = None;
    for token in all {
        let depth = is_ordered.len();
        if token.is_symbol(b'(') {
            is_ordered.push(false);
        } else if token.is_symbol(b')') && depth > 1 {
            is_ordered.pop();
        } else if token.is_word("ORDER") {
            is_ordered[depth - 1] = true;
        } else if token.is_word("LIMIT") && !is_ordered[depth - 1] {
            found = Some(found.unwrap_or(false) || depth > 1);
        }
    }
    found
}

/// What in a statement has another value in each execution.
fn varying(all: &[Token<'_>]) -> Option<String> {
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
        let is_skip = token.is_word("SKIP") && all.get(index + 1).is_some_and(|next| next.is_word("LOCKED"));
        if is_skip {
            return Some("SKIP LOCKED".into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_varies_by_itself_is_named() {
        let keys: UniqueKeys = [("t".into(), [["id".into()].into()].into())].into();
        for (text, expected) in [
            ("SELECT now()", Some(("NOW()", true))),
            ("SELECT CURRENT_TIMESTAMP", Some(("CURRENT_TIMESTAMP", true))),
            ("SELECT @@version", Some(("@@version", true))),
            ("SELECT @i", Some(("@i", true))),
            ("SHOW TABLES", Some(("SHOW", true))),
            (
                "SELECT * FROM information_schema.tables",
                Some(("information_schema", true)),
            ),
            ("SELECT a FROM t FOR UPDATE SKIP LOCKED", Some(("SKIP LOCKED", true))),
            ("SELECT a FROM t LIMIT 3", Some(("LIMIT without ORDER BY", false))),
            (
                "SELECT a FROM (SELECT a FROM t LIMIT 3) x WHERE a > 3",
                Some(("LIMIT without ORDER BY", true)),
            ),
            ("SELECT a FROM t WHERE id = 3 LIMIT 1", None),
            (
                "SELECT (SELECT COUNT(*) FROM u), a FROM t LIMIT 3",
                Some(("LIMIT without ORDER BY", false)),
            ),
            (
                "SELECT a FROM (SELECT a FROM t LIMIT 3) x ORDER BY a",
                Some(("LIMIT without ORDER BY", true)),
            ),
            (
                "SELECT GROUP_CONCAT(a ORDER BY a) FROM t GROUP BY b LIMIT 3",
                Some(("LIMIT without ORDER BY", false)),
            ),
            (
                "SELECT a FROM t WHERE id = 3 AND b < NOW() LIMIT 1",
                Some(("NOW()", true)),
            ),
            ("SELECT a FROM t ORDER BY a LIMIT 3", None),
            ("SELECT user, version FROM t", None),
            ("SELECT 'now()'", None),
        ] {
            let found = nondeterministic(text.as_bytes(), &keys);
            let found = found.as_ref().map(|found| (found.reason.as_str(), found.in_number));
            assert_eq!(found, expected, "{text}");
        }
    }
}
