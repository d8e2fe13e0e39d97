//! `dynoload session`: sessions as a load makes them, what they negotiated, and the rows of statements, as one JSON object.

use std::io::Write as _;

use clap::Args;
use dyno_mysql::blocking::Client;
use dyno_mysql::Options;
use serde::Serialize;

use crate::error::{Error, Exit};
use crate::spec::ConnectionSpec;
use crate::sql::server;

const FORMAT: &str = "dynoload-session";
const FORMAT_VERSION: u32 = 1;

/// The options of `session`.
#[derive(Debug, Args)]
pub struct SessionArguments {
    #[command(flatten)]
    connection: ConnectionSpec,
    /// A statement that every session executes; repeatable. It may send nothing for at most 10 s
    #[arg(long, value_name = "STATEMENT")]
    sql: Vec<String>,
    /// Sessions, one after the other: with TLS, a later one offers to resume an earlier one's
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    sessions: u32,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    format: &'static str,
    format_version: u32,
    version: &'static str,
    sessions: Vec<Session>,
}

/// One session.
#[derive(Serialize)]
struct Session {
    connection_id: u32,
    server_version: String,
    /// Absent in plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Tls>,
    /// Results of each statement, in their order.
    results: Vec<Rows>,
}

/// What was negotiated.
#[derive(Serialize)]
struct Tls {
    version: &'static str,
    cipher_suite: &'static str,
    resumed: bool,
}

/// The rows of one statement as text; null is SQL NULL.
#[derive(Serialize)]
struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

/// Runs it.
pub fn run(arguments: &SessionArguments) -> Result<Exit, Error> {
    let options = arguments
        .connection
        .options(!arguments.connection.database.is_empty(), None)?;
    let report = Report {
        format: FORMAT,
        format_version: FORMAT_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        // With the same options, which hold the TLS sessions that can be resumed.
        sessions: (0..arguments.sessions)
            .map(|_| session(&options, &arguments.sql))
            .collect::<Result<_, _>>()?,
    };
    let mut out = dyno_core::streams::stdout();
    writeln!(out, "{}", serde_json::json!(report))?;
    Ok(Exit::Done)
}

fn session(options: &Options, statements: &[String]) -> Result<Session, Error> {
    let mut client = server::connect(options)?;
    let results = statements
        .iter()
        .map(|sql| rows(&mut client, sql))
        .collect::<Result<_, _>>()?;
    // With TLS 1.3 the server sends the tickets for a resumption after the handshake, and before this answer.
    client
        .ping()
        .map_err(|error| Error::Server(format!("the server lost the session: {error}")))?;
    let connection = client.connection();
    let info = connection.server();
    let made = Session {
        connection_id: info.map_or(0, |info| info.connection_id),
        server_version: info.map_or_else(String::new, |info| info.version.clone()),
        tls: connection.tls().map(|info| Tls {
            version: info.version,
            cipher_suite: info.cipher_suite,
            resumed: info.resumed,
        }),
        results,
    };
    // The report is complete: COM_QUIT that is not received changes nothing.
    let _ = client.quit();
    Ok(made)
}

fn rows(client: &mut Client, sql: &str) -> Result<Rows, Error> {
    let result = client
        .query(sql)
        .map_err(|error| Error::Server(format!("{sql}: {error}")))?;
    Ok(Rows {
        rows: result.texts(),
        columns: result.columns,
    })
}
