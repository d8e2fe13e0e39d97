//! The optimizer's statistics of tables that were just filled: without them it plans as if they were empty.

use dyno_mysql::blocking::Client;

use super::server::failed;
use crate::error::Error;

/// Has the server count the rows of all tables of the session's database. The binary log is left as it is.
///
/// # Errors
/// When the server refuses, or a table that has rows has none by its statistics.
pub fn analyze(client: &mut Client) -> Result<(), Error> {
    // MySQL keeps what information_schema has of tables for a day; MariaDB does not know the variable.
    let _ = client.exec("SET SESSION information_schema_stats_expiry = 0");
    const TABLES: &str =
        "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND \
                          TABLE_TYPE = 'BASE TABLE'";
    let tables = client.query(TABLES).map_err(|error| failed(TABLES, &error))?.texts();
    for mut row in tables {
        let Some(Some(name)) = row.first_mut().map(Option::take) else {
            continue;
        };
        let quoted = format!("`{}`", name.replace('`', "``"));
        let sql = format!("ANALYZE NO_WRITE_TO_BINLOG TABLE {quoted}");
        client.query(&sql).map_err(|error| failed(&sql, &error))?;
        let literal = name.replace('\\', "\\\\").replace('\'', "''");
        let question = format!(
            "SELECT EXISTS (SELECT * FROM {quoted}) > 0 AND COALESCE(TABLE_ROWS, 0) = 0 FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{literal}'"
        );
        let answer = client
            .query_text(&question)
            .map_err(|error| failed(&question, &error))?;
        if answer.as_deref() == Some("1") {
            return Err(Error::Server(format!(
                "the table {name} has rows, and none by its statistics after ANALYZE TABLE: the server would plan every \
                 query for an empty table"
            )));
        }
    }
    Ok(())
}
