//! What the five transaction profiles have in common (clauses 2.4 to 2.8).

use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use super::config::TpccConfig;
use super::next::Next;
use super::statements::Id;

/// Where a transaction comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID of the terminal's own district.
    pub district: u32,
}

/// One transaction profile: its input, its progress, and what it has read.
pub trait Profile {
    /// Draws the input.
    fn begin(&mut self, config: &TpccConfig, terminal: Terminal, stream: &mut RandomStream);

    /// Back to the first statement, with the same input.
    fn restart(&mut self);

    /// Hands the whole transaction to `send` as a stored procedure.
    fn call<T>(&mut self, send: impl FnOnce(Id, &[Value<'_>]) -> T) -> T;

    /// Takes the first value of the procedure's only row.
    fn take_answer(&mut self, _answer: u32) {}

    /// Whether the next statement needs every answer to those before it.
    fn waits(&self) -> bool;

    /// Hands the next statement to `send`; `outstanding` answers are still to come.
    ///
    /// # Errors
    /// With the name of a row that should be there and is not.
    fn send_next<T>(
        &mut self,
        outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str>;

    /// Takes a row of statement `id`.
    fn row<'a>(&mut self, id: Id, values: impl Iterator<Item = Value<'a>>);

    /// Hands the next statement to `send`, unless it needs one of the `outstanding` answers.
    ///
    /// # Errors
    /// With the name of a row that should be there and is not.
    #[inline]
    fn advance<T>(
        &mut self,
        outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        if outstanding > 0 && self.waits() {
            return Ok(Next::Wait);
        }
        self.send_next(outstanding, send)
    }
}
