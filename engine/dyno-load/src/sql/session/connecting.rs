//! The session's part that logs in and prepares statements.

use dyno_loop::recorder::Part;
use dyno_loop::{Failure, Step, Stop, Tally};
use dyno_mysql::{Detail, Phase, ServerError, Statement};

use super::{loss, SqlSession, State, Work, WorkerState};
use crate::sql::record::SqlRecord;

/// The server cannot prepare this kind of statement (MySQL before 8.0 and BEGIN): it goes as text, as in sysbench.
const UNSUPPORTED_PREPARE: u16 = 1295;

/// The part of connecting that a connection in this phase is in.
fn part_of(phase: Phase) -> Part {
    match phase {
        Phase::Greeting => Part::Greeting,
        Phase::Tls => Part::Tls,
        Phase::Authentication => Part::Authentication,
        Phase::Initialisation | Phase::Ready => Part::Statements,
    }
}

impl SqlSession {
    /// Records the part of connecting that has ended since the last call, if any.
    #[cold]
    pub(super) fn record_part(&mut self, tally: &mut Tally<SqlRecord>, now: u64) {
        let (part, since) = self.cold.part;
        let current = part_of(self.connection.phase());
        if current != part {
            self.cold.part = (current, now);
            tally.recorder().connecting.record(part, now.saturating_sub(since));
        }
    }

    /// The connection is logged in.
    pub(super) fn logged_in(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        now: u64,
    ) -> Result<Option<Step>, Stop> {
        if let Some(info) = self.connection.tls() {
            tally.recorder().extra.handshakes.record(&info);
        }
        if shared.settings.connects_each_time() {
            self.record_statements(shared, tally, now);
            return self.connected(shared, tally, now).map(Some);
        }
        self.prepare_from(shared, tally, 0, now)
    }

    /// A statement is prepared, or (`None`) cannot be and goes as text.
    pub(super) fn prepared(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        statement: Option<Statement>,
        now: u64,
    ) -> Result<Option<Step>, Stop> {
        let State::Preparing(slot) = self.state else {
            return Ok(None);
        };
        self.statements.push(statement);
        self.prepare_from(shared, tally, slot + 1, now)
    }

    /// Records how long the initial statements and preparing took, where there were any.
    fn record_statements(&mut self, shared: &WorkerState, tally: &mut Tally<SqlRecord>, now: u64) {
        let initial = &shared.settings.options.init_statements;
        if !initial.is_empty() || shared.texts.iter().any(Option::is_some) {
            let ns = now.saturating_sub(self.cold.part.1);
            tally.recorder().connecting.record(Part::Statements, ns);
        }
    }

    /// Prepares the statement of a slot, or of the next one that has a text; the connection is ready after the last.
    fn prepare_from(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        first: usize,
        now: u64,
    ) -> Result<Option<Step>, Stop> {
        for (slot, text) in shared.texts.iter().enumerate().skip(first) {
            let Some(text) = text else {
                self.statements.push(None);
                continue;
            };
            self.state = State::Preparing(slot);
            let detail = match self.work {
                Work::Tpcc(_) => Detail::Rows,
                Work::Oltp(_) | Work::File(_) | Work::Captured(_) => Detail::Skip,
            };
            self.connection
                .prepare(text.as_bytes(), detail)
                .map_err(|error| loss(&error))?;
            return Ok(Some(Step::Progress));
        }
        self.record_statements(shared, tally, now);
        self.state = State::Idle;
        Ok(Some(Step::Ready))
    }

    /// The server refuses to prepare.
    pub(super) fn prepare_failed(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        error: &ServerError,
        now: u64,
    ) -> Result<Option<Step>, Stop> {
        if error.code == UNSUPPORTED_PREPARE {
            return self.prepared(shared, tally, None, now);
        }
        let State::Preparing(slot) = self.state else {
            return Ok(None);
        };
        let text = shared.texts.get(slot).cloned().flatten().unwrap_or_default();
        let message = format!("{error} (when preparing \"{text}\")");
        Err(Failure::with_code(error.code, message).into())
    }
}
