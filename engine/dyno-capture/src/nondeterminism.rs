//! Statements whose result does not depend on the data alone.

use crate::lexer::{name, tokens, Kind, Token};
use crate::query::{queries, split, Query, Within};
use crate::unique::{has_key, is_among, is_constant, is_ordered, most_rows, without_direction, Extent, UniqueKeys};

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
    "UUID_V4",
    "UUID_V7",
    "CONNECTION_ID",
    "LAST_INSERT_ID",
    "FOUND_ROWS",
    "ROW_COUNT",
    "USER",
    "CURRENT_USER",
    "CURRENT_ROLE",
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
    "CURRENT_ROLE",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
];
/// The functions that do not vary with an argument.
const OF_AN_ARGUMENT: &[&str] = &["UNIX_TIMESTAMP"];
/// Aggregates that have their values in the order in which a plan finds them.
const IN_ORDER_OF_THE_PLAN: &[&str] = &["GROUP_CONCAT", "JSON_ARRAYAGG", "JSON_OBJECTAGG"];
/// Aggregates that add numbers up: of FLOAT and DOUBLE the last digits depend on the order.
const SUMS: &[&str] = &[
    "SUM",
    "AVG",
    "STD",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
];
/// Schemas whose tables describe the server itself.
const OWN_SCHEMAS: &[&str] = &["information_schema", "performance_schema", "sys", "mysql"];

/// In what the results of a statement may differ on the same data; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freedom {
    /// The order of rows.
    Order,
    /// Which rows they are.
    Contents,
    /// The number of rows.
    Number,
}

/// Why the same statement may return other rows on the same data. It explains neither an error nor another number of
/// changed rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varying {
    /// The first reason found, as it stands in the statement.
    pub reason: String,
    /// In what.
    pub freedom: Freedom,
}

/// Why the result of a statement, or of those with this digest, does not depend on the data alone; none where it does.
/// A LIMIT changes nothing where fewer rows were returned, or a query finds no more of them by these unique keys.
pub fn nondeterministic(text: &[u8], keys: &UniqueKeys, extent: &Extent, rows: u64) -> Option<Varying> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    let varying = |reason: String, freedom| Some(Varying { reason, freedom });
    if let Some(reason) = self::varying(&all) {
        return varying(reason, Freedom::Number);
    }
    let none = UniqueKeys::new();
    // The name of a common table expression may be that of a table.
    let keys = if all[..].first().is_some_and(|first| first.is_word("WITH")) {
        &none
    } else {
        keys
    };
    let (queries, unknown) = (queries(text), Extent::default());
    let is_unordered = |query: &&Query<'_>| query.within != Within::Exists && !is_ordered(query, keys);
    let cuts = |query: &&Query<'_>| {
        let is_outermost = query.within == Within::Nothing;
        let limit = extent.limit.filter(|_| is_outermost);
        let most = most_rows(query, keys, if is_outermost { extent } else { &unknown });
        let is_whole =
            most == Some(1) || limit.is_some_and(|limit| rows < limit || most.is_some_and(|most| most <= limit));
        (query.has("LIMIT") || query.has("FETCH")) && !is_whole
    };
    let mut cut: Vec<&Query<'_>> = queries.iter().filter(is_unordered).filter(cuts).collect();
    // So many rows as there are, up to the limit; unless the limit is of a subquery.
    cut.sort_by_key(|query| query.within == Within::Nothing);
    if let Some(query) = cut.first() {
        let is_outermost = query.within == Within::Nothing;
        let freedom = if is_outermost {
            Freedom::Contents
        } else {
            Freedom::Number
        };
        let order = if query.has("ORDER") {
            "ORDER BY of a unique key"
        } else {
            "ORDER BY"
        };
        return varying(format!("LIMIT without {order}"), freedom);
    }
    let aggregates = queries.iter().flat_map(|query| unordered_aggregates(query, keys));
    if let Some(found) = aggregates.max_by_key(|found| found.freedom) {
        return Some(found);
    }
    let outermost = queries.first().filter(|query| query.has("ORDER")).filter(is_unordered);
    outermost.and_then(|_| varying("ORDER BY without a unique key".into(), Freedom::Order))
}

/// Whether a statement adds numbers up.
pub fn adds_up(text: &[u8]) -> bool {
    let all: Vec<Token<'_>> = tokens(text).collect();
    all.windows(2)
        .any(|pair| pair[0].is_any(SUMS) && pair[1].is_symbol(b'('))
}

/// The aggregates of a query whose values are in no order, or in one that leaves some open.
fn unordered_aggregates(query: &Query<'_>, keys: &UniqueKeys) -> Vec<Varying> {
    let mut found = Vec::new();
    let (mut opened, mut is_listed) = (0, query.within == Within::Nothing);
    for (place, token) in query.tokens.iter().enumerate() {
        opened += step(token);
        is_listed &= !token.is_any(&["WHERE", "HAVING"]);
        let Some(inside) = in_next_brackets(&query.tokens[place + 1..]).filter(|_| token.is_any(IN_ORDER_OF_THE_PLAN))
        else {
            continue;
        };
        let unique = match order_within(query, inside, keys) {
            Some(true) => continue,
            Some(false) => " of a unique key",
            None => "",
        };
        let name = String::from_utf8_lossy(token.text).to_uppercase();
        found.push(Varying {
            reason: format!("{name}() without ORDER BY{unique}"),
            // Elsewhere than in the select list it may decide which rows there are.
            freedom: if is_listed && opened == 0 {
                Freedom::Contents
            } else {
                Freedom::Number
            },
        });
    }
    found
}

/// By how much a token changes the number of open brackets.
fn step(token: &Token<'_>) -> i32 {
    i32::from(token.is_symbol(b'(')) - i32::from(token.is_symbol(b')'))
}

/// What is in the brackets that begin here; none where there are none.
fn in_next_brackets<'b, 'a>(tokens: &'b [Token<'a>]) -> Option<&'b [Token<'a>]> {
    let mut opened = 0;
    let end = tokens.iter().position(|token| {
        opened += step(token);
        opened == 0
    })?;
    (end > 0).then(|| &tokens[1..end])
}

/// Whether the ORDER BY in an aggregate leaves no two of its values that differ in any order; none without one.
fn order_within(query: &Query<'_>, inside: &[Token<'_>], keys: &UniqueKeys) -> Option<bool> {
    let is_comma = |token: &Token<'_>| token.is_symbol(b',');
    let parts = split(inside, |token| token.is_word("ORDER"));
    let [values, [_by, order @ ..]] = &parts[..] else {
        return None;
    };
    let end = order.iter().position(|token| token.is_any(&["SEPARATOR", "LIMIT"]));
    let by = split(&order[..end.unwrap_or(order.len())], is_comma);
    let mut by: Vec<&[Token<'_>]> = by.into_iter().map(without_direction).collect();
    let is_distinct = values.first().is_some_and(|first| first.is_word("DISTINCT"));
    let values = split(&values[usize::from(is_distinct)..], is_comma);
    if values.iter().all(|item| is_constant(item) || is_among(item, &by)) {
        return Some(true);
    }
    // All values of a group have the same of these.
    by.extend(query.by("GROUP").filter(|_| !query.is_rolled_up()).unwrap_or_default());
    Some(!is_distinct && has_key(query, &by, keys))
}

/// Whether a statement says in which order it returns its rows.
pub fn has_order(text: &[u8]) -> bool {
    queries(text).first().is_some_and(|query| query.has("ORDER"))
}

/// What in a statement has another value in each execution.
fn varying(all: &[Token<'_>]) -> Option<String> {
    let first = all.first()?;
    if first.is_any(&["SHOW", "EXPLAIN", "ANALYZE", "CHECK", "CHECKSUM"]) {
        return Some(String::from_utf8_lossy(first.text).to_uppercase());
    }
    for (index, token) in all.iter().enumerate() {
        let is_call = all.get(index + 1).is_some_and(|next| next.is_symbol(b'('));
        let follows_point = index > 0 && all[index - 1].is_symbol(b'.');
        let is_bare = token.is_any(WITHOUT_PARENTHESES) && !follows_point;
        let has_argument = is_call && !all.get(index + 2).is_some_and(|next| next.is_symbol(b')'));
        let is_fixed = has_argument && token.is_any(OF_AN_ARGUMENT);
        if token.is_any(VARYING_FUNCTIONS) && (is_call || is_bare) && !is_fixed {
            let name = String::from_utf8_lossy(token.text).to_uppercase();
            return Some(if is_call { format!("{name}()") } else { name });
        }
        let is_qualifier = all.get(index + 1).is_some_and(|next| next.is_symbol(b'.'));
        if let Some(name) = name(token).filter(|_| is_qualifier && !follows_point) {
            if OWN_SCHEMAS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                return Some(name.to_lowercase());
            }
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

    use Freedom::{Contents, Number, Order};

    fn found(text: &str, rows: u64) -> Option<(String, Freedom)> {
        let key = |column: &str| [(column.to_string(), false)].into();
        let keys: UniqueKeys = [("t".into(), [key("id")].into())].into();
        let digest = crate::digest(text.as_bytes());
        let found = nondeterministic(digest.as_bytes(), &keys, &crate::extent(text.as_bytes()), rows);
        found.map(|found| (found.reason, found.freedom))
    }

    #[test]
    fn what_varies_by_itself_is_named() {
        const NO_KEY: &str = "GROUP_CONCAT() without ORDER BY of a unique key";
        for (text, expected) in [
            ("SELECT now()", Some(("NOW()", Number))),
            ("SELECT CURRENT_TIMESTAMP", Some(("CURRENT_TIMESTAMP", Number))),
            ("SELECT utc_date", Some(("UTC_DATE", Number))),
            ("SELECT @@version", Some(("@@version", Number))),
            ("SELECT @i", Some(("@i", Number))),
            ("SHOW TABLES", Some(("SHOW", Number))),
            (
                "SELECT * FROM `information_schema`.`tables`",
                Some(("information_schema", Number)),
            ),
            ("SELECT sys, mysql FROM t", None),
            ("SELECT a FROM t FOR UPDATE SKIP LOCKED", Some(("SKIP LOCKED", Number))),
            (
                "SELECT a FROM t WHERE id = 3 AND b < NOW() LIMIT 1",
                Some(("NOW()", Number)),
            ),
            ("SELECT user, version FROM t", None),
            ("SELECT UNIX_TIMESTAMP()", Some(("UNIX_TIMESTAMP()", Number))),
            ("SELECT id FROM t WHERE b > UNIX_TIMESTAMP('2020-01-01')", None),
            ("SELECT UNIX_TIMESTAMP(now())", Some(("NOW()", Number))),
            ("SELECT uuid_v7()", Some(("UUID_V7()", Number))),
            (
                "SELECT GROUP_CONCAT(a) FROM t GROUP BY b",
                Some(("GROUP_CONCAT() without ORDER BY", Contents)),
            ),
            (
                "SELECT GROUP_CONCAT(a ORDER BY a), JSON_ARRAYAGG((SELECT a FROM t ORDER BY id)) FROM t",
                Some(("JSON_ARRAYAGG() without ORDER BY", Contents)),
            ),
            (
                "SELECT b FROM t GROUP BY b HAVING GROUP_CONCAT(a) = 'x,y'",
                Some(("GROUP_CONCAT() without ORDER BY", Number)),
            ),
            (
                "SELECT a FROM t WHERE b = (SELECT JSON_OBJECTAGG(a, b) FROM t)",
                Some(("JSON_OBJECTAGG() without ORDER BY", Number)),
            ),
            ("SELECT GROUP_CONCAT(DISTINCT a ORDER BY a) FROM t", None),
            (
                "SELECT GROUP_CONCAT(a, ':', b ORDER BY b DESC, a SEPARATOR ';') FROM t, u",
                None,
            ),
            ("SELECT GROUP_CONCAT(a ORDER BY b, id) FROM t", None),
            ("SELECT GROUP_CONCAT(a ORDER BY b) FROM t GROUP BY id, c", None),
            ("SELECT GROUP_CONCAT(a ORDER BY b) FROM t", Some((NO_KEY, Contents))),
            (
                "SELECT UPPER(GROUP_CONCAT(a ORDER BY b)) FROM t",
                Some((NO_KEY, Number)),
            ),
            (
                "SELECT GROUP_CONCAT(DISTINCT a ORDER BY id) FROM t",
                Some((NO_KEY, Contents)),
            ),
            (
                "SELECT GROUP_CONCAT(DISTINCT CONCAT(a, b) ORDER BY a) FROM t",
                Some((NO_KEY, Contents)),
            ),
            (
                "SELECT GROUP_CONCAT(a ORDER BY t.id) FROM t JOIN u",
                Some((NO_KEY, Contents)),
            ),
            (
                "SELECT GROUP_CONCAT(a ORDER BY b) FROM t GROUP BY id, c WITH ROLLUP",
                Some((NO_KEY, Contents)),
            ),
            ("SELECT group_concat FROM t", None),
            ("SELECT 'now()'", None),
        ] {
            let expected = expected.map(|(reason, freedom)| (reason.to_string(), freedom));
            assert_eq!(found(text, 3), expected, "{text}");
        }
    }

    #[test]
    fn sums_are_found() {
        assert!(adds_up(b"SELECT b, ROUND(avg(a)) FROM t GROUP BY b"));
        assert!(!adds_up(b"SELECT sum, MAX(a) FROM t"));
    }

    #[test]
    fn a_limit_varies_where_it_may_cut_other_rows() {
        const NO_ORDER: &str = "LIMIT without ORDER BY";
        const NO_KEY: &str = "LIMIT without ORDER BY of a unique key";
        for (text, expected) in [
            ("SELECT a FROM t LIMIT 3", Some((NO_ORDER, Contents))),
            ("SELECT a FROM t LIMIT 4", None),
            ("SELECT a FROM t LIMIT 4 OFFSET 1", Some((NO_ORDER, Contents))),
            ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", Some((NO_ORDER, Contents))),
            ("SELECT a FROM t ORDER BY b LIMIT 3", Some((NO_KEY, Contents))),
            (
                "SELECT a FROM t ORDER BY b LIMIT 4",
                Some(("ORDER BY without a unique key", Order)),
            ),
            (
                "SELECT a FROM t ORDER BY b",
                Some(("ORDER BY without a unique key", Order)),
            ),
            ("SELECT a FROM t ORDER BY b, id LIMIT 3", None),
            ("SELECT a FROM t ORDER BY a LIMIT 3", None),
            ("SELECT a FROM t", None),
            (
                "SELECT a FROM (SELECT a FROM t LIMIT 3) x WHERE a > 3",
                Some((NO_ORDER, Number)),
            ),
            (
                "SELECT a FROM (SELECT a FROM t LIMIT 3) x ORDER BY a",
                Some((NO_ORDER, Number)),
            ),
            (
                "SELECT a FROM (SELECT a FROM t ORDER BY b LIMIT 3) x ORDER BY a",
                Some((NO_KEY, Number)),
            ),
            (
                "SELECT a FROM (SELECT a FROM t WHERE id = 1 LIMIT 3) x ORDER BY a",
                None,
            ),
            ("SELECT EXISTS (SELECT 1 FROM t WHERE b LIMIT 1)", None),
            (
                "SELECT (SELECT COUNT(*) FROM u), a FROM t LIMIT 3",
                Some((NO_ORDER, Contents)),
            ),
            (
                "SELECT GROUP_CONCAT(a ORDER BY a) FROM t GROUP BY b LIMIT 3",
                Some((NO_ORDER, Contents)),
            ),
            (
                "WITH t AS (SELECT 1 id) SELECT a FROM t WHERE id = 1 LIMIT 3",
                Some((NO_ORDER, Contents)),
            ),
            (
                "(SELECT a FROM t LIMIT 3) UNION (SELECT a FROM u)",
                Some((NO_ORDER, Number)),
            ),
        ] {
            let expected = expected.map(|(reason, freedom)| (reason.to_string(), freedom));
            assert_eq!(found(text, 3), expected, "{text}");
        }
    }

    #[test]
    fn a_limit_changes_nothing_of_rows_that_a_unique_key_finds() {
        for text in [
            "SELECT a FROM t WHERE id = 3 LIMIT 1",
            "SELECT a FROM t WHERE id IN (3) LIMIT 1",
            "SELECT a FROM t WHERE id IN (3) LIMIT 1 OFFSET 1",
            "SELECT a FROM t WHERE id <=> 3 LIMIT 1",
            "SELECT a FROM t WHERE id = ? LIMIT ?",
            "SELECT COUNT(*) FROM u LIMIT 1",
        ] {
            assert_eq!(found(text, 1), None, "{text}");
        }
        assert_eq!(found("SELECT a FROM t WHERE id IN (3, 4) LIMIT 2", 2), None);
        assert_eq!(found("SELECT a FROM t WHERE id IN (3, 4)", 2), None);
        for text in [
            "SELECT a FROM t WHERE id IN (3, 4) LIMIT 1",
            "SELECT a FROM t WHERE id IN (?, ?) LIMIT ?",
            "SELECT a FROM t WHERE id != 3 LIMIT 1",
            "SELECT a FROM t WHERE id = 1 OR b LIMIT 1",
        ] {
            assert_eq!(found(text, 1).map(|found| found.1), Some(Contents), "{text}");
        }
    }
}
