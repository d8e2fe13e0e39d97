//! Reads a file of SQL transactions.
//!
//! ```sql
//! -- transaction: buy weight=2
//! BEGIN;
//! -- name: take
//! UPDATE item SET stock = stock - 1 WHERE id = {item: zipfian(1, 5000)};
//! INSERT INTO sale (item_id, buyer) VALUES ({item}, {string(8, 20)});
//! COMMIT;
//! ```

mod statements;

use std::path::{Path, PathBuf};

use dyno_capture::statements::{Broken, Statements};
use serde::Serialize;

use super::rules::Rule;
use crate::sources::Sources;
use crate::sql::definition::{Definition, Part, Statement, StatementKind};

/// A piece of a statement.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Text as it is.
    Text(String),
    /// The value of this number.
    Value(usize),
}

/// One statement.
#[derive(Debug, Clone)]
pub struct FileStatement {
    /// Its text.
    pub pieces: Vec<Piece>,
    /// Its name in results.
    pub name: String,
    /// What it is.
    pub kind: StatementKind,
}

/// One transaction.
#[derive(Debug, Clone)]
pub struct FileTransaction {
    /// Its name in results.
    pub name: String,
    /// How often it comes, relative to the others.
    pub weight: u32,
    /// The numbers of its statements.
    pub statements: Vec<usize>,
    /// Rules of the values; each is drawn once in a transaction.
    pub values: Vec<Rule>,
}

/// A file of transactions, ready to run.
#[derive(Debug, Clone, Serialize)]
pub struct FileContext {
    /// The file.
    #[serde(rename = "sql")]
    pub path: PathBuf,
    /// The transactions; `weight_ends` has the sums of their weights up to each.
    #[serde(skip)]
    pub transactions: Vec<FileTransaction>,
    /// See `transactions`.
    #[serde(skip)]
    pub weight_ends: Vec<u32>,
    /// All statements.
    #[serde(skip)]
    pub statements: Vec<FileStatement>,
    /// The same for preparing them; one more, ROLLBACK, is the last.
    #[serde(skip)]
    pub definition: Definition,
    /// Seed of the values.
    #[serde(skip)]
    pub seed: u64,
}

impl FileContext {
    /// Draws the part of one agent of what may be drawn once only.
    pub fn divide(&mut self, part: Part) {
        let rules = self.transactions.iter_mut().flat_map(|one| &mut one.values);
        rules.for_each(|rule| rule.divide(part));
    }
}

struct Parser<'a> {
    path: &'a Path,
    folder: &'a Path,
    text: &'a str,
    /// The schema of the connections.
    database: &'a str,
    sources: &'a Sources,
    transactions: Vec<FileTransaction>,
    statements: Vec<FileStatement>,
    /// Names of the current transaction's values, for `{name}`; none for a value without one.
    names: Vec<Option<String>>,
    /// The name for the next statement.
    name: Option<String>,
}

/// Reads `text`, the file at `path`, for connections whose schema is `database`; files that it names are of `sources`.
///
/// # Errors
/// With file, line, column, what is wrong and what is allowed.
pub fn parse(path: &Path, text: &str, database: &str, sources: &Sources, seed: u64) -> Result<FileContext, String> {
    let mut parser = Parser {
        path,
        folder: path.parent().unwrap_or(Path::new(".")),
        text: text.trim_start_matches('\u{feff}'),
        database,
        sources,
        transactions: Vec::new(),
        statements: Vec::new(),
        names: Vec::new(),
        name: None,
    };
    parser.run()?;
    parser.finish(seed)
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut reader = Statements::new(self.text.as_bytes());
        loop {
            let statement = reader.next_statement().map_err(|broken| self.broken(&broken))?;
            for comment in reader.comments() {
                let Some(text) = self.text[comment.clone()].strip_prefix("--") else {
                    continue;
                };
                let is_within = statement.as_ref().is_some_and(|one| one.start < comment.start);
                self.comment(text.trim_start_matches('-').trim(), comment.start, is_within)?;
            }
            match statement {
                Some(statement) => self.statement(&statement)?,
                None => return Ok(()),
            }
        }
    }

    fn broken(&self, broken: &Broken) -> String {
        let (line, message) = match broken {
            Broken::Unreadable(error) => return format!("the file '{}' cannot be read: {error}", self.path.display()),
            Broken::Open(line) => (line, "a text, a name or a comment that begins here has no end"),
            Broken::TooLong(line) => (line, "the statement is longer than any server takes, 1 GiB"),
        };
        format!("{}:{line}: {message}", self.path.display())
    }

    fn finish(self, seed: u64) -> Result<FileContext, String> {
        let file = self.path.display();
        if self.transactions.is_empty() {
            return Err(format!("{file}: there is no statement"));
        }
        if let Some(empty) = self.transactions.iter().find(|one| one.statements.is_empty()) {
            return Err(format!("{file}: the transaction '{}' has no statement", empty.name));
        }
        let name = self
            .path
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let mut definition = Definition::new(name);
        for statement in &self.statements {
            definition.statements.push(prepared(statement));
        }
        definition.statement(StatementKind::Rollback, "ROLLBACK", Vec::new());
        let mut sum = 0u32;
        let ends = self.transactions.iter().map(|one| {
            sum = sum.saturating_add(one.weight);
            sum
        });
        Ok(FileContext {
            path: self.path.to_path_buf(),
            weight_ends: ends.collect(),
            transactions: self.transactions,
            statements: self.statements,
            definition,
            seed,
        })
    }

    /// `at`: bytes before the place.
    fn fail<T>(&self, at: usize, message: &str) -> Result<T, String> {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Err(format!(
            "{}:{}:{}: {message}",
            self.path.display(),
            before.matches('\n').count() + 1,
            before[line_start..].chars().count() + 1,
        ))
    }

    /// A comment of a line: the beginning of a transaction, the name of a statement, or nothing.
    fn comment(&mut self, text: &str, place: usize, is_within: bool) -> Result<(), String> {
        let is_own = text.starts_with("transaction:") || text.starts_with("name:");
        if is_own && is_within {
            return self.fail(place, "the statement before this line has no end: a ';' is missing");
        }
        if let Some(rest) = text.strip_prefix("transaction:") {
            return self.transaction(rest, place);
        }
        if let Some(name) = text.strip_prefix("name:") {
            self.name = Some(self.checked_name(name.trim(), place)?);
            return Ok(());
        }
        let word = text.split([':', ' ']).next().unwrap_or("").to_lowercase();
        let is_near = |name: &str| text.contains(':') && crate::sql::oltp::distance(&word, name) <= 2 && word.len() > 3;
        if is_near("transaction") {
            return self.fail(place, "did you mean `-- transaction: NAME weight=1`?");
        }
        Ok(())
    }

    fn transaction(&mut self, text: &str, place: usize) -> Result<(), String> {
        let mut words = text.split_whitespace();
        let name = self.checked_name(words.next().unwrap_or(""), place)?;
        let mut weight = 1;
        for word in words {
            let value = word.strip_prefix("weight=").and_then(|value| value.parse::<u32>().ok());
            match value.filter(|value| (1..=1_000_000).contains(value)) {
                Some(value) => weight = value,
                None => {
                    let message = format!(
                        "'{word}' is not allowed after a transaction's name; allowed: weight=1 to weight=1000000"
                    );
                    return self.fail(place, &message);
                }
            }
        }
        if self.transactions.iter().any(|one| one.name == name) {
            return self.fail(place, &format!("there are two transactions '{name}'"));
        }
        self.transactions.push(FileTransaction {
            name,
            weight,
            statements: Vec::new(),
            values: Vec::new(),
        });
        self.names.clear();
        Ok(())
    }

    fn checked_name(&self, name: &str, place: usize) -> Result<String, String> {
        let is_name = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
        if name.is_empty() || !name.chars().all(is_name) {
            return self.fail(
                place,
                &format!("'{name}' is no name; allowed: letters, digits, '_', '-' and '.', as in `-- transaction: buy weight=2`"),
            );
        }
        Ok(name.to_string())
    }
}

/// A statement with question marks for its values.
fn prepared(statement: &FileStatement) -> Statement {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Value(_) => "?".into(),
    };
    Statement {
        kind: statement.kind,
        template: statement.pieces.iter().map(text).collect(),
        parameters: Vec::new(),
        per_table: false,
        always_text: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<FileContext, String> {
        parse(Path::new("shop.sql"), text, "shop", &Sources::default(), 1)
    }

    fn templates(context: &FileContext) -> Vec<&str> {
        let statements = &context.definition.statements;
        statements.iter().map(|one| one.template.as_str()).collect()
    }

    #[test]
    fn transactions_have_weights_and_values_that_several_statements_share() {
        let text = "-- a comment\n-- transaction: read weight=3\nSELECT * FROM a WHERE id = {uniform(1, 9)};\n\
                    -- transaction: write\nBEGIN; -- name: change\nUPDATE a SET n = '?{x}' WHERE id = {id: uniform(1, 9)};\n\
                    SELECT {id}, {string(3)};\nCOMMIT;\n";
        let context = parsed(text).unwrap();
        assert_eq!(context.weight_ends, [3, 4]);
        let [read, write] = &context.transactions[..] else {
            panic!("two")
        };
        assert_eq!((read.statements.len(), read.values.len()), (1, 1));
        assert_eq!((write.statements.len(), write.values.len()), (4, 2));
        let templates = templates(&context);
        assert_eq!(templates[2], "UPDATE a SET n = '?{x}' WHERE id = ?");
        assert_eq!(context.statements[2].name, "change");
        assert_eq!(context.statements[3].name, "write-3-select");
        assert_eq!(templates.last(), Some(&"ROLLBACK"));
    }

    #[test]
    fn a_mistake_is_named_with_file_line_and_column() {
        for (text, expected) in [
            ("SELECT 1", "shop.sql:1:1: the statement has no end"),
            ("SELECT 1;\nSELECT {id};", "shop.sql:2:8: {id} is not defined before"),
            (
                "SELECT\n  {x: unifrom(1, 2)};",
                "shop.sql:2:3: 'unifrom' is no rule; allowed: uniform",
            ),
            (
                "-- transaction: a weight=0\nSELECT 1;",
                "shop.sql:1:1: 'weight=0' is not allowed",
            ),
            (
                "-- transation: a\nSELECT 1;",
                "shop.sql:1:1: did you mean `-- transaction:",
            ),
            (
                "SELECT 1;\nSELECT 'x",
                "shop.sql:2: a text, a name or a comment that begins",
            ),
            (
                "SELECT 1;\n\n--transaction: a\nSELECT 1;",
                "shop.sql:3:1: a comment begins with two dashes and a blank",
            ),
            ("SELECT 'é', ?;", "shop.sql:1:13: a '?' is not allowed"),
            ("SELECT ?;", "shop.sql:1:8: a '?' is not allowed"),
            (
                "SELECT 1\n-- transaction: b\nSELECT 2;",
                "shop.sql:2:1: the statement before this line has no end",
            ),
            ("SELECT {uniform(1, 2);", "shop.sql:1:8: the parameter has no end"),
            (
                "-- transaction: a\n-- transaction: b\nSELECT 1;",
                "shop.sql: the transaction 'a' has no statement",
            ),
            ("", "shop.sql: there is no statement"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn quotes_comments_and_delimiters_are_read_as_the_servers_read_them() {
        let text =
            "\u{feff}/* -- transaction: none; { */ # {x}\nSELECT 'it''s; {x} ?', \"a\\\"; {y}\", `b;{z}` /* ? { ; */ \
                    FROM t -- {w}; ?\nWHERE a = {choice('a;}b', 'c')};\nDELIMITER //\nUPDATE t SET a = 1 //\n";
        let context = parsed(text).unwrap();
        let templates = templates(&context);
        assert_eq!(
            templates[..2],
            [
                "SELECT 'it''s; {x} ?', \"a\\\"; {y}\", `b;{z}` /* ? { ; */ FROM t -- {w}; ?\nWHERE a = ?",
                "UPDATE t SET a = 1"
            ]
        );
    }

    #[test]
    fn what_reaches_beyond_the_schema_is_refused_by_its_line() {
        for (statement, words) in [
            ("SET GLOBAL max_connections = 5", "the whole server"),
            (
                "SET autocommit = 1, GLOBAL max_connections = {uniform(1, 9)}",
                "the whole server",
            ),
            ("/*!50000 KILL */ 5", "the whole server"),
            ("CREATE USER a", "accounts"),
            ("GRANT ALL ON *.* TO a", "accounts"),
            ("LOAD DATA INFILE 'x' INTO TABLE t", "files on the server's host"),
            ("SELECT 1 INTO OUTFILE '/tmp/x'", "files on the server's host"),
            ("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1", "an event"),
            ("INSERT INTO crm.t VALUES (1)", "the schema crm, and the load's is shop"),
            ("SELECT a FROM `crm`.t FOR UPDATE", "the schema crm"),
            ("UPDATE mysql.user SET a = 1", "the schema mysql"),
            ("USE shop", "the schema shop as a whole"),
            ("DROP DATABASE crm", "the schema crm as a whole"),
        ] {
            let error = parsed(&format!("SELECT 1;\n\n{statement};")).unwrap_err();
            assert!(error.starts_with("shop.sql:3:1: "), "{statement}: {error}");
            assert!(error.contains(words), "{statement}: {error}");
        }
        for statement in [
            "UPDATE shop.t SET a = {uniform(1, 9)}",
            "SELECT a.b, c.d FROM crm.a, c WHERE 'x' = \"SET GLOBAL\"",
            "SELECT TABLE_ROWS FROM information_schema.TABLES",
            "CALL p({uniform(1, 9)})",
            "SET @a = @@global.max_connections",
        ] {
            parsed(&format!("{statement};")).unwrap();
        }
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_read_or_refused_with_its_name(
            pieces in proptest::collection::vec(proptest::sample::select(&[
                "-- transaction: a weight=2\n", "-- name: b\n", "SELECT ", "{", "}", "{a: uniform(1, 2)}", "{a}", ";", "'", "é",
                "\"", "`", "\\", "?", "/*", "*/", "#", "\n", "\u{feff}", "DELIMITER é\n", "csv('x', 'y')", "choice(", "a.b",
            ][..]), 0..30)
        ) {
            if let Err(error) = parsed(&pieces.concat()) {
                assert!(error.starts_with("shop.sql:"), "{error}");
            }
        }
    }
}
