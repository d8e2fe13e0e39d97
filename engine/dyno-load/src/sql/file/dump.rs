//! Loads the data of a dump: the statements of mysqldump or mariadb-dump, one after another.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use dyno_capture::{class, lexer};
use dyno_mysql::blocking::Client;
use dyno_mysql::Options;

use crate::error::Error;
use crate::sql::server::{connect_unbounded, failed};

/// Characters of a statement in an error.
const SHOWN: usize = 200;

/// Loads a dump into a database without tables, which is made when it is missing. Returns the statements.
///
/// # Errors
/// When the file is no dump of one schema, when the database has tables, or when the server refuses a statement.
pub fn load(options: &Options, database: &str, path: &Path) -> Result<u64, Error> {
    let unreadable =
        |error: std::io::Error| Error::User(format!("the dump '{}' cannot be read: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let mut client = connect_unbounded(options)?;
    enter(&mut client, database)?;
    let mut reader = Reader::default();
    let mut line = Vec::new();
    let mut input = BufReader::with_capacity(1 << 20, file);
    while input.read_until(b'\n', &mut line).map_err(unreadable)? > 0 {
        let statement = reader.take(&line);
        line.clear();
        let wrong = |problem: &str| Error::User(format!("'{}', line {}: {problem}", path.display(), reader.line));
        if let Some(statement) = statement.map_err(wrong)? {
            client.exec(&statement).map_err(|error| {
                let shown: String = statement.trim_start().chars().take(SHOWN).collect();
                let error = failed(&shown, &error);
                Error::User(format!("'{}', line {}: {error}", path.display(), reader.line))
            })?;
        }
    }
    if reader.text.iter().any(|byte| !byte.is_ascii_whitespace()) {
        return Err(Error::User(format!(
            "'{}' ends within the statement that begins in line {}: the dump is incomplete",
            path.display(),
            reader.begin
        )));
    }
    match reader.statements {
        0 => Err(Error::User(format!("'{}' has no statement", path.display()))),
        count => Ok(count),
    }
}

fn enter(client: &mut Client, database: &str) -> Result<(), Error> {
    let quoted = format!("`{}`", database.replace('`', "``"));
    for sql in [
        format!("CREATE DATABASE IF NOT EXISTS {quoted}"),
        format!("USE {quoted}"),
    ] {
        client.exec(&sql).map_err(|error| failed(&sql, &error))?;
    }
    const QUESTION: &str = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()";
    let tables = client.query_text(QUESTION).map_err(|error| failed(QUESTION, &error))?;
    match tables.as_deref() {
        Some("0") => Ok(()),
        count => Err(Error::User(format!(
            "the database {database} has {} tables: a dump, which drops tables of the same names, is loaded into an empty one",
            count.unwrap_or("?")
        ))),
    }
}

/// Puts lines together to statements.
#[derive(Debug, Default)]
struct Reader {
    line: u64,
    /// The line where the statement begins.
    begin: u64,
    text: Vec<u8>,
    statements: u64,
}

impl Reader {
    /// Takes a line with its end; a statement that it completes.
    fn take(&mut self, line: &[u8]) -> Result<Option<String>, &'static str> {
        self.line += 1;
        let trimmed = line.trim_ascii();
        if self.text.is_empty() {
            if trimmed.is_empty() || trimmed.starts_with(b"--") {
                return Ok(None);
            }
            self.begin = self.line;
            if trimmed.len() > 9 && trimmed[..9].eq_ignore_ascii_case(b"DELIMITER") {
                return Err(
                    "DELIMITER: routines and triggers cannot be loaded; dump with --skip-triggers, without --routines",
                );
            }
        }
        self.text.extend_from_slice(line);
        if !trimmed.ends_with(b";") || lexer::is_cut(&self.text) {
            return Ok(None);
        }
        let text = std::mem::take(&mut self.text);
        let is_of_a_schema = |text: &[u8]| {
            let mut tokens = lexer::tokens(text);
            let is_create = tokens.next().is_some_and(|token| token.is_word("CREATE"));
            is_create && tokens.next().is_some_and(|token| token.is_any(&["DATABASE", "SCHEMA"]))
        };
        if class::used_schema(&text).is_some() || is_of_a_schema(&text) {
            return Err("the dump selects a schema itself; dump one schema, without --databases");
        }
        self.statements += 1;
        String::from_utf8(text)
            .map(Some)
            .map_err(|_| "not UTF-8; dump with --hex-blob")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(text: &str) -> Result<Vec<String>, &'static str> {
        let mut reader = Reader::default();
        let found = text
            .split_inclusive('\n')
            .filter_map(|line| reader.take(line.as_bytes()).transpose());
        let found: Result<Vec<String>, _> = found.collect();
        Ok(found?.iter().map(|statement| statement.trim().to_string()).collect())
    }

    #[test]
    fn lines_become_statements() {
        let text = "-- MariaDB dump\n\n/*!40101 SET NAMES utf8mb4 */;\nCREATE TABLE t (\n  a INT -- ;\n);\nINSERT INTO t VALUES \
                    ('x;\n-- y');\n";
        let expected = [
            "/*!40101 SET NAMES utf8mb4 */;",
            "CREATE TABLE t (\n  a INT -- ;\n);",
            "INSERT INTO t VALUES ('x;\n-- y');",
        ];
        assert_eq!(statements(text).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_loaded_is_refused() {
        for (text, words) in [
            ("DELIMITER ;;\n", "--skip-triggers"),
            ("USE `shop`;\n", "--databases"),
            ("CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop`;\n", "--databases"),
        ] {
            assert!(statements(text).unwrap_err().contains(words), "{text}");
        }
    }
}
