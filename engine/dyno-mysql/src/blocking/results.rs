//! Executions of prepared statements.

use super::{Client, Outcome};
use crate::connection::Event;
use crate::error::Error;
use crate::replies::Detail;
use crate::resultset::{Done, Statement};
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
