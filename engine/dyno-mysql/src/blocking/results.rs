//! Executions of prepared statements, and replies of which only the size is wanted, not the rows.

use super::{Client, Outcome};
use crate::connection::Event;
use crate::error::{Error, ServerError};
use crate::replies::Detail;
use crate::resultset::{Column, Done, Row, Statement};
use crate::value::Value;

/// A part of the results of a statement.
#[derive(Debug)]
pub enum ResultPart<'a, 'v> {
    /// The values of a row.
    Row(&'a [Value<'v>]),
    /// The end of a result.
    End(Done),
}

impl Client {
    /// Executes a statement; `each` sees the values of every row.
    pub fn execute(
        &mut self,
        statement: &mut Statement,
        values: &[Value<'_>],
        mut each: impl FnMut(&[Value<'_>]),
    ) -> Outcome<Done> {
        let mut last = Done::default();
        self.execute_all(statement, values, |part| match part {
            ResultPart::Row(row) => each(row),
            ResultPart::End(done) => last = done,
        })?;
        Ok(last)
    }

    /// Executes a prepared statement and hands over the rows and the end of each of its results.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_all(
        &mut self,
        statement: &mut Statement,
        values: &[Value<'_>],
        mut each: impl FnMut(ResultPart<'_, '_>),
    ) -> Outcome<()> {
        self.connection.execute(statement, values, Detail::Rows)?;
        self.drive(|event| match event {
            Event::Row(row) => {
                each(ResultPart::Row(&row.values().collect::<Result<Vec<_>, _>>()?));
                Ok(false)
            }
            Event::Done(done) => {
                each(ResultPart::End(done));
                Ok(!done.more_results)
            }
            Event::Failed(error) => Err(Error::Server(error)),
            _ => Ok(false),
        })?;
        Ok(())
    }
}

/// What the reply to a statement came to, all its results together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Rows returned.
    pub rows: u64,
    /// Rows changed.
    pub affected_rows: u64,
    /// Warnings raised.
    pub warnings: u64,
    /// The server's error.
    pub error: Option<ServerError>,
}

impl Client {
    /// Executes a statement; its rows are received and not looked at. A statement that the server refuses has an error in
    /// its reply.
    pub fn send(&mut self, sql: &[u8]) -> Outcome<Reply> {
        self.reply(sql, Detail::Skip, |_| {}, |_| {})
    }

    /// The same; `columns` sees those of each result, and `row` every row.
    pub fn inspect(&mut self, sql: &[u8], columns: impl FnMut(&[Column]), row: impl FnMut(Row<'_>)) -> Outcome<Reply> {
        self.reply(sql, Detail::Rows, columns, row)
    }

    fn reply(
        &mut self,
        sql: &[u8],
        detail: Detail,
        mut columns: impl FnMut(&[Column]),
        mut row: impl FnMut(Row<'_>),
    ) -> Outcome<Reply> {
        self.connection.query(sql, detail)?;
        let mut reply = Reply::default();
        self.drive(|event| {
            match event {
                Event::Columns(found) => columns(found),
                Event::Row(found) => row(found),
                Event::Done(done) => {
                    reply.rows += done.rows;
                    reply.affected_rows += done.affected_rows;
                    reply.warnings += u64::from(done.warnings);
                    return Ok(!done.more_results);
                }
                Event::Failed(error) => {
                    reply.error = Some(error);
                    return Ok(true);
                }
                Event::Ready | Event::Prepared(_) => {}
            }
            Ok(false)
        })?;
        Ok(reply)
    }
}
