//! Decides for each statement of a dump whether it is executed, in which form, or left out, or why the dump is refused:
//! nothing outside of the schema that is filled may change.

use dyno_capture::class;
use dyno_capture::lexer::{tokens, Kind, Token};
use dyno_capture::reach::{beyond, definer, is_program, is_system_schema, named_schemas, object, Beyond, NamedSchema};

use crate::sql::server::quoted;

/// First words of what a dump consists of, besides CREATE, ALTER and DROP.
const OF_A_DUMP: &[&str] = &[
    "ANALYZE", "BEGIN", "CHECK", "COMMIT", "DELETE", "INSERT", "LOCK", "OPTIMIZE", "RENAME", "REPLACE", "ROLLBACK",
    "SET", "START", "TRUNCATE", "UNLOCK", "UPDATE",
];
/// Character sets in which the second byte of a character may be a quote or a backslash.
const OVERLAPPING: &[&str] = &["big5", "cp932", "gb18030", "gbk", "sjis"];
/// SQL modes in which double quotes enclose names, which is all that changes how a text is read.
const ANSI: &[&str] = &["ANSI", "ANSI_QUOTES"];
/// SQL modes in which a text is read otherwise.
const READ_OTHERWISE: &[&str] = &["NO_BACKSLASH_ESCAPES", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"];
/// Engines whose tables are on another server, or in files outside of the server's.
const ELSEWHERE: &[&str] = &["CONNECT", "FEDERATED", "FEDERATEDX", "SPIDER", "S3"];

/// What happens with a statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// It is executed in this form.
    Send(Vec<u8>),
    /// It is left out, for this reason.
    Omit(&'static str),
}

/// The statements of one dump, in their order.
#[derive(Debug)]
pub(super) struct Admission<'a> {
    /// The schema that is filled.
    target: &'a str,
    /// The schema of the dump, once a statement has named it.
    source: Option<String>,
    /// Whether a statement has set the mode ANSI_QUOTES.
    has_ansi_quotes: bool,
}

impl<'a> Admission<'a> {
    pub(super) fn into(target: &'a str) -> Self {
        Self {
            target,
            source: None,
            has_ansi_quotes: false,
        }
    }

    /// Decides about the next statement.
    ///
    /// # Errors
    /// Why the dump cannot be loaded, and what to do.
    pub(super) fn admit(&mut self, text: &[u8]) -> Result<Admitted, String> {
        let all: Vec<Token<'_>> = tokens(text).collect();
        let Some(first) = all.first() else {
            return Ok(Admitted::Omit("nothing but comments"));
        };
        check_single(text, &all)?;
        if let Some(reason) = left_out(text, first, &all) {
            return Ok(Admitted::Omit(reason));
        }
        if let Some(reach) = beyond(text) {
            return Err(format!(
                "\"{}\" reaches {}: a dump may change one schema alone; take the statement out",
                shown(text),
                reach.words()
            ));
        }
        self.has_ansi_quotes |= first.is_word("SET") && mode_set(&all, ANSI).is_some();
        if self.has_ansi_quotes {
            check_names(&all)?;
        }
        check_kind(text, first, &all)?;
        check_set(first, &all)?;
        check_place(&all)?;
        let schemas = named_schemas(text);
        for schema in &schemas {
            self.check_schema(schema, text)?;
        }
        if let Some(whole) = schemas.iter().find(|schema| schema.is_whole) {
            return Ok(self.of_a_schema(text, first, whole));
        }
        Ok(Admitted::Send(self.rewritten(text, &schemas)))
    }

    /// USE is not needed: the connection is in the schema. It is made before, and never dropped.
    fn of_a_schema(&self, text: &[u8], first: &Token<'_>, whole: &NamedSchema) -> Admitted {
        let options = &text[whole.range.end..];
        let has_options = tokens(options).next().is_some();
        match () {
            () if first.is_word("USE") => Admitted::Omit("USE: the data go into the schema that was named for them"),
            () if first.is_word("DROP") => Admitted::Omit("DROP DATABASE: no schema is dropped"),
            () if has_options => Admitted::Send([b"ALTER DATABASE ", quoted(self.target).as_bytes(), options].concat()),
            () => Admitted::Omit("CREATE DATABASE: the schema is made before"),
        }
    }

    fn check_schema(&mut self, schema: &NamedSchema, text: &[u8]) -> Result<(), String> {
        let is_system = is_system_schema(&schema.name);
        if is_system && !schema.is_whole && class::is_read_only(text) {
            return Ok(());
        }
        match &self.source {
            _ if is_system => Err(format!(
                "\"{}\" is for the server's schema {}: dump the schema of the application alone",
                shown(text),
                schema.name
            )),
            Some(source) if *source != schema.name && schema.name != self.target => Err(format!(
                "\"{}\" is for the schema {}, and statements before for {source}: a dump of one schema can be loaded; dump \
                 each into a file of its own, without --databases",
                shown(text),
                schema.name
            )),
            Some(_) => Ok(()),
            None => {
                self.source = Some(schema.name.clone());
                Ok(())
            }
        }
    }

    /// With the target instead of the dump's schema, and without the account that made views, routines and triggers: it
    /// may be unknown to this server, which then refuses each use of them.
    fn rewritten(&self, text: &[u8], schemas: &[NamedSchema]) -> Vec<u8> {
        let target = quoted(self.target);
        let of_the_dump = schemas
            .iter()
            .filter(|schema| Some(&schema.name) == self.source.as_ref());
        let mut changes: Vec<(std::ops::Range<usize>, &[u8])> = of_the_dump
            .map(|schema| (schema.range.clone(), target.as_bytes()))
            .collect();
        changes.extend(definer(text).map(|range| (range, b"".as_slice())));
        changes.sort_by_key(|(range, _)| range.start);
        let mut made = Vec::with_capacity(text.len());
        let mut at = 0;
        for (range, new) in changes {
            made.extend_from_slice(&text[at..range.start]);
            made.extend_from_slice(new);
            at = range.end;
        }
        made.extend_from_slice(&text[at..]);
        made
    }
}

/// What programs that dump write for a whole server, and what is not needed.
fn left_out(text: &[u8], first: &Token<'_>, all: &[Token<'_>]) -> Option<&'static str> {
    let has = |name: &str| {
        let is_name = |token: &&Token<'_>| token.text.to_ascii_uppercase().ends_with(name.as_bytes());
        all.iter().skip(1).find(is_name).is_some()
    };
    if first.is_word("SET") {
        return match () {
            () if has("GTID_PURGED") || has("GTID_SLAVE_POS") => Some("SET GLOBAL gtid_…: the position of replication"),
            () if has("INNODB_STATS_AUTO_RECALC") => {
                Some("SET GLOBAL innodb_stats_auto_recalc: the tables are analysed at the end")
            }
            () if has("SQL_LOG_BIN") => Some("SET sql_log_bin: what the binary log has is for the server to decide"),
            () => None,
        };
    }
    let second = all.get(1);
    let is_second = |words: &[&str]| second.is_some_and(|token| token.is_any(words));
    let of_replication = first.is_word("CHANGE") && is_second(&["MASTER", "REPLICATION"])
        || first.is_any(&["START", "STOP", "RESET"]) && is_second(&["SLAVE", "REPLICA", "ALL"]);
    match () {
        () if of_replication => Some("CHANGE MASTER, START SLAVE: replication"),
        () if first.is_word("FLUSH") => Some("FLUSH: logs and caches of the whole server"),
        () if beyond(text) == Some(Beyond::Event) => {
            Some("events, which the server would execute during the measurement")
        }
        () => None,
    }
}

/// Refuses several statements before one delimiter: the first says nothing of the others.
fn check_single(text: &[u8], all: &[Token<'_>]) -> Result<(), String> {
    let mut rest = all.iter().skip_while(|token| !token.is_symbol(b';'));
    if is_program(all) || rest.all(|token| token.is_symbol(b';')) {
        return Ok(());
    }
    Err(format!(
        "\"{}\" is several statements before one delimiter: end each with the delimiter",
        shown(text)
    ))
}

fn check_kind(text: &[u8], first: &Token<'_>, all: &[Token<'_>]) -> Result<(), String> {
    let is_allowed = match () {
        // Objects that are not of a schema are refused before.
        () if first.is_any(&["CREATE", "ALTER", "DROP"]) => object(all).is_some(),
        // The next value of a sequence.
        // Blocks, and statements within SET STATEMENT, are not written by programs that dump.
        () if first.is_word("BEGIN") => all
            .get(1)
            .is_none_or(|next| next.is_word("WORK") || next.is_symbol(b';')),
        () if first.is_word("SET") => !all.get(1).is_some_and(|next| next.is_word("STATEMENT")),
        () if first.is_word("DO") => all.get(1).is_some_and(|next| next.is_word("SETVAL")),
        () => first.is_word("USE") || first.is_any(OF_A_DUMP) || class::is_read_only(text),
    };
    if is_allowed {
        return Ok(());
    }
    let hint = if first.is_any(&["SOURCE", "SYSTEM"]) || first.is_symbol(b'\\') {
        "is a command of the mysql client: put the files that it names into one"
    } else {
        "is no statement of a dump; allowed: what mysqldump and mariadb-dump write"
    };
    Err(format!("\"{}\" {hint}", shown(text)))
}

fn check_set(first: &Token<'_>, all: &[Token<'_>]) -> Result<(), String> {
    if !first.is_word("SET") {
        return Ok(());
    }
    if let Some(mode) = mode_set(all, READ_OTHERWISE) {
        return Err(format!(
            "the dump is for sql_mode {mode}; dump without it (mysqldump without --compatible)"
        ));
    }
    let of_characters = ["NAMES", "CHARACTER", "CHARSET"];
    let is_of_characters = all
        .iter()
        .any(|token| token.is_any(&of_characters) || token.text.ends_with(b"character_set_client"));
    let overlapping = all.iter().find(|token| {
        let name = token.text.trim_ascii().to_ascii_lowercase();
        let name = name
            .strip_prefix(b"'")
            .and_then(|name| name.strip_suffix(b"'"))
            .unwrap_or(&name);
        OVERLAPPING.iter().any(|one| one.as_bytes() == name)
    });
    match overlapping.filter(|_| is_of_characters) {
        None => Ok(()),
        Some(token) => Err(format!(
            "the dump is in the character set {}, in which quotes cannot be found; dump with \
             --default-character-set=utf8mb4",
            String::from_utf8_lossy(token.text)
        )),
    }
}

/// Refuses names that would end elsewhere than a string: a backslash in a name escapes nothing.
fn check_names(all: &[Token<'_>]) -> Result<(), String> {
    let is_doubtful = |token: &&Token<'_>| token.text.starts_with(b"\"") && token.text.contains(&b'\\');
    match all.iter().find(is_doubtful) {
        None => Ok(()),
        Some(token) => Err(format!(
            "{}: the dump sets sql_mode ANSI_QUOTES, in which double quotes are around names, and a backslash is there; dump \
             without it",
            shown(token.text)
        )),
    }
}

/// The first of these SQL modes that a SET names.
fn mode_set(all: &[Token<'_>], modes: &[&'static str]) -> Option<&'static str> {
    let is_of_mode = |token: &Token<'_>| token.text.to_ascii_lowercase().ends_with(b"sql_mode");
    let place = all.iter().position(is_of_mode)?;
    let names = all[place..]
        .iter()
        .filter(|token| matches!(token.kind, Kind::Word | Kind::String))
        .flat_map(|token| token.text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_'))
        .collect::<Vec<_>>();
    let is_set = |mode: &&&str| names.iter().any(|name| name.eq_ignore_ascii_case(mode.as_bytes()));
    modes.iter().find(is_set).copied()
}

/// Refuses tables whose data are elsewhere than this server's are.
fn check_place(all: &[Token<'_>]) -> Result<(), String> {
    let makes_a_table = all.first().is_some_and(|token| token.is_any(&["CREATE", "ALTER"]))
        && object(all).is_some_and(|(kind, _)| kind.is_word("TABLE"));
    if !makes_a_table {
        return Ok(());
    }
    for (place, token) in all.iter().enumerate() {
        let after = |count: usize| all.get(place + count);
        if token.is_any(&["DATA", "INDEX"]) && after(1).is_some_and(|next| next.is_word("DIRECTORY")) {
            return Err(
                "a table with DATA DIRECTORY or INDEX DIRECTORY would be outside of the server's folder".into(),
            );
        }
        let value = if after(1).is_some_and(|next| next.is_symbol(b'=')) {
            after(2)
        } else {
            after(1)
        };
        if let Some(engine) = value.filter(|value| token.is_word("ENGINE") && value.is_any(ELSEWHERE)) {
            let engine = String::from_utf8_lossy(engine.text);
            return Err(format!(
                "a table of the engine {engine} has its rows on another server, or in foreign files"
            ));
        }
    }
    Ok(())
}

/// The beginning of a statement, for messages.
pub(super) fn shown(text: &[u8]) -> String {
    /// Characters.
    const MOST: usize = 80;
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.split_whitespace().take(MOST).collect();
    let line = words.join(" ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSI_BEGINS: &str = "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO,ANSI' */";

    /// What becomes of the statements of a dump for the schema `copy`; left out ones are empty.
    fn admitted(texts: &[&str]) -> Result<Vec<String>, String> {
        let mut admission = Admission::into("copy");
        let one = |text: &&str| match admission.admit(text.as_bytes())? {
            Admitted::Send(text) => Ok(String::from_utf8(text).unwrap()),
            Admitted::Omit(_) => Ok(String::new()),
        };
        texts.iter().map(one).collect()
    }

    #[test]
    fn a_dump_of_one_schema_is_loaded_into_another_and_drops_none() {
        let found = admitted(&[
            "SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5'",
            "SET @@SESSION.SQL_LOG_BIN= 0",
            "CHANGE MASTER TO MASTER_LOG_FILE='b', MASTER_LOG_POS=4",
            "DROP DATABASE IF EXISTS shop",
            "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET latin1 */",
            "USE `shop`",
            "/*!40101 SET NAMES utf8mb4 */",
            "CREATE TABLE t (a INT) ENGINE=InnoDB",
            "INSERT INTO `shop`.`t` VALUES (1,'shop.t')",
            "/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET \
         NEW.a = 1; END */",
            "ALTER DATABASE `shop` CHARACTER SET utf8mb4",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t",
            "FLUSH PRIVILEGES",
            "DO SETVAL(`sq`, 5, 0)",
        ]);
        let expected = [
            "",
            "",
            "",
            "",
            "ALTER DATABASE `copy` /*!40100 DEFAULT CHARACTER SET latin1 */",
            "",
            "/*!40101 SET NAMES utf8mb4 */",
            "CREATE TABLE t (a INT) ENGINE=InnoDB",
            "INSERT INTO `copy`.`t` VALUES (1,'shop.t')",
            "/*!50003 CREATE*/ /*!50017 */ /*!50003 TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; END */",
            "ALTER DATABASE `copy` CHARACTER SET utf8mb4",
            "",
            "",
            "DO SETVAL(`sq`, 5, 0)",
        ];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn what_reaches_beyond_one_schema_is_refused() {
        for (texts, words) in [
            (vec!["USE a", "USE b"], "for the schema b, and statements before for a"),
            (vec!["USE a", "INSERT INTO b.t VALUES (1)"], "for the schema b"),
            (vec!["USE a", "DROP DATABASE b"], "for the schema b"),
            (vec!["INSERT INTO mysql.user VALUES (1)"], "the server's schema mysql"),
            (vec!["DROP DATABASE mysql"], "the server's schema mysql"),
            // As mysqldump --all-databases begins.
            (
                vec![
                    "/*!50606 SET @OLD_INNODB_STATS_AUTO_RECALC=@@INNODB_STATS_AUTO_RECALC */",
                    "/*!50606 SET GLOBAL INNODB_STATS_AUTO_RECALC=OFF */",
                    "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `mysql`",
                ],
                "the server's schema mysql: dump the schema of the application alone",
            ),
            (vec!["SET GLOBAL max_connections = 5"], "the whole server"),
            (vec!["SET autocommit = 0, GLOBAL x = 5"], "the whole server"),
            (vec!["GRANT ALL ON *.* TO a@b"], "accounts"),
            (vec!["CREATE OR REPLACE USER a"], "accounts"),
            (
                vec!["LOAD DATA INFILE '/etc/passwd' INTO TABLE t"],
                "files on the server's host",
            ),
            (vec!["CALL p()"], "no statement of a dump"),
            (vec!["EXECUTE s"], "no statement of a dump"),
            (vec!["source load_departments.dump"], "a command of the mysql client"),
            (
                vec!["CREATE TABLE t (a INT) ENGINE=FEDERATED CONNECTION='mysql://h/d/t'"],
                "FEDERATED",
            ),
            (vec!["CREATE TABLE t (a INT) DATA DIRECTORY='/tmp'"], "DATA DIRECTORY"),
            (vec!["SET NAMES gbk"], "--default-character-set=utf8mb4"),
            (vec!["SET SQL_MODE='NO_BACKSLASH_ESCAPES'"], "NO_BACKSLASH_ESCAPES"),
            // As mysqldump --compatible=ansi writes names.
            (
                vec!["USE \"a\"", "INSERT INTO \"b\".\"t\" VALUES (1)"],
                "for the schema b",
            ),
            (
                vec!["INSERT INTO \"mysql\".\"user\" VALUES (1)"],
                "the server's schema mysql",
            ),
            (vec!["DROP DATABASE \"mysql\""], "the server's schema mysql"),
            (
                vec![ANSI_BEGINS, "UPDATE t AS \"a\\\", mysql.user SET x = 1 WHERE \"y\" = 1"],
                "a backslash is there",
            ),
            (
                vec![
                    "SET sql_mode = CONCAT(@@sql_mode, ',ansi_quotes')",
                    "INSERT INTO t VALUES (\"\\\\\")",
                ],
                "a backslash is there",
            ),
            (vec!["SET sql_mode = CONCAT(@@sql_mode, ',ORACLE')"], "sql_mode ORACLE"),
            (vec!["USE a", "ALTER TABLE t RENAME = b.t"], "for the schema b"),
            (
                vec!["USE a", "CREATE TABLE t (c INT) ENGINE=MERGE UNION=(b.t)"],
                "for the schema b",
            ),
            (vec!["USE a", "DO SETVAL(b.s, 5)"], "for the schema b"),
            (vec!["SET @@global . x = 5"], "the whole server"),
            (
                vec!["SET STATEMENT max_statement_time = 9 FOR DROP DATABASE b"],
                "no statement of a dump",
            ),
            (vec!["BEGIN NOT ATOMIC DROP DATABASE b; END"], "several statements"),
            (vec!["BEGIN NOT ATOMIC DROP DATABASE b"], "no statement of a dump"),
            (vec!["START TRANSACTION; DROP DATABASE b"], "several statements"),
            (vec!["USE a; INSERT INTO t VALUES (1)"], "several statements"),
        ] {
            let error = admitted(&texts).unwrap_err();
            assert!(error.contains(words), "{texts:?}: {error}");
        }
    }

    #[test]
    fn a_dump_with_names_in_double_quotes_goes_into_the_target() {
        let texts = [
            ANSI_BEGINS,
            "DROP DATABASE IF EXISTS \"shop\"",
            "CREATE DATABASE /*!32312 IF NOT EXISTS*/ \"shop\"",
            "USE \"shop\"",
            "CREATE TABLE \"t\" (\"a\" INT)",
            "INSERT INTO \"shop\".\"t\" VALUES ('\\'\"\\\\')",
        ];
        let expected = [
            texts[0],
            "",
            "",
            "",
            texts[4],
            "INSERT INTO `copy`.\"t\" VALUES ('\\'\"\\\\')",
        ];
        assert_eq!(admitted(&texts).unwrap(), expected);
        let text = "INSERT INTO t VALUES (\"a\\\"b\")";
        assert_eq!(admitted(&[text]).unwrap(), [text], "a string of the default mode");
    }

    #[test]
    fn the_servers_schemas_may_be_read() {
        let text = "SELECT COUNT(*) INTO @rocksdb FROM INFORMATION_SCHEMA.SESSION_VARIABLES WHERE VARIABLE_NAME = 'x'";
        assert_eq!(admitted(&[text, "USE shop"]).unwrap(), [text, ""]);
    }
}
