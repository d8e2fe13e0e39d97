//! `dynoload sql`: files of SQL transactions, and the TOML files beside them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dyno_capture::reach::{named_schemas, written_tables};
use dyno_capture::{class, digest};
use dyno_mysql::{OWN_STATE, STATE_FOR_A_DUMP};
use serde::Serialize;

use super::tpcc::cpus;
use crate::capture;
use crate::error::{Error, Exit};
use crate::parse::threads;
use crate::runner::{self, Run};
use crate::spec::{ConnectionSpec, FileSpec, SqlSpec};
use crate::sql::file::{data, dump, Schema};
use crate::sql::SqlWorkload;

const RUN_EXAMPLES: &str = "Examples:
  dynoload sql prepare shop.toml --database shop
      Creates and fills the tables that shop.toml describes.
  dynoload sql run shop.sql --database shop --connections 16 --duration 60s
      Runs the transactions of shop.sql as fast as 16 connections go.
  dynoload sql run shop.sql --database shop --connections 64 --rate 500 --arrivals poisson --json result.json
      500 transactions a second come whether or not the server keeps up.
  dynoload sql run monday.capture --database shop --connections 16 --duration 60s --read-only
      Runs the transactions of a capture in their order, again from the first one after the last one.
  dynoload sql run monday.capture --database shop --connections 40 --duration 10m --speed original
      The captured sessions, each transaction at its captured time.

docs/guides/own-load.md describes SQL files and captures.
The password comes from --password-file or DYNO_PASSWORD. The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 1 failed, 2 wrong input, 3 cannot be done here, 4 INVALID, 130 interrupted.";

/// Files of SQL transactions: prepare their tables, run them, drop the tables.
#[derive(Debug, Subcommand)]
pub enum Sql {
    /// Create and fill the tables of a TOML file, or load a dump.
    Prepare(PrepareArguments),
    /// Read a dump or a TOML file without a server: what would be executed and what left out, or made, as JSON.
    Check(CheckArguments),
    /// Run the transactions of an SQL file or of a capture and measure them.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run<FileSpec>>),
    /// Drop the tables of a TOML file.
    Cleanup(CleanupArguments),
}

/// The options of `sql prepare`.
#[derive(Debug, Args)]
pub struct PrepareArguments {
    /// TOML file with the tables; or NAME.sql, also with .gz, .bz2, .xz or .zst, a dump of one schema (mysqldump, mariadb-dump) for an empty database
    file: PathBuf,
    /// Threads, each with a connection; default: two for each CPU
    #[arg(long, value_parser = threads)]
    threads: Option<u32>,
    /// Seed of the rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Scale factor of the tables, of a file that has one; default: the file's
    #[arg(long)]
    scale: Option<f64>,
    #[command(flatten)]
    connection: ConnectionSpec,
}

/// The options of `sql check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// TOML file with the tables; or NAME.sql, also with .gz, .bz2, .xz or .zst, a dump of one schema (mysqldump, mariadb-dump)
    file: PathBuf,
    /// The schema that a dump would be loaded into
    #[arg(long, default_value = "sbtest")]
    database: String,
    /// Scale factor of the tables, of a file that has one; default: the file's
    #[arg(long)]
    scale: Option<f64>,
}

/// The options of `sql cleanup`.
#[derive(Debug, Args)]
pub struct CleanupArguments {
    /// TOML file with the tables
    file: PathBuf,
    #[command(flatten)]
    connection: ConnectionSpec,
}

/// Runs it.
pub fn run(command: Sql) -> Result<Exit, Error> {
    match command {
        Sql::Prepare(arguments) => prepare(&arguments),
        Sql::Check(arguments) => check(&arguments),
        Sql::Cleanup(arguments) => {
            let schema = read(&arguments.file, None)?;
            data::cleanup(&arguments.connection.options(true, Some(OWN_STATE))?, &schema)?;
            Ok(Exit::Done)
        }
        Sql::Run(run) => {
            let mut spec = run.spec;
            spec.load.end_after(&spec.events);
            if spec.speed.is_some() && spec.load.connections.is_none() {
                // At captured times as many as the capture had at a time.
                spec.load.connections = capture::peak_sessions(&spec.file);
            }
            if spec.check {
                let contents = Contents::of(&spec.resolve()?.workload, &spec.connection.database);
                let contents = serde_json::to_string(&contents).map_err(|error| Error::Output(error.to_string()))?;
                writeln!(dyno_core::streams::stdout(), "{contents}")?;
                return Ok(Exit::Done);
            }
            runner::run_sql(SqlSpec::File(spec), &run.options)
        }
    }
}

/// A dump, in contrast to a file with rules for rows.
fn is_dump(path: &Path) -> bool {
    let name = path.to_string_lossy();
    [".sql", ".sql.gz", ".sql.bz2", ".sql.xz", ".sql.zst"]
        .iter()
        .any(|ending| name.ends_with(ending))
}

fn without_scale(path: &Path, scale: Option<f64>) -> Result<(), Error> {
    if is_dump(path) && scale.is_some() {
        return Err(Error::User("--scale is for a TOML file; a dump has no scale".into()));
    }
    Ok(())
}

fn check(arguments: &CheckArguments) -> Result<Exit, Error> {
    without_scale(&arguments.file, arguments.scale)?;
    let contents = if is_dump(&arguments.file) {
        serde_json::to_value(dump::check(&arguments.file, &arguments.database)?)
    } else {
        let tables = read(&arguments.file, arguments.scale)?.tables;
        let rows: u64 = tables.iter().map(|table| table.rows).sum();
        Ok(serde_json::json!({"tables": tables.len(), "rows": rows}))
    };
    let contents = contents.map_err(|error| Error::Output(error.to_string()))?;
    writeln!(dyno_core::streams::stdout(), "{contents}")?;
    Ok(Exit::Done)
}

fn read(path: &Path, scale: Option<f64>) -> Result<Schema, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::User(format!("the file '{}' cannot be read: {error}", path.display())))?;
    Schema::parse(path, &text, scale).map_err(Error::User)
}

fn prepare(arguments: &PrepareArguments) -> Result<Exit, Error> {
    let spec = &arguments.connection;
    without_scale(&arguments.file, arguments.scale)?;
    if is_dump(&arguments.file) {
        let began = std::time::Instant::now();
        let statements = dump::load(
            &spec.options(false, Some(STATE_FOR_A_DUMP))?,
            &spec.database,
            &arguments.file,
            &|line| dyno_core::tell!("{line}"),
        )?;
        writeln!(
            dyno_core::streams::stdout(),
            "{statements} statements of the dump, {:.1} s",
            began.elapsed().as_secs_f64()
        )?;
        return Ok(Exit::Done);
    }
    let request = data::Request {
        options: spec.options(false, Some(OWN_STATE))?,
        database: spec.database.clone(),
        schema: read(&arguments.file, arguments.scale)?,
        seed: arguments.seed,
        threads: arguments.threads.unwrap_or_else(|| cpus() * 2),
    };
    let began = std::time::Instant::now();
    let rows = data::prepare(&request, &|line| dyno_core::tell!("{line}"))?;
    writeln!(
        dyno_core::streams::stdout(),
        "{rows} rows in {} tables, {:.1} s",
        request.schema.tables.len(),
        began.elapsed().as_secs_f64()
    )?;
    Ok(Exit::Done)
}

/// What a load consists of.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Statements; of a capture as often as they were captured.
    pub statements: u64,
    /// Those that do not only read, in the order of their texts.
    pub writing: Vec<Writing>,
}

/// Statements that differ in literals alone, and do not only read.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Writing {
    /// Their text, without literals.
    pub statement: String,
    /// How many there are.
    pub count: u64,
    /// The tables that they write or lock, and the routine that they call; empty where their text does not show them.
    pub tables: Vec<String>,
    /// The schemas that they name, other than the load's.
    pub elsewhere: Vec<String>,
}

impl Contents {
    /// Of a load whose connections have this default schema; none where only its execution shows it.
    pub fn of(workload: &SqlWorkload, database: &str) -> Option<Self> {
        match workload {
            SqlWorkload::File(context) => {
                let statements = &context.definition.statements[..context.statements.len()];
                let texts = statements.iter().map(|one| one.template.as_bytes());
                Some(Self::of_texts(texts, database))
            }
            SqlWorkload::Captured(context) => Some(Self::of_texts(context.texts(), database)),
            SqlWorkload::Oltp(_) | SqlWorkload::Tpcc(_) | SqlWorkload::Script(_) => None,
        }
    }

    fn of_texts<'a>(texts: impl Iterator<Item = &'a [u8]>, database: &str) -> Self {
        let mut statements = 0;
        let mut found: BTreeMap<String, Writing> = BTreeMap::new();
        for text in texts {
            statements += 1;
            if class::is_read_only(text) {
                continue;
            }
            let statement = digest(text);
            let one = found.entry(statement).or_insert_with_key(|statement| Writing {
                statement: statement.clone(),
                count: 0,
                tables: written_tables(text),
                elsewhere: elsewhere(text, database),
            });
            one.count += 1;
        }
        Self {
            statements,
            writing: found.into_values().collect(),
        }
    }
}

fn elsewhere(text: &[u8], database: &str) -> Vec<String> {
    let mut names: Vec<String> = named_schemas(text).into_iter().map(|one| one.name).collect();
    names.retain(|name| name != database);
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_write_are_counted_by_digest_with_their_tables() {
        let texts = [
            "SELECT a FROM other.t WHERE a = 1",
            "UPDATE t SET a = 1 WHERE b = 2",
            "UPDATE t SET a = 3 WHERE b = 4",
            "INSERT INTO other.u VALUES (1)",
            "COMMIT",
        ];
        let found = Contents::of_texts(texts.iter().map(|text| text.as_bytes()), "shop");
        let writing = |statement: &str, count, table: &str, elsewhere: &[&str]| Writing {
            statement: statement.into(),
            count,
            tables: vec![table.into()],
            elsewhere: elsewhere.iter().map(ToString::to_string).collect(),
        };
        let expected = Contents {
            statements: 5,
            writing: vec![
                writing("INSERT INTO other.u VALUES (?+)", 1, "other.u", &["other"]),
                writing("UPDATE t SET a = ? WHERE b = ?", 2, "t", &[]),
            ],
        };
        assert_eq!(found, expected);
    }
}
