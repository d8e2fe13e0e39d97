//! TPC-C, revision 5.11: tables, load, the five transactions, and the consistency conditions.
//!
//! Not a TPC-C result: nothing here is audited, and without key and think times throughput is not bound to the number of
//! warehouses. So its figure is called TpmC-like.

pub mod check;
pub mod load;
mod new_order;
mod payment;
mod profile;
mod rows;
pub mod schema;
mod statements;

use dyno_core::random::{Domain, RandomStream};
use dyno_mysql::{Error, Row, Value};

pub use check::Acknowledgements;
pub use profile::{Home, Kind, Next, StockLevelQuery, TpccConfig};
pub use statements::{create_procedures, definition, drop_procedures, Id};

use super::definition::Definition;
use check::OrderId;
use new_order::{Delivery, NewOrder};
use payment::{OrderStatus, Payment, StockLevel};
use profile::{unsigned, Profile, Terminal};
use rows::between;

/// What all transactions of a run share.
#[derive(Debug, Clone)]
pub struct Context {
    /// The statements.
    pub definition: Definition,
    /// Terminals, their homes and their times.
    pub config: TpccConfig,
}

impl Context {
    /// The statements for a configuration.
    pub fn new(config: TpccConfig) -> Self {
        Self {
            definition: definition(config.stored_procedures),
            config,
        }
    }
}

/// One connection's transaction, and room for the next ones: nothing is allocated once each kind has run.
#[derive(Debug)]
pub struct Execution {
    kind: Kind,
    /// Whether ROLLBACK comes before anything else: the last attempt failed.
    undo: bool,
    /// Attempts of this transaction that failed.
    retries: u64,
    procedure: Procedure,
    new_order: NewOrder,
    payment: Payment,
    order_status: OrderStatus,
    delivery: Delivery,
    stock_level: StockLevel,
}

/// A transaction as one CALL.
#[derive(Debug, Clone, Copy, Default)]
struct Procedure {
    /// Whether the transaction is one.
    used: bool,
    /// Whether it was sent.
    sent: bool,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            kind: Kind::NewOrder,
            undo: false,
            retries: 0,
            procedure: Procedure::default(),
            new_order: NewOrder::default(),
            payment: Payment::default(),
            order_status: OrderStatus::default(),
            delivery: Delivery::default(),
            stock_level: StockLevel::default(),
        }
    }
}

/// Evaluates an expression on the profile of the current kind.
macro_rules! with_profile {
    ($execution:ident, $profile:ident => $value:expr) => {
        match $execution.kind {
            Kind::NewOrder => {
                let $profile = &mut $execution.new_order;
                $value
            }
            Kind::Payment => {
                let $profile = &mut $execution.payment;
                $value
            }
            Kind::OrderStatus => {
                let $profile = &mut $execution.order_status;
                $value
            }
            Kind::Delivery => {
                let $profile = &mut $execution.delivery;
                $value
            }
            Kind::StockLevel => {
                let $profile = &mut $execution.stock_level;
                $value
            }
        }
    };
}

impl Execution {
    /// Operation `number`, before its first statement.
    pub fn begin(&mut self, config: &TpccConfig, number: u64) {
        let stream = &mut RandomStream::of(config.seed, Domain::Operation, number);
        let (home, district) = config.home(config.terminal(number).0);
        let warehouse = match config.home {
            Home::Fixed => home,
            Home::Random => between(stream, 1, config.warehouses),
        };
        let terminal = Terminal { warehouse, district };
        self.kind = config.kind(number);
        self.undo = false;
        self.retries = 0;
        self.procedure = Procedure {
            used: config.stored_procedures,
            sent: false,
        };
        with_profile!(self, profile => profile.begin(config, terminal, stream));
    }

    /// Back to the first statement with the same input; `undo` says whether the server still holds the failed attempt.
    pub fn retry(&mut self, undo: bool) {
        self.undo = undo;
        self.retries += 1;
        self.procedure.sent = false;
        with_profile!(self, profile => profile.restart());
    }

    /// Hands the next statement to `send`, unless it needs one of the `outstanding` answers.
    ///
    /// # Errors
    /// With the name of a row that should be there and is not.
    #[inline]
    pub fn advance<T>(
        &mut self,
        outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        if self.undo {
            self.undo = false;
            return Ok(Next::Sent(send(Id::Rollback, &[])));
        }
        if self.procedure.used {
            return Ok(self.advance_procedure(outstanding, send));
        }
        with_profile!(self, profile => profile.advance(outstanding, send))
    }

    fn advance_procedure<T>(&mut self, outstanding: usize, send: impl FnOnce(Id, &[Value<'_>]) -> T) -> Next<T> {
        if self.procedure.sent {
            return if outstanding > 0 { Next::Wait } else { Next::End };
        }
        self.procedure.sent = true;
        Next::Sent(with_profile!(self, profile => profile.call(send)))
    }

    /// Takes a row of statement `id`.
    ///
    /// # Errors
    /// When the row cannot be decoded.
    #[inline]
    pub fn row(&mut self, id: Id, row: &Row<'_>) -> Result<(), Error> {
        let mut failed = None;
        let mut values = row
            .values()
            .map_while(|value| value.map_err(|error| failed = Some(error)).ok());
        if !self.procedure.used {
            with_profile!(self, profile => profile.row(id, values));
        } else if let Some(answer) = values.next().as_ref().and_then(unsigned) {
            with_profile!(self, profile => profile.take_answer(answer));
        }
        failed.map_or(Ok(()), Err)
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Attempts that failed.
    pub fn retries(&self) -> u64 {
        self.retries
    }

    /// Whether it ended in the rollback that its input asked for.
    pub fn is_rolled_back(&self) -> bool {
        self.kind == Kind::NewOrder && self.new_order.is_rolled_back()
    }

    /// The order that a committed New-Order made.
    pub fn order_id(&self) -> Option<OrderId> {
        match self.kind {
            Kind::NewOrder => self.new_order.order_id(),
            _ => None,
        }
    }

    /// Districts of a Delivery that had no new order.
    pub fn skipped(&self) -> u32 {
        match self.kind {
            Kind::Delivery => self.delivery.skipped(),
            _ => 0,
        }
    }
}
