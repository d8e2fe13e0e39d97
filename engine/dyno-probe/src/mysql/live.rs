//! A server over its socket or TCP.

use std::time::Duration;

use dyno_mysql::blocking::Client;
use dyno_mysql::Options;

use crate::mysql::{Server, Table};

/// How long a connect, and each read and write, may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connected server.
pub struct Live(Client);

impl Live {
    /// Connects.
    ///
    /// # Errors
    /// The address and the message of server or system.
    pub fn connect(options: &Options) -> Result<Box<dyn Server>, String> {
        match Client::connect(options, PATIENCE) {
            Ok(client) => Ok(Box::new(Self(client))),
            Err(error) => Err(format!(
                "connecting as {} to {}: {error}",
                options.user, options.endpoint
            )),
        }
    }
}

impl Server for Live {
    fn query(&mut self, statement: &str) -> Result<Table, String> {
        let result = self.0.query(statement).map_err(|error| {
            let beginning: String = statement.chars().take(60).collect();
            format!("{beginning}: {error}")
        })?;
        Ok(Table {
            columns: result.columns,
            rows: result.rows,
        })
    }
}
