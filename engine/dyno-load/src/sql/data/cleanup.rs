//! Dropping the tables.

use dyno_mysql::blocking::Client;
use dyno_mysql::Options;

use crate::error::Error;
use crate::sql::server::{explain, failed, UNBOUNDED, UNKNOWN_DATABASE};

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
