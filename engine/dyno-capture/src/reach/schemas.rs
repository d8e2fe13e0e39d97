//! The schemas that a statement names: before the names of tables and routines, and by themselves.

use std::ops::Range;

use super::{executed, object};
use crate::lexer::{name, tokens, unquoted, Kind, Token};

/// A schema that a statement names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSchema {
    /// Its name, without quotes.
    pub name: String,
    /// Where the name is in the statement, with its quotes.
    pub range: Range<usize>,
    /// Whether the schema itself is selected, made, changed or dropped, not a table or a routine of it.
    pub is_whole: bool,
}

/// Schemas of the server itself.
const SYSTEM_SCHEMAS: &[&str] = &["mysql", "information_schema", "performance_schema", "sys"];
/// After these words comes a table, a routine, or a list of them.
const BEFORE_TABLES: &[&str] = &[
    "FROM",
    "JOIN",
    "STRAIGHT_JOIN",
    "INTO",
    "UPDATE",
    "INSERT",
    "REPLACE",
    "DELETE",
    "TABLE",
    "TABLES",
    "TRUNCATE",
    "REFERENCES",
    "VIEW",
    "TRIGGER",
    "PROCEDURE",
    "FUNCTION",
    "SEQUENCE",
    "EVENT",
    "CALL",
    "HANDLER",
    "RENAME",
];
/// Words between those and the table.
const MODIFIERS: &[&str] = &[
    "LOW_PRIORITY",
    "HIGH_PRIORITY",
    "DELAYED",
    "IGNORE",
    "QUICK",
    "IF",
    "NOT",
    "EXISTS",
    "INTO",
    "FROM",
    "TABLE",
    "LATERAL",
    "ONLY",
    "TO",
    "AS",
];
/// A list of tables ends before these.
const AFTER_TABLES: &[&str] = &[
    "WHERE", "SET", "VALUES", "VALUE", "SELECT", "WITH", "GROUP", "ORDER", "LIMIT", "HAVING", "WINDOW", "UNION",
    "BEGIN", "ADD", "MODIFY", "CHANGE", "DO",
];
/// The arguments of these functions are sequences.
const OF_SEQUENCES: &[&str] = &["NEXTVAL", "LASTVAL", "SETVAL"];
/// In the parentheses of these functions, FROM is not followed by a table.
const WITH_FROM: &[&str] = &["EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "MID", "POSITION", "OVERLAY"];

/// Whether the schema is one of the server itself.
pub fn is_system_schema(name: &str) -> bool {
    SYSTEM_SCHEMAS.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// The schemas that a statement names, from left to right.
pub fn named_schemas(text: &[u8]) -> Vec<NamedSchema> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    let mut found = Vec::new();
    if let Some(whole) = whole_schema(&all) {
        found.push(whole);
        return found;
    }
    let mut reader = TableReader::default();
    let mut place = 0;
    while let Some(token) = all.get(place) {
        let (parts, after) = name_at(&all, place);
        let expects = reader.take(&all, place);
        let is_qualified = match parts {
            3 => true,
            2 => expects || all.get(after).is_some_and(|next| next.is_symbol(b'(')),
            _ => false,
        };
        if is_qualified {
            found.extend(name(token).map(|name| NamedSchema {
                name,
                range: token.start..token.start + token.text.len(),
                is_whole: false,
            }));
        }
        place = after.max(place + 1);
    }
    found
}

/// The tables that a statement writes, makes, drops or locks, and the routine that it calls, from left to right, each as
/// it is written, without quotes; none where its text does not show them.
pub fn written_tables(text: &[u8]) -> Vec<String> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    let mut found: Vec<String> = Vec::new();
    for statement in executed(&all) {
        for name in written_in(statement) {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

fn written_in(statement: &[Token<'_>]) -> Vec<String> {
    const VERBS: &[&str] = &["INSERT", "REPLACE", "UPDATE", "DELETE"];
    const OF_SEVERAL: &[&str] = &["DROP", "RENAME", "LOCK", "SELECT", "VALUES", "TABLE"];
    let mut depth = 0;
    // After WITH or EXPLAIN.
    let verb = statement.iter().position(|token| {
        depth += i32::from(token.is_symbol(b'(')) - i32::from(token.is_symbol(b')'));
        depth == 0 && token.is_any(VERBS)
    });
    let is_query = statement
        .first()
        .is_some_and(|first| first.is_any(&["SELECT", "CREATE"]));
    let Some(statement) = statement.get(verb.filter(|_| !is_query).unwrap_or(0)..) else {
        return Vec::new();
    };
    let begins = |words: &[&str]| statement.first().is_some_and(|first| first.is_any(words));
    let mut reader = TableReader::default();
    let mut found = Vec::new();
    let mut place = 0;
    while let Some(token) = statement.get(place) {
        let is_end = begins(&["UPDATE"]) && token.is_word("SET")
            || begins(&["DELETE"]) && !found.is_empty() && token.is_any(&["FROM", "USING", "WHERE"]);
        if is_end {
            break;
        }
        let (parts, after) = name_at(statement, place);
        let expects = reader.take(statement, place);
        if expects && after > place && !token.is_any(BEFORE_TABLES) && !token.is_any(MODIFIERS) {
            let words: Vec<String> = statement[place..after].iter().filter_map(name).collect();
            if parts > 0 || words.len() == 1 {
                found.push(words.join("."));
            }
            if !found.is_empty() && !begins(OF_SEVERAL) && !begins(&["UPDATE", "DELETE"]) {
                break;
            }
        }
        place = after.max(place + 1);
    }
    found
}

/// The schema that a statement selects, makes, changes or drops as a whole.
pub fn whole_schema(all: &[Token<'_>]) -> Option<NamedSchema> {
    let first = all.first()?;
    let place = if first.is_word("USE") {
        1
    } else if first.is_any(&["CREATE", "ALTER", "DROP"]) {
        let (kind, place) = object(all)?;
        if !kind.is_any(&["DATABASE", "SCHEMA"]) {
            return None;
        }
        let skipped = all[place + 1..]
            .iter()
            .take_while(|token| token.is_any(&["IF", "NOT", "EXISTS"]));
        place + 1 + skipped.count()
    } else {
        return None;
    };
    let token = all.get(place)?;
    Some(NamedSchema {
        name: name(token).or_else(|| unquoted(token))?,
        range: token.start..token.start + token.text.len(),
        is_whole: true,
    })
}

/// How many parts the name at a place has (0: there is none; a `*` is a part), and the place after it.
fn name_at(all: &[Token<'_>], place: usize) -> (usize, usize) {
    let is_name = |place: usize| {
        all.get(place)
            .is_some_and(|token| matches!(token.kind, Kind::Word | Kind::Quoted))
    };
    let is_point = |place: usize| all.get(place).is_some_and(|token| token.is_symbol(b'.'));
    if !is_name(place) || place > 0 && is_point(place - 1) {
        return (0, place + 1);
    }
    let mut parts = 1;
    let mut after = place + 1;
    while parts < 3 && is_point(after) && is_name(after + 1) {
        parts += 1;
        after += 2;
    }
    // `a.b.*` names a schema, `a.*` and the `t.*` of DELETE a table.
    let is_star = is_point(after) && all.get(after + 1).is_some_and(|token| token.is_symbol(b'*'));
    if is_star {
        return (if parts == 2 { 3 } else { 0 }, after + 2);
    }
    (parts, after)
}

/// Knows at each token whether a name there is that of a table or of a routine.
#[derive(Debug, Default)]
struct TableReader {
    depth: i32,
    /// The depth of the list of tables that is being read, and whether a name comes next in it.
    lists: Vec<(i32, bool)>,
    /// Depths of functions with FROM between their arguments.
    functions: Vec<i32>,
}

impl TableReader {
    /// Takes the token at a place; whether a name there is that of a table.
    fn take(&mut self, all: &[Token<'_>], place: usize) -> bool {
        let token = &all[place];
        let before = place.checked_sub(1).and_then(|before| all.get(before));
        // NEXT VALUE FOR
        let is_sequence = || {
            let words = place.checked_sub(2).and_then(|from| all.get(from..place));
            words.is_some_and(|words| words[0].is_word("VALUE") && words[1].is_word("FOR"))
        };
        let is_next = self.lists.last().is_some_and(|list| *list == (self.depth, true));
        let expects = is_next || is_sequence();
        if token.is_symbol(b'(') {
            if before.is_some_and(|word| word.is_any(WITH_FROM)) {
                self.functions.push(self.depth);
            }
            self.depth += 1;
            // A list in parentheses: `FROM (a.t, b.u)`.
            if expects || before.is_some_and(|word| word.is_any(OF_SEQUENCES)) {
                self.lists.push((self.depth, true));
            }
        } else if token.is_symbol(b')') {
            self.depth -= 1;
            self.lists.retain(|(depth, _)| *depth <= self.depth);
            self.functions.retain(|depth| *depth < self.depth);
            self.expect(false);
        } else if token.is_symbol(b',') {
            let depth = self.depth;
            if let Some(list) = self.lists.last_mut().filter(|list| list.0 == depth) {
                list.1 = true;
            }
        } else if self.opens_list(all, place) {
            self.lists.retain(|(depth, _)| *depth < self.depth);
            self.lists.push((self.depth, true));
        } else if token.is_any(AFTER_TABLES) || token.is_symbol(b';') {
            self.lists.retain(|(depth, _)| *depth < self.depth);
        } else if !(expects && (token.is_any(MODIFIERS) || token.is_symbol(b'='))) {
            self.expect(false);
        }
        expects
    }

    fn expect(&mut self, is_next: bool) {
        let depth = self.depth;
        if let Some(list) = self.lists.last_mut().filter(|list| list.0 == depth) {
            list.1 = is_next;
        }
    }

    fn opens_list(&self, all: &[Token<'_>], place: usize) -> bool {
        let token = &all[place];
        let next = all.get(place + 1);
        let is_function = || next.is_some_and(|next| next.is_symbol(b'('));
        let before = place.checked_sub(1).and_then(|before| all.get(before));
        let is_action = || {
            // FOR UPDATE, ON DELETE CASCADE, ON DUPLICATE KEY UPDATE, BEFORE INSERT
            before.is_some_and(|word| word.is_any(&["FOR", "ON", "KEY", "BEFORE", "AFTER", "OR"]))
        };
        if token.is_word("FROM") && self.functions.contains(&(self.depth - 1)) {
            return false;
        }
        if token.is_word("LIKE") {
            return all.first().is_some_and(|first| first.is_word("CREATE"))
                && object(all).is_some_and(|(kind, at)| kind.is_word("TABLE") && place <= at + 8);
        }
        if token.is_word("TO") {
            return all.first().is_some_and(|first| first.is_word("RENAME"));
        }
        // Of a table of the engine MERGE, or of queries.
        if token.is_word("UNION") {
            return is_function() || next.is_some_and(|next| next.is_symbol(b'='));
        }
        if token.is_word("ON") {
            let object = all
                .first()
                .filter(|first| first.is_any(&["CREATE", "DROP"]))
                .and_then(|_| object(all));
            return object.is_some_and(|(kind, at)| kind.is_any(&["INDEX", "TRIGGER"]) && place <= at + 12)
                && !is_action_word(next);
        }
        if token.is_any(&["INSERT", "REPLACE", "UPDATE", "DELETE", "TRUNCATE"]) && (is_function() || is_action()) {
            return false;
        }
        token.is_any(BEFORE_TABLES)
    }
}

fn is_action_word(next: Option<&Token<'_>>) -> bool {
    next.is_some_and(|next| next.is_any(&["DUPLICATE", "DELETE", "UPDATE", "COMPLETION"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_tables_are_told_from_those_that_are_read() {
        for (text, expected) in [
            ("INSERT INTO t (a, b) SELECT c, d FROM u", vec!["t"]),
            ("INSERT IGNORE `my t` VALUES (1)", vec!["my t"]),
            ("REPLACE shop.t SET a = 1", vec!["shop.t"]),
            ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2", vec!["t"]),
            ("UPDATE t SET a = (SELECT b FROM u)", vec!["t"]),
            (
                "UPDATE t AS x JOIN shop.u ON x.a = u.a SET x.b = 1",
                vec!["t", "shop.u"],
            ),
            ("UPDATE LOW_PRIORITY t, u SET t.a = u.a", vec!["t", "u"]),
            ("DELETE FROM t WHERE a IN (SELECT b FROM u)", vec!["t"]),
            ("DELETE t, u FROM t JOIN u JOIN v", vec!["t", "u"]),
            ("DELETE t.* FROM t JOIN u", vec!["t"]),
            ("DELETE FROM t USING t JOIN u", vec!["t"]),
            (
                "WITH x AS (SELECT a FROM u) DELETE FROM t WHERE a IN (SELECT a FROM x)",
                vec!["t"],
            ),
            ("EXPLAIN ANALYZE DELETE FROM t", vec!["t"]),
            ("TRUNCATE TABLE t", vec!["t"]),
            ("CREATE TEMPORARY TABLE IF NOT EXISTS t AS SELECT * FROM u", vec!["t"]),
            ("ALTER TABLE t ADD COLUMN a INT", vec!["t"]),
            ("DROP TABLE IF EXISTS t, u", vec!["t", "u"]),
            ("CREATE INDEX i ON t (a)", vec!["t"]),
            ("LOCK TABLES t READ, u WRITE", vec!["t", "u"]),
            ("SELECT a FROM t JOIN u FOR UPDATE", vec!["t", "u"]),
            ("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", vec!["t"]),
            ("CALL p(1)", vec!["p"]),
            ("SET STATEMENT max_statement_time = 1 FOR DELETE FROM t", vec!["t"]),
            ("SET @a = 1", vec![]),
            ("EXECUTE q", vec![]),
        ] {
            assert_eq!(written_tables(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn named_schemas_are_told_from_aliases_and_columns() {
        for (text, expected) in [
            ("USE `my shop`", vec!["my shop"]),
            ("DROP DATABASE IF EXISTS shop", vec!["shop"]),
            (
                "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */",
                vec!["shop"],
            ),
            ("ALTER SCHEMA shop CHARACTER SET utf8mb4", vec!["shop"]),
            ("INSERT INTO shop.t (a, b) VALUES (1, 'x.y')", vec!["shop"]),
            ("INSERT IGNORE shop.t VALUES (1)", vec!["shop"]),
            ("REPLACE INTO t SELECT c.a FROM other.c AS c", vec!["other"]),
            ("UPDATE t, other.u SET t.a = u.b WHERE u.c = t.d", vec!["other"]),
            (
                "DELETE other.u FROM t JOIN other.u ON t.a = u.a",
                vec!["other", "other"],
            ),
            ("DELETE t.* FROM t JOIN u ON t.a = u.a", vec![]),
            ("DROP TABLE IF EXISTS a, `other`.`b`", vec!["other"]),
            ("RENAME TABLE a TO other.a", vec!["other"]),
            ("ALTER TABLE a RENAME = other.a", vec!["other"]),
            ("CREATE TABLE a LIKE other.b", vec!["other"]),
            (
                "CREATE TABLE a (b INT) ENGINE=MERGE UNION=(c, other.d) INSERT_METHOD=LAST",
                vec!["other"],
            ),
            ("ALTER TABLE a UNION (`other`.`d`)", vec!["other"]),
            ("SELECT a.b FROM a UNION (SELECT c.d FROM other.c)", vec!["other"]),
            ("SELECT a.b FROM a UNION ((SELECT c.d FROM c) ORDER BY c.d)", vec![]),
            ("DO SETVAL(other.s, 5, 0)", vec!["other"]),
            ("INSERT INTO t (a, b) VALUES (NEXTVAL(other.s), t.c)", vec!["other"]),
            ("SELECT NEXT VALUE FOR other.s, t.a FROM t", vec!["other"]),
            ("SELECT nextval.a FROM nextval", vec![]),
            ("UPDATE t SET t.a = u.b", vec![]),
            (
                "CREATE TABLE a (b INT, FOREIGN KEY (b) REFERENCES other.c (d) ON DELETE CASCADE ON UPDATE SET NULL)",
                vec!["other"],
            ),
            (
                "CREATE TRIGGER x AFTER INSERT ON other.t FOR EACH ROW SET NEW.a = 1",
                vec!["other"],
            ),
            (
                "SELECT s.t.a, o.b FROM s.t, orders o WHERE o.x = t.y ORDER BY o.b, t.a",
                vec!["s", "s"],
            ),
            (
                "SELECT EXTRACT(YEAR FROM orders.at), TRIM(' ' FROM o.x) FROM orders, shop.o",
                vec!["shop"],
            ),
            ("SELECT a.b FROM (SELECT c.d FROM e AS c, f.g) AS a", vec!["f"]),
            ("SELECT a FROM (x, y.z) WHERE a IN (1, b.c)", vec!["y"]),
            ("SELECT other.f(1)", vec!["other"]),
            ("CALL other.p(1)", vec!["other"]),
            ("SELECT a FROM t ON DUPLICATE KEY UPDATE t.a = u.b", vec![]),
            ("SELECT a FROM t FOR UPDATE", vec![]),
            ("LOCK TABLES a READ, b.c WRITE", vec!["b"]),
            (
                "CREATE VIEW v AS select category.name AS name from category left join film on category.id = film.id",
                vec![],
            ),
            ("TRUNCATE other.t", vec!["other"]),
            // Of sessions with the mode ANSI_QUOTES.
            ("USE \"my shop\"", vec!["my shop"]),
            ("CREATE DATABASE /*!32312 IF NOT EXISTS*/ \"shop\"", vec!["shop"]),
            ("DROP DATABASE \"other\"", vec!["other"]),
            ("INSERT INTO \"other\".\"t\" VALUES ('a', \"b\")", vec!["other"]),
            ("UPDATE \"t\", other.\"u\" SET a = \"b.c\"", vec!["other"]),
            ("SELECT \"t\".\"a\" FROM \"t\" JOIN \"other\" . u", vec!["other"]),
            ("SELECT \"other\".\"f\"(1)", vec!["other"]),
            ("SELECT 1.5, t.c FROM t", vec![]),
        ] {
            let found = named_schemas(text.as_bytes());
            let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, expected, "{text}");
        }
    }
}
