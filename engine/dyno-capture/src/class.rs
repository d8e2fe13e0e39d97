//! What a statement does, as far as its text shows it.

use crate::lexer::{name, tokens, Kind, Token};
use crate::query::split;
use crate::reach;

/// Words of a query with which it writes, locks or leaves the server.
const NOT_READING: &[&str] = &["INSERT", "UPDATE", "DELETE", "REPLACE", "OUTFILE", "DUMPFILE"];
/// Functions that change something.
const CHANGING_FUNCTIONS: &[&str] = &["NEXTVAL", "SETVAL", "GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS"];
/// Targets of SET that outlive the session, or change what is written.
const NOT_OF_THE_SESSION: &[&str] = &[
    "GLOBAL",
    "PERSIST",
    "PERSIST_ONLY",
    "PASSWORD",
    "ROLE",
    "DEFAULT",
    "RESOURCE",
    "STATEMENT",
];

/// The schema that a USE statement selects; none for other statements.
pub fn used_schema(text: &[u8]) -> Option<String> {
    let mut tokens = tokens(text);
    if !tokens.next()?.is_word("USE") {
        return None;
    }
    let schema = name(&tokens.next()?)?;
    tokens.all(|token| token.is_symbol(b';')).then_some(schema)
}

/// Whether the statement executes a prepared one by its name (EXECUTE, EXECUTE IMMEDIATE).
pub fn is_execute(text: &[u8]) -> bool {
    tokens(text).next().is_some_and(|token| token.is_word("EXECUTE"))
}

/// What a statement does with one that is prepared under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// PREPARE without its text: MySQL from 5.6 on logs `PREPARE name FROM ...`.
    PrepareWithoutText(String),
    /// PREPARE with its text.
    Prepare(String),
    /// EXECUTE.
    Execute(String),
    /// DEALLOCATE PREPARE.
    Deallocate(String),
}

/// Whether the statement is about one that is prepared under a name.
pub fn named(text: &[u8]) -> Option<Named> {
    let mut tokens = tokens(text);
    let first = tokens.next()?;
    if first.is_any(&["DEALLOCATE", "DROP"]) {
        return tokens
            .next()
            .filter(|token| token.is_word("PREPARE"))
            .and_then(|_| name(&tokens.next()?))
            .map(|name| Named::Deallocate(name.to_lowercase()));
    }
    let is_prepare = first.is_word("PREPARE");
    if !is_prepare && !first.is_word("EXECUTE") {
        return None;
    }
    let name = name(&tokens.next()?)?.to_lowercase();
    Some(match is_prepare {
        true if text.trim_ascii_end().ends_with(b"FROM ...") => Named::PrepareWithoutText(name),
        true => Named::Prepare(name),
        false => Named::Execute(name),
    })
}

/// Whether the statement calls a routine.
pub fn is_call(text: &[u8]) -> bool {
    tokens(text).next().is_some_and(|token| token.is_word("CALL"))
}

/// Whether the statement reaches beyond the tables of schemas: it administers the server, accounts, other sessions or
/// whole schemas, or reads and writes files of the server's host. KILL with a captured number, for example, would end
/// another session of a replay.
pub fn is_administration(text: &[u8]) -> bool {
    let all: Vec<Token<'_>> = tokens(text).collect();
    // A schema that a capture makes is one of its own.
    let changes_a_schema = |statement: &[Token<'_>]| {
        statement.first().is_some_and(|token| token.is_any(&["ALTER", "DROP"]))
            && reach::whole_schema(statement).is_some()
    };
    reach::beyond(text).is_some() || reach::executed(&all).into_iter().any(changes_a_schema)
}

/// Where a transaction begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// BEGIN, START TRANSACTION.
    Begin,
    /// COMMIT, ROLLBACK without a savepoint.
    End,
}

/// Whether the statement begins or ends a transaction.
pub fn boundary(text: &[u8]) -> Option<Boundary> {
    let mut tokens = tokens(text);
    let first = tokens.next()?;
    let rest: Vec<Token<'_>> = tokens.collect();
    let is_plain = || rest.iter().all(|token| token.is_word("WORK") || token.is_symbol(b';'));
    if first.is_word("BEGIN") && is_plain() || first.is_word("START") && rest.first()?.is_word("TRANSACTION") {
        return Some(Boundary::Begin);
    }
    let is_end = first.is_word("COMMIT") || first.is_word("ROLLBACK") && !rest.iter().any(|token| token.is_word("TO"));
    is_end.then_some(Boundary::End)
}

/// What SET does with the autocommit of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autocommit {
    /// Whether it is on from now on.
    pub is_on: bool,
    /// The statement with its other assignments alone; empty where it has none.
    pub others: Vec<u8>,
}

/// Whether the statement sets the autocommit of its session; drivers set it together with other variables.
pub fn autocommit(text: &[u8]) -> Option<Autocommit> {
    let mut tokens = tokens(text);
    if !tokens.next()?.is_word("SET") {
        return None;
    }
    let rest: Vec<Token<'_>> = tokens.filter(|token| !token.is_symbol(b';')).collect();
    let (mut is_on, mut others) = (None, Vec::new());
    // A scope is also that of the assignments after it.
    let mut is_of_the_session = true;
    for assignment in split(&rest, |token| token.is_symbol(b',')) {
        let (first, last) = (assignment.first()?, assignment.last()?);
        let is_session = first.is_any(&["SESSION", "LOCAL"]);
        if is_session || first.is_any(&["GLOBAL", "PERSIST", "PERSIST_ONLY"]) {
            is_of_the_session = is_session;
        }
        match autocommit_value(&assignment[usize::from(is_session)..]).filter(|_| is_of_the_session) {
            Some(value) => is_on = Some(value),
            None => {
                let start: &[u8] = if others.is_empty() { b"SET " } else { b", " };
                others.extend_from_slice(start);
                others.extend_from_slice(&text[first.start..last.start + last.text.len()]);
            }
        }
    }
    is_on.map(|is_on| Autocommit { is_on, others })
}

fn autocommit_value(assignment: &[Token<'_>]) -> Option<bool> {
    let [variable, operator @ .., value] = assignment else {
        return None;
    };
    let is_operator = operator
        .iter()
        .all(|token| token.is_symbol(b'=') || token.is_symbol(b':'));
    let names: [&[u8]; 4] = [
        b"autocommit",
        b"@@autocommit",
        b"@@session.autocommit",
        b"@@local.autocommit",
    ];
    let is_autocommit = names.iter().any(|name| variable.text.eq_ignore_ascii_case(name));
    (is_autocommit && is_operator).then(|| value.text == b"1" || value.is_any(&["ON", "TRUE"]))
}

/// The character set that the statement gives its session: SET NAMES, SET CHARACTER SET, or that of the client.
pub fn charset(text: &[u8]) -> Option<String> {
    let mut tokens = tokens(text);
    if !tokens.next()?.is_word("SET") {
        return None;
    }
    let begins = |token: &Token<'_>| {
        let variable = token.text.rsplit(|byte| matches!(byte, b'@' | b'.')).next();
        token.is_any(&["NAMES", "CHARSET", "CHARACTER"])
            || variable.is_some_and(|name| name.eq_ignore_ascii_case(b"character_set_client"))
    };
    tokens.find(begins)?;
    let value = tokens.find(|token| token.kind != Kind::Symbol && !token.is_word("SET"))?;
    let name = std::str::from_utf8(value.text).ok()?.trim_matches(['\'', '"']);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| name.to_ascii_lowercase())
}

/// Whether the statement is UTF-8, but for strings that are marked as binary.
pub fn is_utf8(text: &[u8]) -> bool {
    let is_valid = |part: &[u8]| std::str::from_utf8(part).is_ok();
    let (mut begin, mut is_binary) = (0, false);
    for token in tokens(text) {
        if is_binary && token.kind == Kind::String {
            if !is_valid(&text[begin..token.start]) {
                return false;
            }
            begin = token.start + token.text.len();
        }
        is_binary = token.is_word("_binary");
    }
    is_valid(&text[begin..])
}

/// Whether the statement uses what only its session has: variables, temporary tables, prepared statements, locks.
pub fn is_of_the_session(text: &[u8]) -> bool {
    const OF_THE_SESSION: &[&str] = &[
        "SET",
        "PREPARE",
        "EXECUTE",
        "DEALLOCATE",
        "LOCK",
        "UNLOCK",
        "HANDLER",
        "XA",
        "USE",
    ];
    let all: Vec<Token<'_>> = tokens(text).collect();
    let is_temporary = || all.get(1).is_some_and(|token| token.is_word("TEMPORARY"));
    let is_user_variable = |token: &Token<'_>| {
        token.kind == Kind::Variable && token.text.starts_with(b"@") && !token.text.starts_with(b"@@")
    };
    all.first().is_some_and(|token| token.is_any(OF_THE_SESSION)) || is_temporary() || all.iter().any(is_user_variable)
}

/// Whether the statement is for its session, whatever the schema: a transaction's begin, end or savepoint, or SET.
pub fn is_for_its_session(text: &[u8]) -> bool {
    let sets = |token: &Token<'_>| token.is_any(&["SET", "SAVEPOINT", "ROLLBACK", "RELEASE"]);
    boundary(text).is_some() || tokens(text).next().is_some_and(|first| sets(&first))
}

/// Whether the statement locks tables, reads them by a handler, or belongs to a distributed transaction: what it holds
/// would be held as long as the load pauses.
pub fn holds_tables(text: &[u8]) -> bool {
    tokens(text)
        .next()
        .is_some_and(|token| token.is_any(&["LOCK", "UNLOCK", "HANDLER", "XA"]))
}

/// Whether each statement of the text only reads, or sets variables of its session, or begins or ends a transaction.
///
/// By the text alone: a stored function that a SELECT calls may write.
pub fn is_read_only(text: &[u8]) -> bool {
    let all: Vec<Token<'_>> = tokens(text).collect();
    let mut statements = all
        .split(|token| token.is_symbol(b';'))
        .filter(|tokens| !tokens.is_empty())
        .peekable();
    statements.peek().is_some() && statements.all(reads)
}

fn reads(tokens: &[Token<'_>]) -> bool {
    let has = |words: &[&str]| tokens.iter().any(|token| token.is_any(words));
    let begins = |words: &[&str]| {
        tokens.len() >= words.len() && words.iter().zip(tokens).all(|(word, token)| token.is_word(word))
    };
    let is_bracket = |token: &&Token<'_>| token.is_symbol(b'(');
    let Some(first) = tokens.iter().find(|token| !is_bracket(token)) else {
        return false;
    };
    if first.is_any(&["SELECT", "WITH", "VALUES", "TABLE"]) {
        return is_plain_query(tokens);
    }
    if first.is_any(&["EXPLAIN", "DESCRIBE", "DESC"]) {
        return !has(NOT_READING);
    }
    if first.is_word("SET") {
        return !has(NOT_OF_THE_SESSION) && !tokens.iter().any(reach::is_global) && is_plain_query(&tokens[1..]);
    }
    if first.is_word("BEGIN") {
        return tokens[1..].iter().all(|token| token.is_word("WORK"));
    }
    first.is_any(&["SHOW", "COMMIT", "ROLLBACK", "SAVEPOINT", "USE"])
        || begins(&["START", "TRANSACTION"])
        || begins(&["RELEASE", "SAVEPOINT"])
}

fn is_plain_query(tokens: &[Token<'_>]) -> bool {
    let pairs = || tokens.windows(2);
    let locks = |pair: &[Token<'_>]| {
        pair[0].is_word("FOR") && pair[1].is_any(&["UPDATE", "SHARE"])
            || pair[0].is_word("LOCK") && pair[1].is_word("IN")
            || pair[0].is_word("NEXT") && pair[1].is_word("VALUE")
    };
    let calls = |pair: &[Token<'_>]| pair[0].is_any(CHANGING_FUNCTIONS) && pair[1].is_symbol(b'(');
    // INSERT() and REPLACE() are also functions of strings.
    let writes = |(index, token): (usize, &Token<'_>)| {
        token.is_any(NOT_READING) && !tokens.get(index + 1).is_some_and(|next| next.is_symbol(b'('))
    };
    !tokens.iter().enumerate().any(writes) && !pairs().any(|pair| locks(pair) || calls(pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_only_read_are_told_from_the_others() {
        for text in [
            "SELECT 1",
            "(select a from t) UNION (select 2)",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "SHOW TABLES",
            "SET autocommit=0",
            "SET NAMES utf8mb4",
            "BEGIN",
            "begin work;",
            "START TRANSACTION READ ONLY",
            "COMMIT",
            "ROLLBACK TO a",
            "RELEASE SAVEPOINT a",
            "EXPLAIN SELECT 1",
            "SELECT REPLACE(a, 'x', 'y') FROM t",
            "SELECT 'FOR UPDATE'",
            "SELECT 1; SELECT 2",
            "USE shop",
        ] {
            assert!(is_read_only(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            ";",
            "INSERT INTO t VALUES (1)",
            "SELECT a FROM t FOR UPDATE",
            "SELECT a FROM t LOCK IN SHARE MODE",
            "SELECT a FROM t FOR SHARE",
            "SELECT 1 INTO OUTFILE 'x'",
            "WITH x AS (SELECT 1) DELETE FROM t",
            "SET GLOBAL a=1",
            "SET @@global.a = 1",
            "SET PASSWORD = 'x'",
            "BEGIN NOT ATOMIC DELETE FROM t; END",
            "START SLAVE",
            "CALL p()",
            "EXECUTE q",
            "EXPLAIN ANALYZE DELETE FROM t",
            "SELECT 1; DELETE FROM t",
            "SELECT NEXTVAL(s)",
            "DO SLEEP(1)",
            "SELECT NEXT VALUE FOR s",
            "SET @a = (SELECT a FROM t FOR UPDATE)",
            "LOCK TABLES t WRITE",
            "TRUNCATE t",
        ] {
            assert!(!is_read_only(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn administration_is_told_from_the_load() {
        for text in [
            "KILL QUERY 5",
            "shutdown",
            "SET GLOBAL general_log = OFF",
            "SET @@GLOBAL.general_log = 0",
            "GRANT ALL ON *.* TO a@b",
            "START SLAVE",
            "CREATE USER a",
            "DROP DATABASE shop",
            "SET STATEMENT max_statement_time = 1 FOR DROP DATABASE shop",
            "BEGIN NOT ATOMIC DROP DATABASE shop; END",
            "SELECT 1; DROP DATABASE shop",
            "SET autocommit = 1, GLOBAL max_connections = 7",
            "CREATE OR REPLACE USER a",
            "BACKUP STAGE START",
            "LOCK INSTANCE FOR BACKUP",
        ] {
            assert!(is_administration(text.as_bytes()), "{text}");
        }
        for text in [
            "SET autocommit = 0",
            "START TRANSACTION",
            "CREATE TABLE user (a INT)",
            "CREATE DATABASE shop",
            "CREATE PROCEDURE p() BEGIN SELECT 1; DROP DATABASE shop; END",
            "USE shop",
            "SELECT 'KILL'",
            "",
        ] {
            assert!(!is_administration(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn transactions_have_begins_and_ends() {
        for (text, expected) in [
            ("begin", Some(Boundary::Begin)),
            ("START TRANSACTION READ ONLY", Some(Boundary::Begin)),
            ("COMMIT AND CHAIN", Some(Boundary::End)),
            ("ROLLBACK", Some(Boundary::End)),
            ("ROLLBACK TO SAVEPOINT a", None),
            ("BEGIN NOT ATOMIC DELETE FROM t; END", None),
            ("START SLAVE", None),
        ] {
            assert_eq!(boundary(text.as_bytes()), expected, "{text}");
        }
        for (text, expected) in [
            ("SET autocommit=0", Some((false, ""))),
            ("set session autocommit = ON;", Some((true, ""))),
            ("SET @@autocommit := 1", Some((true, ""))),
            (
                "SET autocommit=0, sql_mode=CONCAT(@@sql_mode, ','), NAMES latin1",
                Some((false, "SET sql_mode=CONCAT(@@sql_mode, ','), NAMES latin1")),
            ),
            ("SET a = 1,autocommit=1;", Some((true, "SET a = 1"))),
            ("SET GLOBAL a = 1, autocommit = 0", None),
            ("SET GLOBAL autocommit = 0", None),
            ("SET NAMES utf8mb4", None),
            ("SET sql_mode = ''", None),
            ("UPDATE t SET autocommit = 0, a = 1", None),
        ] {
            let expected = expected.map(|(is_on, others)| Autocommit {
                is_on,
                others: others.into(),
            });
            assert_eq!(autocommit(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn the_character_set_of_a_session_is_found() {
        for (text, expected) in [
            ("SET NAMES latin1", Some("latin1")),
            ("set autocommit=1, names 'UTF8' collate utf8_bin", Some("utf8")),
            ("SET CHARACTER SET cp1251", Some("cp1251")),
            ("SET @@session.character_set_client := binary", Some("binary")),
            ("SET character_set_client = @before", None),
            ("SET character_set_results = NULL", None),
            ("SELECT names FROM t", None),
        ] {
            assert_eq!(charset(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn use_names_a_schema() {
        assert_eq!(used_schema(b"use `a``b`;"), Some("a`b".into()));
        assert_eq!(used_schema(b"/* x */ USE shop"), Some("shop".into()));
        assert_eq!(used_schema(b"USE shop; SELECT 1"), None);
        assert_eq!(used_schema(b"SELECT 1"), None);
    }
}
