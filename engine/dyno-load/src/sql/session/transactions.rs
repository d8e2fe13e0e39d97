//! The session's part that starts, carries on, ends and restarts transactions.

use std::io::Write as _;

use dyno_loop::recorder::client_code;
use dyno_loop::{Failure, Loss, Operation, Step, Stop, Tally};
use dyno_mysql::{Connection, Detail, Done, ServerError, Statement, Value};

use super::{acknowledgement_failed, loss, SqlSession, State, TpccWork, Work, WorkerState};
use crate::sql::definition::StatementKind;
use crate::sql::file::{FileContext, FileWork};
use crate::sql::named::Reply;
use crate::sql::oltp::{self, Transaction};
use crate::sql::record::{record_statement, SqlRecord};
use crate::sql::settings::SqlWorkload;
use crate::sql::tpcc::{self, Id, Next};

impl SqlSession {
    /// Prepares for a transaction; nothing is sent yet.
    #[inline]
    pub(super) fn begin(&mut self, shared: &WorkerState, operation: Operation) {
        match (&mut self.work, &shared.settings.workload) {
            (Work::Oltp(transaction), SqlWorkload::Oltp(context)) => {
                *transaction = Transaction::start(context, operation.number);
            }
            (Work::Tpcc(work), SqlWorkload::Tpcc(context)) => work.execution.begin(&context.config, operation.number),
            (Work::File(work), SqlWorkload::File(context)) => work.begin(context, operation.number),
            (Work::Captured(work), SqlWorkload::Captured(context)) => work.begin(context, operation.number),
            _ => {}
        }
        self.statement_ns = operation.started_ns;
        self.operation = operation;
        self.active = true;
    }

    /// Back to the first statement; `undo` says whether the server still holds what failed.
    pub(super) fn restart(&mut self, shared: &WorkerState, undo: bool) {
        match (&mut self.work, &shared.settings.workload) {
            (Work::Oltp(transaction), SqlWorkload::Oltp(context)) => transaction.restart(context),
            (Work::Tpcc(work), _) => work.execution.retry(undo),
            (Work::File(work), _) => work.restart(undo),
            (Work::Captured(work), _) => work.restart(undo),
            _ => {}
        }
    }

    /// Puts the next statement of the transaction into the output; false when the transaction is complete.
    #[inline]
    pub(super) fn send_next(&mut self, shared: &WorkerState, now: u64) -> Result<bool, Stop> {
        self.statement_ns = now;
        let (connection, statements) = (&mut self.connection, &mut self.statements);
        match (&mut self.work, &shared.settings.workload) {
            (Work::Oltp(transaction), SqlWorkload::Oltp(context)) => {
                let Some(call) = transaction.call(context) else {
                    return Ok(false);
                };
                self.kind = context.definition.statements[call.statement].kind;
                send_oltp(transaction, context, self.number, &shared.slots, connection, statements)?;
                Ok(true)
            }
            (Work::Tpcc(work), SqlWorkload::Tpcc(context)) => send_tpcc(work, context, connection, statements),
            (Work::File(work), SqlWorkload::File(context)) => {
                let Some(statement) = work.advance(context) else {
                    return Ok(false);
                };
                self.kind = context.definition.statements[statement].kind;
                send_file(work, context, statement, connection, statements)?;
                Ok(true)
            }
            (Work::Captured(work), SqlWorkload::Captured(context)) => {
                let Some((kind, text)) = work.advance(context) else {
                    return Ok(false);
                };
                self.kind = kind;
                connection.query(text, Detail::Skip).map_err(|error| loss(&error))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// A statement was answered: what it was, and whether others of its transaction have no answer yet.
    #[inline]
    fn answered(&mut self, shared: &WorkerState) -> (StatementKind, bool) {
        if let Work::Tpcc(work) = &mut self.work {
            if let Some(id) = work.sent.pop_front() {
                self.kind = shared.settings.workload.definition().statements[id as usize].kind;
            }
            return (self.kind, !work.sent.is_empty());
        }
        (self.kind, false)
    }

    /// Number and name of the statement that was sent last, in a file of the user's or a capture.
    #[inline]
    fn recorded_as<'a>(&self, shared: &'a WorkerState) -> Option<(usize, &'a str)> {
        match (&self.work, &shared.settings.workload) {
            (Work::File(work), SqlWorkload::File(context)) => {
                let number = work.sent()?;
                Some((number, &context.statements[number].name))
            }
            (Work::Captured(work), SqlWorkload::Captured(context)) => work.sent(context),
            _ => None,
        }
    }

    /// Counts a statement and goes on to the next; true when the transaction is complete.
    #[inline]
    pub(super) fn statement_done(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        now: u64,
        done: &Done,
    ) -> Result<bool, Stop> {
        if done.more_results {
            // Of several results only the last is a statement's end.
            return Ok(false);
        }
        let service_ns = now.saturating_sub(self.statement_ns);
        let (kind, others) = self.answered(shared);
        let reply = Reply {
            columns: done.columns,
            rows: done.rows,
            affected_rows: done.affected_rows,
        };
        tally.statement_ended(now, service_ns);
        record_statement(tally.recorder(), kind, service_ns, reply);
        if let Some((number, name)) = self.recorded_as(shared) {
            tally
                .recorder()
                .extra
                .named
                .record_statement(number, name, service_ns, reply);
        }
        if self.failing {
            return if others { Ok(false) } else { self.try_again(shared, now) };
        }
        Ok(!self.send_next(shared, now)?)
    }

    /// Counts the transaction.
    #[inline]
    pub(super) fn transaction_done(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        now: u64,
    ) -> Result<Step, Stop> {
        self.state = State::Idle;
        self.active = false;
        let latency = tally.completed(&self.operation, now, false);
        if let (Work::File(work), SqlWorkload::File(context), Some(latency)) =
            (&self.work, &shared.settings.workload, latency)
        {
            let (number, name) = (work.recorded_as(context), &work.transaction(context).name);
            tally.recorder().extra.named.record(number, name, latency.service_ns);
        }
        if let Work::Tpcc(work) = &self.work {
            if let Some(latency) = latency {
                tally.recorder().extra.by_type.record(&work.execution, latency);
            }
            if let (Some(file), Some(order)) = (&mut shared.acknowledgements, work.execution.order_id()) {
                file.note(order).map_err(|error| acknowledgement_failed(&error))?;
            }
        }
        Ok(Step::Free {
            number: self.operation.number,
            at_ns: now,
        })
    }

    /// The end of one operation of the workload `connect`.
    pub(super) fn connected(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        now: u64,
    ) -> Result<Step, Stop> {
        let service_ns = now.saturating_sub(self.statement_ns);
        tally.statement_ended(now, service_ns);
        record_statement(tally.recorder(), StatementKind::Connect, service_ns, Reply::default());
        self.transaction_done(shared, tally, now)
    }

    /// An error of the server: the transaction is restarted when the error is ignored, else the run ends.
    #[cold]
    pub(super) fn statement_failed(
        &mut self,
        shared: &mut WorkerState,
        tally: &mut Tally<SqlRecord>,
        error: &ServerError,
        now: u64,
    ) -> Result<(), Stop> {
        let recorder = tally.recorder();
        recorder.errors.record(error.code, &error.to_string());
        if let Some((number, name)) = self.recorded_as(shared) {
            recorder.extra.named.record_error(number, name);
        }
        let (kind, others) = self.answered(shared);
        if !shared.settings.load.ignored_errors.contains(error.code) {
            recorder.counts.errors += 1;
            let message = format!(
                "{error} (statement {}); --ignore-errors {} would {} the transaction",
                kind.name(),
                error.code,
                if matches!(self.work, Work::Captured(_)) {
                    "roll back and leave out"
                } else {
                    "restart"
                }
            );
            return Err(Failure::with_code(error.code, message).into());
        }
        recorder.counts.ignored_errors += 1;
        self.failing = true;
        if !others {
            self.try_again(shared, now)?;
        }
        // Else the other answers come first; the server has done them in a transaction that is rolled back.
        Ok(())
    }

    /// The transaction begins anew; false, for it is not complete.
    #[cold]
    fn try_again(&mut self, shared: &WorkerState, now: u64) -> Result<bool, Stop> {
        self.failing = false;
        self.restart(shared, true);
        self.send_next(shared, now)?;
        Ok(false)
    }
}

#[inline]
fn send_oltp(
    transaction: &mut Transaction,
    context: &oltp::Context,
    number: u32,
    slots: &[usize],
    connection: &mut Connection,
    statements: &mut [Option<Statement>],
) -> Result<(), Stop> {
    let sent = transaction.advance(context, number, |request| {
        let statement = &context.definition.statements[request.statement];
        let offset = if statement.per_table {
            request.table as usize - 1
        } else {
            0
        };
        let slot = slots[request.statement] + offset;
        match statements.get_mut(slot) {
            Some(Some(prepared)) => connection.execute(prepared, request.values, Detail::Skip),
            _ => connection.query_with(Detail::Skip, |out| {
                render(out, &statement.template, request.table, request.values);
            }),
        }
    });
    sent.map_err(|error| loss(&error).into())
}

/// The same for a file of the user's.
#[inline]
fn send_file(
    work: &FileWork,
    context: &FileContext,
    statement: usize,
    connection: &mut Connection,
    statements: &mut [Option<Statement>],
) -> Result<(), Stop> {
    let sent = match statements.get_mut(statement) {
        Some(Some(prepared)) => connection.execute(prepared, &work.values(context, statement), Detail::Skip),
        _ => connection.query_with(Detail::Skip, |out| work.render(context, statement, out)),
    };
    sent.map_err(|error| loss(&error).into())
}

/// The same for TPC-C, whose statements have one slot each, and whose rows are read; false when it is complete.
#[inline]
fn send_tpcc(
    work: &mut TpccWork,
    context: &tpcc::Context,
    connection: &mut Connection,
    statements: &mut [Option<Statement>],
) -> Result<bool, Stop> {
    let (execution, sent) = (&mut work.execution, &mut work.sent);
    loop {
        let outstanding = sent.len();
        if outstanding > 0 && !context.config.pipelining {
            return Ok(true);
        }
        let send = |id: Id, values: &[Value<'_>]| {
            sent.push_back(id);
            match statements.get_mut(id as usize) {
                Some(Some(prepared)) => connection.execute(prepared, values, Detail::Rows),
                _ => connection.query_with(Detail::Rows, |out| {
                    let template = &context.definition.statements[id as usize].template;
                    render(out, template, 0, values);
                }),
            }
        };
        match execution.advance(outstanding, send) {
            Ok(Next::Sent(result)) => result.map_err(|error| loss(&error))?,
            Ok(Next::Wait) => return Ok(true),
            Ok(Next::End) => return Ok(false),
            Err(row) => return Err(missing(row).into()),
        }
    }
}

/// A row that the workload counts on is not there: connecting again would not help.
#[cold]
fn missing(row: &str) -> Loss {
    Loss {
        code: client_code::UNEXPECTED_DATA,
        message: format!("{row} does not exist: the tables are not those of `dynoload tpcc prepare`"),
        can_reconnect: false,
    }
}

/// Appends `template` with the table's number and the values to `out`.
///
/// Integers stand bare, texts in single quotes. The texts of the workloads hold no quote and no backslash: nothing needs escaping.
pub fn render(out: &mut Vec<u8>, template: &str, table: u32, values: &[Value<'_>]) {
    let mut values = values.iter();
    let mut rest = template;
    while let Some(position) = rest.find(['?', '{']) {
        out.extend_from_slice(&rest.as_bytes()[..position]);
        if let Some(after) = rest[position..].strip_prefix("{table}") {
            // Writing to a vector cannot fail.
            let _ = write!(out, "{table}");
            rest = after;
            continue;
        }
        match values.next() {
            Some(Value::Int(value)) => {
                let _ = write!(out, "{value}");
            }
            Some(Value::Int32(value)) => {
                let _ = write!(out, "{value}");
            }
            Some(Value::Bytes(text)) => {
                out.push(b'\'');
                out.extend_from_slice(text);
                out.push(b'\'');
            }
            _ => out.extend_from_slice(b"NULL"),
        }
        rest = &rest[position + 1..];
    }
    out.extend_from_slice(rest.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_the_question_marks_were() {
        let mut out = Vec::new();
        let values = [Value::Bytes(b"12-34"), Value::Int(-7)];
        render(&mut out, "UPDATE sbtest{table} SET c=? WHERE id=?", 12, &values);
        assert_eq!(out, b"UPDATE sbtest12 SET c='12-34' WHERE id=-7");
    }
}
