//! A connection to one server and what was found out about it: the statement that is asked each time, and where its
//! redo is.

use super::Version;
use crate::clock::Clock;
use crate::mysql::redo::RedoReader;
use crate::mysql::status_family::Wanted;
use crate::mysql::{Server, Table};
use crate::text::{lossy, number};

/// Facts about a server in the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `VERSION()`.
    pub version: String,
    /// `@@version_comment`, which tells the builds apart.
    pub version_comment: String,
    /// Where redo is read, or why it is not.
    pub redo_source: Result<&'static str, String>,
}

/// One reading of a server's status.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The middle between asking and answer, monotonic: when the server read its counters, as well as a client can
    /// know.
    pub at_ns: u64,
    /// In the order of [`Wanted`].
    pub values: Vec<Option<u64>>,
}

/// A connection in use.
pub struct Session {
    server: Box<dyn Server>,
    version: Version,
    redo: RedoReader,
    statement: String,
    /// What was found out.
    pub facts: Facts,
}

impl Session {
    /// Asks a server for its version and finds its sources.
    ///
    /// # Errors
    /// What the server answers.
    pub fn start(mut server: Box<dyn Server>, wanted: &Wanted) -> Result<Self, String> {
        let table = server.query("SELECT VERSION(), @@version_comment")?;
        let text = |column| table.first(column).map(lossy).unwrap_or_default();
        let version = Version::parse(&text(0));
        let statement = statement(wanted);
        let values = status_values(&server.query(&statement)?, wanted)?;
        let status = |name: &str| values[wanted.index(name)?];
        let redo = RedoReader::choose(&mut *server, &version, &status);
        let redo_source = redo.source.clone().map(|source| source.name());
        let facts = Facts {
            version: text(0),
            version_comment: text(1),
            redo_source,
        };
        Ok(Self {
            server,
            version,
            redo,
            statement,
            facts,
        })
    }

    /// Reads the status once.
    ///
    /// # Errors
    /// What the server answers, or what happened to the connection; the session is of no more use then.
    pub fn read(&mut self, wanted: &Wanted) -> Result<Reading, String> {
        let asked_ns = Clock::System.monotonic_ns();
        let table = self.server.query(&self.statement)?;
        let answered_ns = Clock::System.monotonic_ns();
        let mut values = status_values(&table, wanted)?;
        let status = |name: &str| values[wanted.index(name)?];
        let redo = self.redo.read(&mut *self.server, &self.version, &status)?;
        let own = [
            ("probe:round_trip_us", Some(answered_ns.saturating_sub(asked_ns) / 1000)),
            ("redo:lsn_current", redo.lsn_current),
            ("redo:checkpoint_age", redo.checkpoint_age),
            ("redo:checkpoint_max_age", redo.checkpoint_max_age),
            ("redo:capacity", redo.capacity),
            ("redo:history_list_length", redo.history_list_length),
        ];
        for (name, value) in own {
            if let Some(index) = wanted.index(name) {
                values[index] = value;
            }
        }
        Ok(Reading {
            at_ns: asked_ns / 2 + answered_ns / 2,
            values,
        })
    }
}

/// SHOW with a list of names: on MariaDB 10.11 it costs the server about half of a full SHOW GLOBAL STATUS (210 against
/// 400 µs) and the client a fourth. Preparing it would save the server another 30 µs a sample and add to its count of
/// prepared statements; it is not done. `bench/run probe` measures all three.
pub fn statement(wanted: &Wanted) -> String {
    let names: Vec<_> = wanted.of_server().map(|name| format!("'{name}'")).collect();
    format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", names.join(","))
}

fn status_values(table: &Table, wanted: &Wanted) -> Result<Vec<Option<u64>>, String> {
    let mut values = vec![None; wanted.count()];
    for row in &table.rows {
        let [Some(name), Some(value), ..] = row.as_slice() else {
            continue;
        };
        if let Some(index) = std::str::from_utf8(name).ok().and_then(|name| wanted.index(name)) {
            values[index] = number(value);
        }
    }
    if values.iter().all(Option::is_none) {
        return Err("SHOW GLOBAL STATUS has none of the expected variables".into());
    }
    Ok(values)
}
