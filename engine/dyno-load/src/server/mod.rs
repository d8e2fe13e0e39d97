//! The control connection: what the server is, what it allows, what it counted.

mod preflight;
mod reconciliation;

pub use preflight::{check, Facts, Needs};
pub use reconciliation::{compare, CounterCheck, ServerCounters};

use std::time::Duration;

use dyno_mysql::blocking::Client;
use dyno_mysql::Options;

use crate::error::Error;

/// How long the control connection waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(10);
const ACCESS_DENIED: [u16; 4] = [1044, 1045, 1130, 1698];
/// The server's code for a database that is not there.
pub const UNKNOWN_DATABASE: u16 = 1049;

/// Connects to the server for questions.
///
/// # Errors
/// With what to try: the server is away, the account is refused, the database is missing.
pub fn connect(options: &Options) -> Result<Client, Error> {
    Client::connect(options, PATIENCE).map_err(|error| explain(options, &error))
}

/// An error of connecting, in words.
pub fn explain(options: &Options, error: &dyno_mysql::Error) -> Error {
    let endpoint = &options.endpoint;
    match error {
        dyno_mysql::Error::Server(server) if ACCESS_DENIED.contains(&server.code) => Error::User(format!(
            "the server at {endpoint} refused user '{}': {}; check --user, and the password in --password-file or \
             DYNO_PASSWORD",
            options.user, server.message
        )),
        dyno_mysql::Error::Server(server) if server.code == UNKNOWN_DATABASE => Error::User(format!(
            "the server at {endpoint} has no database '{}'; `dynoload oltp prepare` (or `tpcc prepare`) makes it, or give another --database",
            options.database.as_deref().unwrap_or("")
        )),
        dyno_mysql::Error::Setup(message) => Error::User(message.clone()),
        dyno_mysql::Error::Io(_, cause) => Error::Server(format!(
            "no server answers at {endpoint}: {cause}; check --host and --port, or --socket"
        )),
        other => Error::Server(format!("the server at {endpoint} ended the connection: {other}")),
    }
}

/// A question that failed, in words.
pub fn failed(question: &str, error: &dyno_mysql::Error) -> Error {
    Error::Server(format!("\"{question}\" failed: {error}"))
}
