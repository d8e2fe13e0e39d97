//! The tables of sysbench 1.0.20: what CREATE TABLE says, the index that follows the load, and how they are dropped.

use std::collections::{BTreeMap, BTreeSet};

use dyno_mysql::blocking::Client;
use dyno_mysql::Options;

use crate::error::Error;
use crate::sql::oltp::TableOptions;
use crate::sql::server::{explain, failed, UNBOUNDED, UNKNOWN_DATABASE};

/// CREATE TABLE, as oltp_common.lua has it.
pub fn create(options: &TableOptions, table: u32) -> String {
    let id = if options.auto_inc {
        "INTEGER NOT NULL AUTO_INCREMENT"
    } else {
        "INTEGER NOT NULL"
    };
    let key = if options.secondary { "KEY xid" } else { "PRIMARY KEY" };
    format!(
        "CREATE TABLE sbtest{table}(\n  id {id},\n  k INTEGER DEFAULT '0' NOT NULL,\n  c CHAR(120) DEFAULT '' NOT NULL,\n  \
         pad CHAR(60) DEFAULT '' NOT NULL,\n  {key} (id)\n) /*! ENGINE = {} */ ",
        options.storage_engine
    )
}

/// CREATE INDEX on k.
pub fn create_index(table: u32) -> String {
    format!("CREATE INDEX k_{table} ON sbtest{table}(k)")
}

/// Whether a table is there.
pub fn exists(client: &mut Client, table: u32) -> Result<bool, Error> {
    let question = format!("SHOW TABLES LIKE 'sbtest{table}'");
    let answer = client.query(&question).map_err(|error| failed(&question, &error))?;
    Ok(!answer.rows.is_empty())
}

/// Whether the index on k is there.
pub fn has_index(client: &mut Client, table: u32) -> Result<bool, Error> {
    let question = format!("SHOW INDEX FROM sbtest{table} WHERE Key_name = 'k_{table}'");
    let answer = client.query(&question).map_err(|error| failed(&question, &error))?;
    Ok(!answer.rows.is_empty())
}

/// The keys and indexes of a table in words, as in "the primary key (id)".
pub fn keys(client: &mut Client, table: u32) -> Result<BTreeSet<String>, Error> {
    const NAME: usize = 2;
    const COLUMN: usize = 4;
    let question = format!("SHOW INDEX FROM sbtest{table}");
    let answer = client.query(&question).map_err(|error| failed(&question, &error))?;
    let mut columns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in answer.texts() {
        let text = |place: usize| row.get(place).cloned().flatten().unwrap_or_default();
        columns.entry(text(NAME)).or_default().push(text(COLUMN));
    }
    let in_words = |(name, columns): (String, Vec<String>)| key(name == "PRIMARY", &columns.join(", "));
    Ok(columns.into_iter().map(in_words).collect())
}

/// The keys that a prepared table has.
pub fn wanted_keys(options: &TableOptions) -> BTreeSet<String> {
    let index = options.create_secondary.then(|| key(false, "k"));
    index.into_iter().chain([key(!options.secondary, "id")]).collect()
}

fn key(is_primary: bool, columns: &str) -> String {
    let kind = if is_primary { "primary key" } else { "index" };
    format!("the {kind} ({columns})")
}

/// Drops sbtest1 to sbtestN.
///
/// # Errors
/// As [`drop_tables`].
pub fn cleanup(options: &Options, tables: u32) -> Result<(), Error> {
    drop_tables(options, (1..=tables).map(|table| format!("sbtest{table}")))
}

/// Drops tables; those that are not there, or a database that is not, are no error.
///
/// # Errors
/// When the server is away or refuses.
pub fn drop_tables(options: &Options, tables: impl Iterator<Item = String>) -> Result<(), Error> {
    let mut client = match Client::connect(options, UNBOUNDED) {
        Ok(client) => client,
        Err(dyno_mysql::Error::Server(error)) if error.code == UNKNOWN_DATABASE => return Ok(()),
        Err(error) => return Err(explain(options, &error)),
    };
    for table in tables {
        let sql = format!("DROP TABLE IF EXISTS {table}");
        client.exec(&sql).map_err(|error| failed(&sql, &error))?;
    }
    Ok(())
}
