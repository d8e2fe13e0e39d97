//! Connections that block: those of commands, the second and later ones of a connection's script, and of thread_done().

use std::sync::Arc;
use std::time::Duration;

use dyno_mysql::blocking::{Client, ResultPart};
use dyno_mysql::{Options, ServerError, Statement, Value};
use smallvec::SmallVec;

use super::request::{Answer, Parameter, Refusal, Request};
use super::rows::StoredRows;
use super::template::Template;
use crate::sql::definition::StatementKind;
use crate::sql::named::Reply;
use crate::sql::server;

/// CREATE INDEX of a large table takes hours; a server that is gone closes its connections.
const PATIENCE: Duration = Duration::from_secs(7 * 24 * 3600);
/// The server cannot prepare this kind of statement (MySQL before 8.0 and BEGIN): it goes as text, as in sysbench.
pub const UNSUPPORTED_PREPARE: u16 = 1295;

/// One connection.
struct Blocking {
    client: Client,
    rows: StoredRows,
    statements: Vec<(Option<Statement>, Template)>,
}

/// What other connections of a script did.
#[derive(Debug, Default)]
pub struct Elsewhere {
    /// Statements that succeeded, each with its service time in ns.
    pub statements: Vec<(Sent, u64)>,
    /// How many statements failed, and errors that the script counted itself.
    pub refused: u64,
    /// Questions beside statements: a server may count the end of a connection (COM_QUIT) as one.
    pub questions: u64,
}

/// The connections of one script's thread, with numbers from `first` on.
pub struct BlockingConnections {
    options: Arc<Options>,
    prepared: bool,
    first: usize,
    connections: Vec<Option<Blocking>>,
}

impl std::fmt::Debug for BlockingConnections {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let open = self.connections.iter().flatten().count();
        formatter
            .debug_struct("BlockingConnections")
            .field("open", &open)
            .finish()
    }
}

/// A statement that was sent over one of them.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// What it was.
    pub kind: StatementKind,
    /// The server's reply.
    pub reply: Reply,
}

/// The values of a statement as the protocol has them.
pub fn values(parameters: &[Parameter]) -> SmallVec<[Value<'_>; 4]> {
    parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Null => Value::Null,
            Parameter::Integer(value) => Value::Int(*value),
            Parameter::Double(value) => Value::Double(*value),
            Parameter::Text(bytes) => Value::Bytes(bytes),
        })
        .collect()
}

impl BlockingConnections {
    /// None yet.
    pub fn new(options: Arc<Options>, prepared: bool, first: usize) -> Self {
        Self {
            options,
            prepared,
            first,
            connections: Vec::new(),
        }
    }

    /// Does what the script requests; the statement that was sent, if it was one that succeeded.
    pub fn perform(&mut self, request: Request, ignored: &dyn Fn(u16) -> bool) -> (Answer, Option<Sent>) {
        match request {
            Request::Connect => (self.connect(), None),
            Request::Disconnect(number) => {
                if let Some(connection) = self.place(number).and_then(Option::take) {
                    // A server that is gone needs no goodbye.
                    let _ = connection.client.quit();
                }
                (Answer::Nothing, None)
            }
            Request::Fetch(number) => (Answer::Row(self.open(number).and_then(|one| one.rows.fetch())), None),
            Request::MoreResults(number) => {
                let has_more = self.open(number).is_some_and(|one| one.rows.has_more());
                (Answer::Goes(has_more), None)
            }
            Request::NextResult(number) => {
                let next = self.open(number).map(|one| Answer::next_of(&mut one.rows));
                (next.unwrap_or(Answer::Result(0, 0)), None)
            }
            Request::Close(number, slot) => {
                if let Some(one) = self.open(number) {
                    if let Some(statement) = one.statements.get_mut(slot).and_then(|(statement, _)| statement.take()) {
                        let _ = one.client.close(statement);
                    }
                }
                (Answer::Nothing, None)
            }
            Request::Query(number, sql) => self.with(number, ignored, |one| one.query(&sql)),
            Request::Prepare(number, sql) => {
                let prepared = self.prepared;
                self.with(number, ignored, |one| {
                    one.prepare(&sql, prepared).map(|slot| (Answer::Number(slot), None))
                })
            }
            Request::Execute(number, slot, parameters) => {
                self.with(number, ignored, |one| one.execute(slot, &parameters))
            }
            Request::CountError => (Answer::Nothing, None),
            Request::Ready | Request::Next | Request::Stop => (Answer::Goes(false), None),
        }
    }

    /// What a server counts for a request: its statement, or those of a new connection, or its end.
    pub fn questions(&self, request: &Request) -> u64 {
        match request {
            Request::Connect => self.options.init_statements.len() as u64,
            Request::Disconnect(_) | Request::Query(..) | Request::Execute(..) => 1,
            _ => 0,
        }
    }

    fn place(&mut self, number: usize) -> Option<&mut Option<Blocking>> {
        self.connections.get_mut(number.checked_sub(self.first)?)
    }

    fn open(&mut self, number: usize) -> Option<&mut Blocking> {
        self.place(number)?.as_mut()
    }

    fn connect(&mut self) -> Answer {
        match Client::connect(&self.options, PATIENCE) {
            Ok(client) => {
                let opened = Some(Blocking {
                    client,
                    rows: StoredRows::default(),
                    statements: Vec::new(),
                });
                // The number of one that has ended is used again: a script may connect in each event.
                let place = self.connections.iter().position(Option::is_none);
                let place = place.unwrap_or(self.connections.len());
                match self.connections.get_mut(place) {
                    Some(ended) => *ended = opened,
                    None => self.connections.push(opened),
                }
                Answer::Number(self.first + place)
            }
            Err(error) => Answer::Refused(Refusal::own(server::explain(&self.options, &error).to_string())),
        }
    }

    fn with(
        &mut self,
        number: usize,
        ignored: &dyn Fn(u16) -> bool,
        run: impl FnOnce(&mut Blocking) -> Result<(Answer, Option<Sent>), dyno_mysql::Error>,
    ) -> (Answer, Option<Sent>) {
        let Some(one) = self.open(number) else {
            return (Answer::Refused(Refusal::own("the connection is closed")), None);
        };
        match run(one) {
            Ok(done) => done,
            Err(dyno_mysql::Error::Server(error)) => (Answer::Refused(refusal(&error, ignored)), None),
            Err(error) => (Answer::Refused(Refusal::own(error.to_string())), None),
        }
    }
}

/// An error of the server, for the script.
pub fn refusal(error: &ServerError, ignored: &dyn Fn(u16) -> bool) -> Refusal {
    Refusal {
        number: error.code,
        state: error.sql_state().to_string(),
        message: error.message.clone(),
        ignorable: ignored(error.code),
    }
}

impl Blocking {
    fn query(&mut self, sql: &[u8]) -> Result<(Answer, Option<Sent>), dyno_mysql::Error> {
        self.rows.clear();
        let mut affected_rows = 0;
        for result in self.client.query_all(sql)? {
            for row in &result.rows {
                self.rows.push_texts(row);
            }
            self.rows
                .end_result(result.rows.len() as u64, result.columns.len() as u64);
            affected_rows = result.done.affected_rows;
        }
        Ok(answered(&self.rows, StatementKind::of(sql), affected_rows))
    }

    fn prepare(&mut self, sql: &[u8], prepared: bool) -> Result<usize, dyno_mysql::Error> {
        let statement = match prepared.then(|| self.client.prepare(sql)) {
            None => None,
            Some(Ok(statement)) => Some(statement),
            Some(Err(dyno_mysql::Error::Server(error))) if error.code == UNSUPPORTED_PREPARE => None,
            Some(Err(error)) => return Err(error),
        };
        self.statements.push((statement, Template::new(sql)));
        Ok(self.statements.len() - 1)
    }

    fn execute(&mut self, slot: usize, parameters: &[Parameter]) -> Result<(Answer, Option<Sent>), dyno_mysql::Error> {
        let values = values(parameters);
        let Some((statement, sql)) = self.statements.get_mut(slot) else {
            return Err(dyno_mysql::Error::Setup("the prepared statement is closed".into()));
        };
        let Some(statement) = statement else {
            let mut rendered = Vec::new();
            sql.write(&mut rendered, &values);
            return self.query(&rendered);
        };
        self.rows.clear();
        let rows = &mut self.rows;
        let mut affected_rows = 0;
        self.client.execute_all(statement, &values, |part| match part {
            ResultPart::Row(row) => rows.push_values(row),
            ResultPart::End(done) => {
                rows.end_result(done.rows, done.columns);
                affected_rows = done.affected_rows;
            }
        })?;
        Ok(answered(rows, StatementKind::of(sql.sql()), affected_rows))
    }
}

/// The first result of a statement for the script, and all for the measurement.
fn answered(rows: &StoredRows, kind: StatementKind, affected_rows: u64) -> (Answer, Option<Sent>) {
    let reply = Reply {
        columns: rows.size().1,
        rows: rows.total(),
        affected_rows,
    };
    (Answer::first_of(rows), Some(Sent { kind, reply }))
}
