//! Makes the tables of a schema and fills them, each row from its number: the same tables with any number of threads.

use std::sync::atomic::{AtomicU64, Ordering};

use dyno_core::random::{Domain, RandomStream};
use dyno_mysql::blocking::Client;
use dyno_mysql::Options;

use super::schema::{Column, Schema, Table};
use crate::error::Error;
use crate::sql::data::{drop_tables, Prepared};
use crate::sql::server::{connect_unbounded, failed, make_database, quoted};

/// Bits of the row's number below the table's.
const ROW_BITS: u32 = 40;
/// Rows that one thread takes at a time, and commits together.
const CHUNK_ROWS: u64 = 5000;
/// An INSERT is sent when it is longer than this: far below every server's max_allowed_packet.
const STATEMENT_BYTES: usize = 128 * 1024;

/// What is to be made.
#[derive(Debug)]
pub struct Request {
    /// How to log in, without a database.
    pub options: Options,
    /// The database; made when it is missing.
    pub database: String,
    /// The tables.
    pub schema: Schema,
    /// Seed of the rows.
    pub seed: u64,
    /// Threads, each with a connection.
    pub threads: u32,
}

fn run(client: &mut Client, sql: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Error> {
    client.exec(sql.as_ref()).map(|_| ()).map_err(|error| {
        let shown: String = String::from_utf8_lossy(sql.as_ref()).chars().take(200).collect();
        failed(&shown, &error)
    })
}

/// Makes and fills the tables; `say` hears of each one that is complete. Returns the rows.
///
/// # Errors
/// When a table exists already, the server refuses, or the database has a character set that its rows are not made for.
pub fn prepare(request: &Request, say: &(dyn Fn(String) + Sync)) -> Result<u64, Error> {
    let mut client = crate::sql::server::connect(&request.options)?;
    make_database(&mut client, &request.database)?;
    let mut client = connect(request)?;
    for table in &request.schema.tables {
        if prepared(table).is_there(&mut client)? {
            return Err(Error::User(format!(
                "the table {} exists already; `dynoload sql cleanup` with the same file drops its tables",
                table.name
            )));
        }
    }
    for table in &request.schema.tables {
        run(&mut client, &create(table))?;
    }
    let mut rows = 0;
    for (number, table) in (0u64..).zip(&request.schema.tables) {
        fill(request, table, number)?;
        for columns in &table.indexes {
            run(
                &mut client,
                &format!("ALTER TABLE {} ADD INDEX ({columns})", quoted(&table.name)),
            )?;
        }
        for column in &table.columns {
            if let Some((target, key)) = &column.references {
                let sql = format!(
                    "ALTER TABLE {} ADD FOREIGN KEY ({}) REFERENCES {} ({})",
                    quoted(&table.name),
                    quoted(&column.name),
                    quoted(target),
                    quoted(key)
                );
                run(&mut client, &sql)?;
            }
        }
        run(&mut client, &format!("ANALYZE TABLE {}", quoted(&table.name)))?;
        say(format!("{}: {} rows", table.name, table.rows));
        rows += table.rows;
    }
    Ok(rows)
}

/// Drops the tables, those that refer to others first.
///
/// # Errors
/// As [`drop_tables`].
pub fn cleanup(options: &Options, schema: &Schema) -> Result<(), Error> {
    drop_tables(options, schema.tables.iter().rev().map(prepared))
}

fn prepared(table: &Table) -> Prepared {
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    Prepared::new(&table.name, &columns)
}

fn connect(request: &Request) -> Result<Client, Error> {
    let mut options = request.options.clone();
    options.database = Some(request.database.clone());
    connect_unbounded(&options)
}

fn create(table: &Table) -> String {
    let mut parts: Vec<String> = table
        .columns
        .iter()
        .map(|column| format!("{} {}", quoted(&column.name), column.kind))
        .collect();
    parts.extend(table.primary_key.iter().map(|key| format!("PRIMARY KEY ({key})")));
    format!(
        "CREATE TABLE {} ({}) {}",
        quoted(&table.name),
        parts.join(", "),
        table.options
    )
}

fn fill(request: &Request, table: &Table, number: u64) -> Result<(), Error> {
    let next = AtomicU64::new(0);
    let chunks = table.rows.div_ceil(CHUNK_ROWS);
    let threads = u64::from(request.threads).min(chunks).max(1);
    let work = || -> Result<(), Error> {
        let mut client = connect(request)?;
        loop {
            let first = next.fetch_add(1, Ordering::Relaxed) * CHUNK_ROWS;
            if first >= table.rows {
                // The end of the connection is no part of the data.
                let _ = client.quit();
                return Ok(());
            }
            let last = (first + CHUNK_ROWS).min(table.rows);
            run(&mut client, "BEGIN")?;
            for sql in inserts(table, number, request.seed, first..last) {
                run(&mut client, &sql)?;
            }
            run(&mut client, "COMMIT")?;
        }
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, Result<(), Error>>| {
            let panicked = || Err(Error::Output("a loading thread panicked".into()));
            handle.join().unwrap_or_else(|_| panicked())
        };
        handles.into_iter().try_for_each(join)
    })
}

/// The statements that insert these rows.
fn inserts(table: &Table, number: u64, seed: u64, rows: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    let filled: Vec<&Column> = table.columns.iter().filter(|column| column.rule.is_some()).collect();
    let names: Vec<String> = filled.iter().map(|column| quoted(&column.name)).collect();
    let head = format!("INSERT INTO {} ({}) VALUES ", quoted(&table.name), names.join(", "));
    let mut statements = Vec::new();
    let mut sql: Vec<u8> = Vec::new();
    for row in rows {
        if sql.is_empty() {
            sql.extend_from_slice(head.as_bytes());
        } else {
            sql.push(b',');
        }
        let mut stream = RandomStream::of(seed, Domain::Row, (number << ROW_BITS) | row);
        sql.push(b'(');
        for (place, column) in filled.iter().enumerate() {
            if place > 0 {
                sql.push(b',');
            }
            let is_null = column.null_pct > 0.0 && stream.next_double() * 100.0 < column.null_pct;
            match &column.rule {
                Some(rule) if !is_null => rule.draw(&mut stream, Some(row)).write(&mut sql),
                _ => sql.extend_from_slice(b"NULL"),
            }
        }
        sql.push(b')');
        if sql.len() > STATEMENT_BYTES {
            statements.push(std::mem::take(&mut sql));
        }
    }
    if !sql.is_empty() {
        statements.push(sql);
    }
    statements
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_row_is_the_same_whatever_chunk_it_is_in() {
        let text = "[[tables]]\nname = \"t\"\nrows = 10\n[tables.columns]\nid = { type = \"INT\", values = \"sequence(1)\" }\n\
                    n = { type = \"INT\", values = \"uniform(1, 1000)\", null_pct = 20 }\n\
                    made = { type = \"TIMESTAMP DEFAULT CURRENT_TIMESTAMP\" }\n";
        let schema = Schema::parse(Path::new("t.toml"), text, None).unwrap();
        let rows = |range| {
            let all = inserts(&schema.tables[0], 0, 1, range);
            String::from_utf8(all.concat())
                .unwrap()
                .replace("INSERT INTO `t` (`id`, `n`) VALUES ", ",")
        };
        assert_eq!(rows(0..10), format!("{}{}", rows(0..4), rows(4..10)));
        assert!(rows(0..1).starts_with(",(1,"));
    }
}
