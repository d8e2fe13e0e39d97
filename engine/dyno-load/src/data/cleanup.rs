//! Dropping the tables.

use dyno_mysql::Options;

use crate::error::Error;
use crate::server::failed;

/// Drops sbtest1 to sbtestN; tables that are not there are no error.
///
/// # Errors
/// When the server refuses.
pub fn cleanup(options: &Options, tables: u32) -> Result<(), Error> {
    let mut client = crate::server::connect(options)?;
    for table in 1..=tables {
        let sql = format!("DROP TABLE IF EXISTS sbtest{table}");
        client.exec(&sql).map_err(|error| failed(&sql, &error))?;
    }
    Ok(())
}
