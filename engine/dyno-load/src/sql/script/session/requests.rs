//! The session's part that does what its script requests, and ends it with thread_done().

use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_loop::{Failure, Stop};
use dyno_mysql::Detail;
use smallvec::SmallVec;

use super::{loss, Awaited, Prepared, ScriptSession, Went, OWN};
use crate::sql::definition::StatementKind;
use crate::sql::script::blocking::{values, BlockingConnections};
use crate::sql::script::request::{Answer, Parameter, Refusal, Request};
use crate::sql::script::template::Template;

impl ScriptSession {
    /// Hands an answer to the script, and does what it requests, until it waits for the server or the event is over.
    #[inline]
    pub(super) fn go_on(&mut self, answer: Answer) -> Result<Went, Stop> {
        self.is_between = false;
        let Some(thread) = &mut self.thread else {
            return Ok(Went::Over);
        };
        let request = self.machine.resume(thread, answer);
        self.follow(request)
    }

    pub(super) fn follow(&mut self, request: Result<Request, String>) -> Result<Went, Stop> {
        let mut request = request.map_err(|message| self.failed(message))?;
        loop {
            let answer = match request {
                Request::Next => {
                    self.is_between = true;
                    return Ok(Went::Over);
                }
                Request::Ready => return Ok(Went::Ready),
                Request::Stop => return Err(Failure::new(
                    "the script has ended its load: event() returned true, or thread_run() came to its end; dynoload \
                         ends a load by time only",
                )
                .into()),
                Request::Connect if !self.is_taken => {
                    self.is_taken = true;
                    Answer::Number(OWN)
                }
                Request::Disconnect(OWN) => {
                    self.is_closed = true;
                    Answer::Nothing
                }
                Request::Query(OWN, _) | Request::Prepare(OWN, _) | Request::Execute(OWN, ..) if self.is_closed => {
                    Answer::Refused(Refusal::own("the connection is closed"))
                }
                Request::Query(OWN, sql) => {
                    self.kind = StatementKind::of(&sql);
                    self.begin_statement();
                    self.connection
                        .query(&sql, Detail::Rows)
                        .map_err(|error| loss(&error))?;
                    return Ok(Went::Sent);
                }
                Request::Prepare(OWN, sql) => match self.prepare(&sql)? {
                    None => return Ok(Went::Sent),
                    Some(slot) => Answer::Number(slot),
                },
                Request::Execute(OWN, slot, parameters) => match self.execute(slot, parameters)? {
                    None => return Ok(Went::Sent),
                    Some(refused) => Answer::Refused(refused),
                },
                Request::Close(OWN, slot) => {
                    self.close(slot)?;
                    Answer::Nothing
                }
                Request::Fetch(OWN) => Answer::Row(self.rows.fetch()),
                Request::MoreResults(OWN) => Answer::Goes(self.rows.has_more()),
                Request::NextResult(OWN) => Answer::next_of(&mut self.rows),
                Request::CountError => {
                    self.elsewhere.refused += 1;
                    Answer::Nothing
                }
                other => self.perform(other),
            };
            let Some(thread) = &mut self.thread else {
                return Ok(Went::Over);
            };
            request = self
                .machine
                .resume(thread, answer)
                .map_err(|message| self.failed(message))?;
        }
    }

    #[inline]
    pub(super) fn begin_statement(&mut self) {
        self.rows.clear();
        self.statement_ns = now_ns();
        self.awaited = Awaited::Statement;
    }

    /// Another connection of the script; the worker waits for it.
    #[cold]
    pub(super) fn perform(&mut self, request: Request) -> Answer {
        self.elsewhere.questions += match request {
            Request::Connect => self.settings.options.init_statements.len() as u64,
            Request::Disconnect(_) => 1,
            _ => 0,
        };
        let began_ns = now_ns();
        let ignored = &self.settings.load.ignored_errors;
        let (answer, sent) = self.others.perform(request, &|code| ignored.contains(code));
        self.elsewhere.refused += u64::from(matches!(answer, Answer::Refused(_)));
        if let Some(sent) = sent {
            self.elsewhere
                .statements
                .push((sent, now_ns().saturating_sub(began_ns)));
        }
        self.machine.hold(began_ns);
        self.machine.waited();
        answer
    }

    /// Sends a statement to be prepared; its number where it goes as text.
    pub(super) fn prepare(&mut self, sql: &[u8]) -> Result<Option<usize>, Stop> {
        let goes_as_text = !self.settings.prepared;
        let prepared = Prepared {
            kind: StatementKind::of(sql),
            sql: Template::new(sql),
            statement: None,
            generation: self.generation,
            goes_as_text,
        };
        // The place of a closed one is used again: a script may prepare in each event.
        let closed = self.statements.iter().position(|one| one.sql.is_empty());
        let slot = closed.unwrap_or(self.statements.len());
        match self.statements.get_mut(slot) {
            Some(closed) => *closed = prepared,
            None => self.statements.push(prepared),
        }
        if goes_as_text {
            return Ok(Some(slot));
        }
        self.awaited = Awaited::Prepare(slot);
        self.connection
            .prepare(sql, Detail::Rows)
            .map_err(|error| loss(&error))?;
        Ok(None)
    }

    /// Sends a prepared statement, prepared again first where its connection was lost; why not, where it is closed.
    #[inline]
    pub(super) fn execute(
        &mut self,
        slot: usize,
        parameters: SmallVec<[Parameter; 4]>,
    ) -> Result<Option<Refusal>, Stop> {
        self.begin_statement();
        let generation = self.generation;
        let Some(prepared) = self.statements.get_mut(slot).filter(|one| !one.sql.is_empty()) else {
            return Ok(Some(Refusal::own("the prepared statement is closed")));
        };
        self.kind = prepared.kind;
        if prepared.goes_as_text {
            let values = values(&parameters);
            let sql = &prepared.sql;
            let sent = self.connection.query_with(Detail::Rows, |out| sql.write(out, &values));
            return sent.map(|()| None).map_err(|error| loss(&error).into());
        }
        if prepared.generation != generation {
            let sent = self.connection.prepare(prepared.sql.sql(), Detail::Rows);
            self.awaited = Awaited::PrepareAgain(slot, parameters);
            return sent.map(|()| None).map_err(|error| loss(&error).into());
        }
        let Some(statement) = &mut prepared.statement else {
            return Ok(Some(Refusal::own("the prepared statement is closed")));
        };
        if statement.parameter_count() != parameters.len() {
            return Ok(Some(Refusal::own(format!(
                "the statement \"{}\" has {} parameters, and bind_param() was given {}",
                String::from_utf8_lossy(prepared.sql.sql()),
                statement.parameter_count(),
                parameters.len()
            ))));
        }
        let sent = self.connection.execute(statement, &values(&parameters), Detail::Rows);
        sent.map(|()| None).map_err(|error| loss(&error).into())
    }

    pub(super) fn close(&mut self, slot: usize) -> Result<(), Stop> {
        let Some(prepared) = self.statements.get_mut(slot) else {
            return Ok(());
        };
        prepared.goes_as_text = false;
        if let Some(statement) = prepared.statement.take() {
            if prepared.generation == self.generation {
                self.connection.close(statement).map_err(|error| loss(&error))?;
            }
        }
        // A closed statement is not prepared again.
        prepared.sql = Template::default();
        Ok(())
    }

    /// The script failed, and with it the run.
    #[cold]
    pub(super) fn failed(&mut self, message: String) -> Stop {
        match self.last_error {
            Some(code) if message.contains("SQL error, errno") => {
                let hint = format!("{message}; --ignore-errors {code} would restart the event");
                Failure::with_code(code, hint).into()
            }
            _ => Failure::new(message).into(),
        }
    }
}

impl ScriptSession {
    /// Runs thread_done(). Its statements go over a blocking connection: the load loop serves none any more.
    #[cold]
    pub(super) fn finish_thread(&mut self) {
        let Some(mut thread) = self.thread.take() else { return };
        if !self.machine.has(&thread, "thread_done") {
            return;
        }
        let mut last = BlockingConnections::new(Arc::clone(&self.settings.options), self.settings.prepared, OWN);
        let mut is_open = false;
        self.machine.waited();
        let mut request = self.machine.call(&mut thread, "thread_done");
        loop {
            let answer = match request {
                Ok(Request::Stop) => return,
                Err(message) => {
                    dyno_core::tell!("dynoload: thread_done(): {message}");
                    return;
                }
                Ok(Request::Close(OWN, _) | Request::Disconnect(OWN)) => Answer::Nothing,
                Ok(Request::Execute(OWN, slot, parameters)) => {
                    let mut rendered = Vec::new();
                    if let Some(prepared) = self.statements.get(slot) {
                        prepared.sql.write(&mut rendered, &values(&parameters));
                    }
                    Self::perform_last(&mut last, &mut is_open, Request::Query(OWN, rendered))
                }
                Ok(request @ (Request::Query(OWN, _) | Request::Prepare(OWN, _) | Request::Fetch(OWN))) => {
                    Self::perform_last(&mut last, &mut is_open, request)
                }
                Ok(other) => self.perform(other),
            };
            self.machine.waited();
            request = self.machine.resume(&mut thread, answer);
        }
    }

    pub(super) fn perform_last(last: &mut BlockingConnections, is_open: &mut bool, request: Request) -> Answer {
        if !*is_open {
            *is_open = true;
            if let (Answer::Refused(refused), _) = last.perform(Request::Connect, &|_| false) {
                return Answer::Refused(refused);
            }
        }
        last.perform(request, &|_| false).0
    }
}
