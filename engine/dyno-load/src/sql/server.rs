//! The control connection, its errors in words, and the optimizer's statistics of tables that were just filled.

use std::sync::Arc;
use std::time::Duration;

use dyno_core::local_ports::{explained, is_exhausted};
use dyno_mysql::blocking::Client;
use dyno_mysql::{Endpoint, Options, TlsContext, TlsMode};

use crate::error::Error;

/// Character sets in which no character has one byte.
const WIDE_CHARACTER_SETS: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];
/// How long the control connection waits for the answer to a question.
const PATIENCE: Duration = Duration::from_secs(10);
/// For statements that take as long as their tables are large; a host that was lost is noticed by keep-alive.
pub const UNBOUNDED: Duration = Duration::from_secs(7 * 24 * 3600);
const ACCESS_DENIED: [u16; 4] = [1044, 1045, 1130, 1698];
/// MySQL's code where require_secure_transport is on and the connection is without TLS.
const SECURE_TRANSPORT_REQUIRED: u16 = 3159;
/// The server's code for a database that is not there.
pub const UNKNOWN_DATABASE: u16 = 1049;

/// Connects to the server for questions.
///
/// # Errors
/// A sentence on what to try: the server is away, the account is refused, the database is missing.
pub fn connect(options: &Options) -> Result<Client, Error> {
    let client = Client::connect(options, PATIENCE).map_err(|error| explain(options, &error))?;
    if is_downgraded(options, &client) {
        dyno_core::tell!(
            "dynoload: warning: --ssl-mode preferred, and the server at {} offers no TLS: everything passes in plain text; \
             --ssl-mode required refuses that",
            options.endpoint
        );
    }
    Ok(client)
}

/// Connects for statements that read, write or drop whole tables, however long they take.
///
/// # Errors
/// As [`connect`].
pub fn connect_unbounded(options: &Options) -> Result<Client, Error> {
    Client::connect(options, UNBOUNDED).map_err(|error| explain(options, &error))
}

/// Whether TLS was preferred and the connection is in plain text all the same. Over a Unix socket "preferred" means none.
fn is_downgraded(options: &Options, client: &Client) -> bool {
    let is_preferred = |context: &Arc<TlsContext>| context.mode() == TlsMode::Preferred;
    let is_tcp = matches!(options.endpoint, Endpoint::Tcp { .. });
    is_tcp && options.tls.as_ref().is_some_and(is_preferred) && client.connection().tls().is_none()
}

/// The protocol version of TLS on this connection, or "none".
pub fn tls_in_use(client: &Client) -> String {
    let tls = client.connection().tls();
    tls.map_or("none", |info| info.version).to_string()
}

/// An error of connecting, in words.
pub fn explain(options: &Options, error: &dyno_mysql::Error) -> Error {
    let endpoint = &options.endpoint;
    match error {
        dyno_mysql::Error::Server(server) if ACCESS_DENIED.contains(&server.code) => Error::User(format!(
            "the server at {endpoint} refused user '{}': {}; check --user, and the password in --password-file or \
             DYNO_PASSWORD{}",
            options.user,
            server.message,
            tls_hint(options)
        )),
        dyno_mysql::Error::Server(server) if server.code == SECURE_TRANSPORT_REQUIRED => Error::User(format!(
            "the server at {endpoint} accepts only connections with TLS: {}; set --ssl-mode required",
            server.message
        )),
        dyno_mysql::Error::Server(server) if server.code == UNKNOWN_DATABASE => Error::User(format!(
            "the server at {endpoint} has no database '{}'; `dynoload oltp prepare` (or `tpcc prepare`) creates it, or use another --database",
            options.database.as_deref().unwrap_or("")
        )),
        dyno_mysql::Error::Setup(message) => Error::User(message.clone()),
        dyno_mysql::Error::UnknownPlugin { .. } => Error::Server(error.to_string()),
        dyno_mysql::Error::NoAnswer { .. } => Error::Server(format!(
            "{error}; check --host and --port (is it a MySQL or MariaDB server?), or raise --connect-timeout"
        )),
        dyno_mysql::Error::Io(_, cause) if is_exhausted(cause) => {
            Error::Host(format!("cannot connect to {endpoint}: {}", explained(cause)))
        }
        dyno_mysql::Error::Io(_, cause) => Error::Server(format!(
            "no server answers at {endpoint}: {cause}; check --host and --port, or --socket"
        )),
        other => Error::Server(format!("the server at {endpoint} ended the connection: {other}")),
    }
}

/// MariaDB answers a connection without TLS as it answers a wrong password, where TLS is required.
fn tls_hint(options: &Options) -> &'static str {
    match (&options.endpoint, &options.tls) {
        (Endpoint::Tcp { .. }, None) => {
            ". Where the server requires TLS (require_secure_transport, or REQUIRE SSL for the account), MariaDB reports \
             the same: set --ssl-mode required"
        }
        _ => "",
    }
}

/// A question that failed, in words.
pub fn failed(question: &str, error: &dyno_mysql::Error) -> Error {
    Error::Server(format!("\"{question}\" failed: {error}"))
}

/// Makes a database, if it is missing, whose tables can take rows as bytes of ASCII.
///
/// # Errors
/// When the server refuses, or new tables would have a character set of two or four bytes for each character: their
/// texts would be other ones, and shorter.
pub fn make_database(client: &mut Client, database: &str) -> Result<(), Error> {
    let name = database.replace('`', "``");
    let sql = format!("CREATE DATABASE IF NOT EXISTS `{name}`");
    client.exec(&sql).map_err(|error| failed(&sql, &error))?;
    let text: String = database.bytes().map(|byte| format!("{byte:02x}")).collect();
    let question = format!(
        "SELECT DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = CONVERT(x'{text}' USING utf8)"
    );
    let found = client
        .query_text(&question)
        .map_err(|error| failed(&question, &error))?;
    match found.filter(|name| WIDE_CHARACTER_SETS.contains(&name.as_str())) {
        None => Ok(()),
        Some(wide) => Err(Error::User(format!(
            "the database {database} has the character set {wide}, with two or four bytes for each character; the tables \
             need one in which ASCII has one byte: ALTER DATABASE `{name}` CHARACTER SET utf8mb4"
        ))),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Exit;

    #[test]
    fn an_account_with_another_plugin_is_the_servers_to_change() {
        let options = Options::new(Endpoint::tcp("db", 3306), "bench");
        let error = dyno_mysql::Error::UnknownPlugin {
            user: "bench".into(),
            plugin: "parsec".into(),
        };
        let explained = explain(&options, &error);
        assert_eq!(explained.exit(), Exit::Impossible);
        assert_eq!(
            explained.to_string(),
            "the account of 'bench' uses the authentication plugin 'parsec': use one of mysql_native_password, \
             caching_sha2_password, ed25519"
        );
    }
}
