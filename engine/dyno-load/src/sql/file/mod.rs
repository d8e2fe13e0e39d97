//! Workloads of the user's own: a file of SQL transactions with parameters, and a TOML file or a dump for their tables.

pub mod data;
pub mod dump;
mod parser;
mod rules;
mod schema;

use dyno_core::random::{Domain, RandomStream};
use dyno_mysql::Value;
use smallvec::SmallVec;

pub use parser::{parse, FileContext, FileStatement, FileTransaction};
pub use rules::{Drawn, Rule};
pub use schema::Schema;

use parser::Piece;

/// One connection's transaction.
#[derive(Debug, Default)]
pub struct FileWork {
    transaction: usize,
    /// The place of the next statement.
    next: usize,
    /// The statement that was sent last, among all of the file; none for ROLLBACK.
    sent: Option<usize>,
    /// Whether ROLLBACK comes first: the last attempt failed.
    undo: bool,
    values: Vec<Drawn>,
}

impl FileWork {
    /// Begins operation `number`: which transaction it is, and its values, follow from the number.
    pub fn begin(&mut self, context: &FileContext, number: u64) {
        let mut stream = RandomStream::of(context.seed, Domain::Operation, number);
        let total = context.weight_ends.last().copied().unwrap_or(1).max(1);
        let place = (stream.next_u64() % u64::from(total)) as u32;
        self.transaction = context.weight_ends.partition_point(|end| *end <= place);
        self.next = 0;
        self.undo = false;
        self.sent = None;
        self.values.clear();
        let rules = &context.transactions[self.transaction].values;
        self.values
            .extend(rules.iter().map(|rule| rule.draw(&mut stream, None)));
    }

    /// Back to the first statement with the same values; `undo` says whether the server may still hold the attempt.
    pub fn restart(&mut self, undo: bool) {
        self.next = 0;
        self.undo = undo;
    }

    /// The number of the next statement in the definition; none at the end of the transaction.
    #[inline]
    pub fn advance(&mut self, context: &FileContext) -> Option<usize> {
        if self.undo {
            self.undo = false;
            self.sent = None;
            return Some(context.statements.len());
        }
        let statement = *self.transaction(context).statements.get(self.next)?;
        self.next += 1;
        self.sent = Some(statement);
        Some(statement)
    }

    /// The values of a statement.
    #[inline]
    pub fn values(&self, context: &FileContext, statement: usize) -> SmallVec<[Value<'_>; 8]> {
        let Some(statement) = context.statements.get(statement) else {
            return SmallVec::new();
        };
        let value = |piece: &Piece| match piece {
            Piece::Text(_) => None,
            Piece::Value(number) => self.values.get(*number).map(Drawn::value),
        };
        statement.pieces.iter().filter_map(value).collect()
    }

    /// Appends a statement as text.
    pub fn render(&self, context: &FileContext, statement: usize, out: &mut Vec<u8>) {
        let Some(statement) = context.statements.get(statement) else {
            out.extend_from_slice(b"ROLLBACK");
            return;
        };
        for piece in &statement.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Value(number) => {
                    if let Some(value) = self.values.get(*number) {
                        value.write(out);
                    }
                }
            }
        }
    }

    /// The transaction.
    #[inline]
    pub fn transaction<'a>(&self, context: &'a FileContext) -> &'a FileTransaction {
        &context.transactions[self.transaction]
    }

    /// The number under which the transaction is recorded: those of the statements come first.
    #[inline]
    pub fn recorded_as(&self, context: &FileContext) -> usize {
        context.statements.len() + self.transaction
    }

    /// The statement that was sent last.
    #[inline]
    pub fn sent(&self) -> Option<usize> {
        self.sent
    }
}
