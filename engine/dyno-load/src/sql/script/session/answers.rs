//! The session's part that hands the server's answers to its script, and counts them.

use dyno_loop::recorder::Part;
use dyno_loop::{Failure, Step, Stop, Tally};
use dyno_mysql::{Done, ServerError, Statement};

use super::{Awaited, ScriptSession, State, Went};
use crate::sql::named::Reply;
use crate::sql::record::{record_statement, SqlRecord};
use crate::sql::script::blocking::{refusal, UNSUPPORTED_PREPARE};
use crate::sql::script::request::Answer;

impl ScriptSession {
    /// Counts what happened outside of an answer.
    #[inline]
    pub(super) fn count_others(&mut self, tally: &mut Tally<SqlRecord>) {
        let elsewhere = &mut self.elsewhere;
        let recorder = tally.recorder();
        for (sent, service_ns) in elsewhere.statements.drain(..) {
            record_statement(recorder, sent.kind, service_ns, sent.reply);
        }
        recorder.counts.ignored_errors += std::mem::take(&mut elsewhere.refused);
        recorder.extra.held_ns += self.machine.take_held_ns();
        recorder.extra.questions_aside += std::mem::take(&mut elsewhere.questions);
    }

    /// What follows from how far the script went.
    pub(super) fn went(&mut self, tally: &mut Tally<SqlRecord>, went: &Went, now: u64) -> Option<Step> {
        match (went, self.state) {
            (Went::Sent, State::Starting) => Some(Step::Progress),
            (Went::Sent, _) => None,
            (Went::Ready, _) => {
                tally
                    .recorder()
                    .connecting
                    .record(Part::Statements, now.saturating_sub(self.part.1));
                // On to the first event, which waits for the load.
                None
            }
            (Went::Over, State::Starting) => {
                self.state = State::Idle;
                Some(Step::Ready)
            }
            (Went::Over, _) => {
                self.count_quiet(tally);
                self.state = State::Idle;
                self.active = false;
                tally.completed(&self.operation, now, false);
                Some(Step::Free {
                    number: self.operation.number,
                    at_ns: now,
                })
            }
        }
    }

    #[inline]
    pub(super) fn count_quiet(&mut self, tally: &mut Tally<SqlRecord>) {
        for (operation, ended_ns) in self.quiet.drain(..) {
            tally.completed(&operation, ended_ns, false);
        }
    }

    /// Goes on with an answer; thread_init() goes over into the wait for the first event.
    pub(super) fn answer(
        &mut self,
        tally: &mut Tally<SqlRecord>,
        answer: Answer,
        now: u64,
    ) -> Result<Option<Step>, Stop> {
        let mut went = self.go_on(answer)?;
        loop {
            let is_ready = went == Went::Ready;
            if let Some(step) = self.went(tally, &went, now) {
                return Ok(Some(step));
            }
            if !is_ready {
                return Ok(None);
            }
            went = self.go_on(Answer::Nothing)?;
        }
    }

    #[cold]
    pub(super) fn logged_in(&mut self, tally: &mut Tally<SqlRecord>, now: u64) -> Result<Option<Step>, Stop> {
        if let Some(info) = self.connection.tls() {
            tally.recorder().extra.handshakes.record(&info);
        }
        self.machine.waited();
        if self.thread.is_some() {
            // Made again: the script goes on where it was.
            self.state = State::Idle;
            return Ok(Some(Step::Ready));
        }
        self.state = State::Starting;
        let mut thread = self.machine.thread(self.number).map_err(Failure::new)?;
        let request = self.machine.begin(&mut thread);
        self.thread = Some(thread);
        let mut went = self.follow(request)?;
        loop {
            let is_ready = went == Went::Ready;
            if let Some(step) = self.went(tally, &went, now) {
                return Ok(Some(step));
            }
            if !is_ready {
                return Ok(None);
            }
            went = self.go_on(Answer::Nothing)?;
        }
    }

    pub(super) fn done(&mut self, tally: &mut Tally<SqlRecord>, done: &Done, now: u64) -> Result<Option<Step>, Stop> {
        self.rows.end_result(done.rows, done.columns);
        if done.more_results {
            return Ok(None);
        }
        if self.state == State::Barrier {
            self.count_quiet(tally);
            self.state = State::Idle;
            if self.active {
                self.active = false;
                tally.completed(&self.operation, now, false);
            } else {
                tally.in_flight -= 1;
            }
            return Ok(Some(Step::Free {
                number: self.operation.number,
                at_ns: now,
            }));
        }
        let reply = Reply {
            columns: self.rows.size().1,
            rows: self.rows.total(),
            affected_rows: done.affected_rows,
        };
        if self.state == State::Busy {
            let service_ns = now.saturating_sub(self.statement_ns);
            tally.statement_ended(now, service_ns);
            record_statement(tally.recorder(), self.kind, service_ns, reply);
        }
        self.answer(tally, Answer::first_of(&self.rows), now)
    }

    pub(super) fn prepared(
        &mut self,
        tally: &mut Tally<SqlRecord>,
        statement: Option<Statement>,
        now: u64,
    ) -> Result<Option<Step>, Stop> {
        let generation = self.generation;
        let mut keep = |slot: usize, statement: Option<Statement>| {
            if let Some(prepared) = self.statements.get_mut(slot) {
                prepared.goes_as_text = statement.is_none();
                prepared.statement = statement;
                prepared.generation = generation;
            }
        };
        match std::mem::replace(&mut self.awaited, Awaited::Statement) {
            Awaited::Prepare(slot) => {
                keep(slot, statement);
                self.answer(tally, Answer::Number(slot), now)
            }
            Awaited::PrepareAgain(slot, parameters) => {
                keep(slot, statement);
                match self.execute(slot, parameters)? {
                    None => Ok(None),
                    Some(refused) => self.answer(tally, Answer::Refused(refused), now),
                }
            }
            Awaited::Statement => Ok(None),
        }
    }

    #[cold]
    pub(super) fn refused(
        &mut self,
        tally: &mut Tally<SqlRecord>,
        error: &ServerError,
        now: u64,
    ) -> Result<Option<Step>, Stop> {
        let is_prepare = !matches!(self.awaited, Awaited::Statement);
        if is_prepare && error.code == UNSUPPORTED_PREPARE {
            return self.prepared(tally, None, now);
        }
        tally.recorder().errors.record(error.code, &error.to_string());
        self.last_error = Some(error.code);
        let ignored = &self.settings.load.ignored_errors;
        let refused = refusal(error, &|code| ignored.contains(code));
        let result = self.answer(tally, Answer::Refused(refused), now);
        let counts = &mut tally.recorder().counts;
        match result {
            Ok(_) => counts.ignored_errors += 1,
            Err(_) => counts.errors += 1,
        }
        result
    }
}
