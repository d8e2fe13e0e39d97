//! Loads the data of a dump: the statements of mysqldump, mariadb-dump, phpMyAdmin or a sample schema. The whole file is
//! read and classified before the first statement is sent.

mod admission;
mod encoding;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use dyno_capture::statements::{Broken, FileStatement, Statements};
use dyno_mysql::blocking::Client;
use dyno_mysql::Options;
use serde::Serialize;

use crate::error::Error;
use crate::sql::server::{analyze, connect_unbounded, failed, quoted};
pub use encoding::decoded;

use admission::{shown, Admission, Admitted};

/// The server's code for a function or procedure that is not there.
const NO_ROUTINE: u16 = 1305;

/// Statements of one kind that are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Omitted {
    /// Which, and why.
    pub reason: &'static str,
    /// How many.
    pub count: u64,
    /// The line where the first one begins.
    pub line: u64,
}

/// What a dump consists of.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Statements that are executed.
    pub statements: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that are not.
    pub omitted: Vec<Omitted>,
}

/// Reads a dump without a server.
///
/// # Errors
/// When it cannot be read, is incomplete, or reaches beyond one schema, with the line.
pub fn check(path: &Path, database: &str) -> Result<Contents, Error> {
    each(path, database, |_, _| Ok(()))
}

/// Loads a dump into a database without tables, which is made when it is missing, and has the server count the rows of
/// its tables for the optimizer. `say` hears what is left out. Returns the number of statements.
///
/// # Errors
/// As [`check`], before anything is sent; when the database has tables; when the server refuses a statement.
pub fn load(options: &Options, database: &str, path: &Path, say: &dyn Fn(String)) -> Result<u64, Error> {
    for omitted in check(path, database)?.omitted {
        say(format!(
            "left out: {} ({}, from line {} on)",
            omitted.reason, omitted.count, omitted.line
        ));
    }
    // The server refuses what would follow the statement that makes a routine or trigger.
    let single = Options {
        multi_statements: false,
        ..options.clone()
    };
    let mut client = connect_unbounded(&single)?;
    enter(&mut client, database)?;
    let contents = each(path, database, |line, statement| {
        client.exec(statement).map(|_| ()).map_err(|error| {
            let is_missing = error.server().is_some_and(|server| server.code == NO_ROUTINE);
            let hint = if is_missing { "; dump with --routines" } else { "" };
            let error = failed(&shown(statement), &error);
            Error::User(format!("'{}', line {line}: {error}{hint}", path.display()))
        })
    })?;
    // What a dump leaves locked or open would keep the tables from being read.
    for sql in ["UNLOCK TABLES", "COMMIT"] {
        client.exec(sql).map_err(|error| failed(sql, &error))?;
    }
    analyze(&mut client)?;
    Ok(contents.statements)
}

/// Gives `take` each statement that is executed, with its line.
fn each(path: &Path, database: &str, mut take: impl FnMut(u64, &[u8]) -> Result<(), Error>) -> Result<Contents, Error> {
    let mut admission = Admission::into(database);
    let mut contents = Contents::default();
    let mut omitted: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    statements(path, |statement| {
        let line = statement.line;
        match admission
            .admit(&statement.text)
            .map_err(|words| wrong(path, line, &words))?
        {
            Admitted::Send(text) => {
                contents.statements += 1;
                contents.bytes += text.len() as u64;
                take(line, &text)?;
            }
            Admitted::Omit(reason) => omitted.entry(reason).or_insert((0, line)).0 += 1,
        }
        Ok(())
    })?;
    let of = |(reason, (count, line))| Omitted { reason, count, line };
    contents.omitted = omitted.into_iter().map(of).collect();
    if contents.statements == 0 {
        return Err(Error::User(format!("'{}' has no statement", path.display())));
    }
    Ok(contents)
}

/// Gives `take` each statement of a dump.
///
/// # Errors
/// When it cannot be read or is incomplete; those of `take`.
pub fn statements(path: &Path, mut take: impl FnMut(&FileStatement) -> Result<(), Error>) -> Result<(), Error> {
    let unreadable =
        |error: std::io::Error| Error::User(format!("the dump '{}' cannot be read: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let mut statements = Statements::new(decoded(file).map_err(unreadable)?);
    loop {
        let (line, words) = match statements.next_statement() {
            Ok(Some(statement)) => {
                take(&statement)?;
                continue;
            }
            Ok(None) => return Ok(()),
            Err(Broken::Unreadable(error)) => return Err(unreadable(error)),
            Err(Broken::Open(line)) => (
                line,
                "a text, a name or a comment that begins here has no end: the dump is incomplete",
            ),
            Err(Broken::TooLong(line)) => (line, "a statement is longer than any server takes, 1 GiB"),
        };
        return Err(wrong(path, line, words));
    }
}

fn wrong(path: &Path, line: u64, words: &str) -> Error {
    Error::User(format!("'{}', line {line}: {words}", path.display()))
}

fn enter(client: &mut Client, database: &str) -> Result<(), Error> {
    let quoted = quoted(database);
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
