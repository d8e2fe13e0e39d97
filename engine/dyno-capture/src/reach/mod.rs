//! What a statement reaches beyond the tables of its own schema, as far as its text shows it: the one classification for
//! dumps, logs and captures.

mod schemas;

use std::ops::Range;

use crate::lexer::{tokens, Kind, Token};

pub use schemas::{is_system_schema, named_schemas, whole_schema, written_tables, NamedSchema};

/// What a statement reaches beyond schemas and their tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// The server as a whole: its global variables, replication, plugins, caches, other sessions.
    Server,
    /// Accounts, roles and privileges.
    Accounts,
    /// Files on the server's host.
    Files,
    /// A program that the server starts by itself (EVENT).
    Event,
}

impl Beyond {
    /// Its name in messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Server => "the whole server",
            Self::Accounts => "accounts",
            Self::Files => "files on the server's host",
            Self::Event => "an event, which the server executes by itself",
        }
    }
}

/// Kinds of objects that CREATE, ALTER, DROP and RENAME are for, and what those reach that are not of a schema.
const OBJECTS: &[(&str, Option<Beyond>)] = &[
    ("DATABASE", None),
    ("SCHEMA", None),
    ("TABLE", None),
    ("TABLES", None),
    ("VIEW", None),
    ("INDEX", None),
    ("TRIGGER", None),
    ("PROCEDURE", None),
    ("FUNCTION", None),
    ("PACKAGE", None),
    ("SEQUENCE", None),
    ("PREPARE", None),
    ("EVENT", Some(Beyond::Event)),
    ("USER", Some(Beyond::Accounts)),
    ("ROLE", Some(Beyond::Accounts)),
    ("SERVER", Some(Beyond::Server)),
    ("TABLESPACE", Some(Beyond::Server)),
    ("LOGFILE", Some(Beyond::Server)),
    ("RESOURCE", Some(Beyond::Server)),
    ("REFERENCE", Some(Beyond::Server)),
    ("INSTANCE", Some(Beyond::Server)),
];
/// First words of statements for the whole server.
const OF_THE_SERVER: &[&str] = &[
    "BACKUP",
    "BINLOG",
    "CACHE",
    "CHANGE",
    "CLONE",
    "FLUSH",
    "IMPORT",
    "INSTALL",
    "KILL",
    "PURGE",
    "RESET",
    "RESTART",
    "SHUTDOWN",
    "STOP",
    "UNINSTALL",
];
/// What the statement, or one of several in a text, reaches beyond schemas. The body of a routine or trigger that it
/// makes is not executed, and counts as nothing.
pub fn beyond(text: &[u8]) -> Option<Beyond> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    executed(&all).into_iter().find_map(beyond_of)
}

/// The statements that a text executes, each from its first word on: without what `SET STATEMENT … FOR` sets for it, and
/// those of a block (`BEGIN NOT ATOMIC`).
pub fn executed<'a, 't>(all: &'a [Token<'t>]) -> Vec<&'a [Token<'t>]> {
    if is_program(all) {
        return vec![all];
    }
    let statements = all.split(|token| token.is_symbol(b';')).map(bare);
    statements.filter(|statement| !statement.is_empty()).collect()
}

fn bare<'a, 't>(mut statement: &'a [Token<'t>]) -> &'a [Token<'t>] {
    loop {
        let begins = |words: &[&str]| {
            let mut pairs = words.iter().zip(statement);
            statement.len() > words.len() && pairs.all(|(word, token)| token.is_word(word))
        };
        let skipped = if begins(&["BEGIN", "NOT", "ATOMIC"]) {
            Some(3)
        } else if begins(&["SET", "STATEMENT"]) {
            let end = statement.iter().position(|token| token.is_word("FOR"));
            end.map(|place| place + 1)
        } else {
            None
        };
        match skipped {
            Some(count) => statement = &statement[count..],
            None => return statement,
        }
    }
}

/// Whether the statement makes a routine or trigger, in whose body semicolons are.
pub fn is_program(all: &[Token<'_>]) -> bool {
    let makes = all.first().is_some_and(|token| token.is_any(&["CREATE", "ALTER"]));
    makes
        && object(all).is_some_and(|(token, _)| token.is_any(&["TRIGGER", "PROCEDURE", "FUNCTION", "PACKAGE", "EVENT"]))
}

/// The kind of object that CREATE, ALTER, DROP or RENAME is for, and its place among the tokens.
pub fn object<'a>(all: &[Token<'a>]) -> Option<(Token<'a>, usize)> {
    // Between the first word and the object are a few options at most, the longest of them DEFINER = CURRENT_USER().
    let among = all.iter().enumerate().skip(1).take(16);
    let is_empty_pair = |place: usize| all.get(place + 1).is_some_and(|next| next.is_symbol(b')'));
    let ends =
        |place: usize, token: &Token<'_>| token.is_any(&["AS", "ON"]) || token.is_symbol(b'(') && !is_empty_pair(place);
    let mut before = among.take_while(|(place, token)| !ends(*place, token));
    before
        .find(|(_, token)| OBJECTS.iter().any(|(word, _)| token.is_word(word)))
        .map(|(place, token)| (*token, place))
}

fn beyond_of(statement: &[Token<'_>]) -> Option<Beyond> {
    let first = statement.first()?;
    if first.is_any(&["PREPARE", "EXECUTE"]) {
        return beyond_of_prepared(statement);
    }
    let word = |place: usize, words: &[&str]| {
        statement
            .get(place)
            .is_some_and(|token: &Token<'_>| token.is_any(words))
    };
    if first.is_any(OF_THE_SERVER)
        || first.is_word("START") && statement.len() > 1 && !word(1, &["TRANSACTION"])
        || first.is_any(&["LOCK", "UNLOCK"]) && word(1, &["INSTANCE"])
        || first.is_word("LOAD") && word(1, &["INDEX"])
    {
        return Some(Beyond::Server);
    }
    if first.is_any(&["GRANT", "REVOKE"]) {
        return Some(Beyond::Accounts);
    }
    if first.is_any(&["CREATE", "ALTER", "DROP", "RENAME"]) {
        let (kind, _) = object(statement)?;
        let loads_a_library = kind.is_word("FUNCTION") && statement.iter().any(|token| token.is_word("SONAME"));
        let (_, reached) = OBJECTS.iter().find(|(word, _)| kind.is_word(word))?;
        return reached.or(loads_a_library.then_some(Beyond::Server));
    }
    if first.is_word("SET") {
        return beyond_of_set(&statement[1..]);
    }
    let reads_a_file = first.is_word("LOAD") && word(1, &["DATA", "XML"]);
    let writes_a_file = || statement.iter().any(|token| token.is_any(&["OUTFILE", "DUMPFILE"]));
    (reads_a_file || writes_a_file()).then_some(Beyond::Files)
}

/// Of `PREPARE name FROM 'text'` and `EXECUTE IMMEDIATE 'text'`.
fn beyond_of_prepared(statement: &[Token<'_>]) -> Option<Beyond> {
    let literal = statement.iter().find(|token| token.kind == Kind::String)?;
    let text = literal.text.get(1..literal.text.len() - 1)?;
    beyond(text)
}

/// Of what comes after SET: each assignment has a scope of its own.
fn beyond_of_set(rest: &[Token<'_>]) -> Option<Beyond> {
    let first = rest.first()?;
    if first.is_word("PASSWORD") || first.is_word("DEFAULT") && rest.get(1).is_some_and(|token| token.is_word("ROLE")) {
        return Some(Beyond::Accounts);
    }
    if first.is_word("RESOURCE") {
        return Some(Beyond::Server);
    }
    let mut depth = 0i32;
    let mut begins = true;
    for token in rest {
        if begins && (token.is_any(&["GLOBAL", "PERSIST", "PERSIST_ONLY"]) || is_global(token)) {
            return Some(Beyond::Server);
        }
        depth += i32::from(token.is_symbol(b'(')) - i32::from(token.is_symbol(b')'));
        begins = depth == 0 && token.is_symbol(b',');
    }
    None
}

/// Whether the token is a variable with the scope of the server, as in `@@global.x`.
pub fn is_global(token: &Token<'_>) -> bool {
    let text = token.text.to_ascii_lowercase();
    let scope = text.split(|byte| *byte == b'.').next().unwrap_or_default();
    // Blanks may precede the point.
    let scopes: [&[u8]; 3] = [b"@@global", b"@@persist", b"@@persist_only"];
    token.kind == Kind::Variable && scopes.contains(&scope)
}

/// Where the account of a DEFINER clause is, from the word on; none for the current user, or without the clause.
pub fn definer(text: &[u8]) -> Option<Range<usize>> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    // Only before the object: a body may make others.
    let end = object(&all).map_or(0, |(_, place)| place);
    let place = all[..end].iter().position(|token| token.is_word("DEFINER"))?;
    let [word, equals, user, rest @ ..] = &all[place..] else {
        return None;
    };
    if !equals.is_symbol(b'=') || user.is_any(&["CURRENT_USER", "CURRENT_ROLE"]) {
        return None;
    }
    let host = rest.first().filter(|token| token.kind == Kind::Variable);
    let last = host.unwrap_or(user);
    Some(word.start..last.start + last.text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_beyond_schemas_is_found_anywhere_in_the_statement() {
        for (text, expected) in [
            ("KILL QUERY 5", Beyond::Server),
            ("shutdown", Beyond::Server),
            ("SET GLOBAL general_log = OFF", Beyond::Server),
            ("SET @@GLOBAL.general_log = 0", Beyond::Server),
            ("SET autocommit = 1, GLOBAL max_connections = 7", Beyond::Server),
            ("SET @a = GREATEST(1, 2), @@global.x = 1", Beyond::Server),
            ("SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5'", Beyond::Server),
            ("SET STATEMENT max_statement_time=1 FOR FLUSH TABLES", Beyond::Server),
            ("SET @@global . max_connections = 5", Beyond::Server),
            ("BEGIN NOT ATOMIC FLUSH TABLES; END", Beyond::Server),
            ("PREPARE s FROM 'SET GLOBAL x = 1'", Beyond::Server),
            ("EXECUTE IMMEDIATE 'DROP USER a'", Beyond::Accounts),
            ("SET PERSIST x = 1", Beyond::Server),
            ("BACKUP STAGE START", Beyond::Server),
            ("LOCK INSTANCE FOR BACKUP", Beyond::Server),
            ("ALTER INSTANCE ROTATE INNODB MASTER KEY", Beyond::Server),
            ("START SLAVE", Beyond::Server),
            ("START GROUP_REPLICATION", Beyond::Server),
            ("CREATE UNDO TABLESPACE u ADD DATAFILE 'u.ibu'", Beyond::Server),
            ("CREATE FUNCTION f RETURNS STRING SONAME 'x.so'", Beyond::Server),
            (
                "CREATE OR REPLACE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h')",
                Beyond::Server,
            ),
            ("SELECT 1; FLUSH LOGS", Beyond::Server),
            ("GRANT ALL ON *.* TO a@b", Beyond::Accounts),
            ("CREATE USER a", Beyond::Accounts),
            ("CREATE OR REPLACE USER a@b", Beyond::Accounts),
            ("DROP USER IF EXISTS a", Beyond::Accounts),
            ("SET PASSWORD FOR a = 'x'", Beyond::Accounts),
            ("SET DEFAULT ROLE r TO a", Beyond::Accounts),
            ("LOAD DATA INFILE '/etc/passwd' INTO TABLE t", Beyond::Files),
            ("SELECT a FROM t INTO OUTFILE '/tmp/x'", Beyond::Files),
            (
                "CREATE DEFINER=`a`@`b` EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t",
                Beyond::Event,
            ),
            (
                "CREATE DEFINER=CURRENT_USER() EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t",
                Beyond::Event,
            ),
            (
                "/*!50106 CREATE*/ /*!50117 DEFINER=`a`@`b`*/ /*!50106 EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1 */",
                Beyond::Event,
            ),
        ] {
            assert_eq!(beyond(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [
            "SET autocommit = 0",
            "SET @a = @@global.x, NAMES utf8mb4",
            "SET SESSION sql_mode = 'ANSI'",
            "SET STATEMENT max_statement_time=1 FOR SELECT 1",
            "PREPARE s FROM 'SELECT 1'",
            "PREPARE s FROM @text",
            "EXECUTE s USING @a",
            "SET @@globally = 1",
            "START TRANSACTION",
            "CREATE TABLE user (a INT)",
            "CREATE TABLE `user` (event INT, server INT)",
            "ALTER TABLE t ADD COLUMN role INT",
            "CREATE PROCEDURE p() BEGIN FLUSH TABLES; KILL 5; END",
            "SELECT 'KILL'",
            "LOCK TABLES t WRITE",
            "DROP INDEX i ON server",
            "/*M!999999\\- enable the sandbox mode */ SELECT 1",
            "",
        ] {
            assert_eq!(beyond(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_definer_of_an_object_is_found() {
        let removed = |text: &str| {
            let range = definer(text.as_bytes())?;
            Some(format!("{}{}", &text[..range.start], &text[range.end..]))
        };
        let view =
            "/*!50001 CREATE ALGORITHM=UNDEFINED */ /*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */ \
                    /*!50001 VIEW `v` AS select 1 */";
        assert_eq!(removed(view), Some(view.replace("DEFINER=`root`@`localhost`", "")));
        assert_eq!(
            removed("CREATE DEFINER = a TRIGGER b"),
            Some("CREATE  TRIGGER b".into())
        );
        assert_eq!(removed("CREATE DEFINER = CURRENT_USER() VIEW v AS SELECT 1"), None);
        assert_eq!(removed("CREATE VIEW v AS SELECT DEFINER = 1"), None);
    }
}
