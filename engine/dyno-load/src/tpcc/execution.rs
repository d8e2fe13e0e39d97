//! A transaction of TPC-C under way on one connection: which statement comes next, and what its rows mean.

use dyno_core::random::{Domain, RandomStream};
use dyno_mysql::{Error, Row, Value};

use super::acknowledged::OrderId;
use super::delivery::Delivery;
use super::new_order::NewOrder;
use super::next::Next;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::plan::{Home, Kind, Plan};
use super::random::between;
use super::row;
use super::statements::Id;
use super::stock_level::StockLevel;

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
    /// The first value of its only row.
    answer: Option<u32>,
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

impl Execution {
    /// Operation `number`, before its first statement.
    pub fn begin(&mut self, plan: &Plan, number: u64) {
        let stream = &mut RandomStream::of(plan.seed, Domain::Operation, number);
        let (warehouse, district) = plan.home(plan.terminal(number).0);
        let warehouse = match plan.home {
            Home::Fixed => warehouse,
            Home::Random => between(stream, 1, plan.warehouses),
        };
        self.kind = plan.kind(number);
        self.undo = false;
        self.retries = 0;
        self.procedure = Procedure {
            used: plan.stored_procedures,
            ..Procedure::default()
        };
        match self.kind {
            Kind::NewOrder => self.new_order.begin(plan, warehouse, stream),
            Kind::Payment => self.payment.begin(plan, warehouse, stream),
            Kind::OrderStatus => self.order_status.begin(plan, warehouse, stream),
            Kind::Delivery => self.delivery.begin(warehouse, stream),
            Kind::StockLevel => self.stock_level.begin(plan, warehouse, district, stream),
        }
    }

    /// Back to the first statement with the same input; `undo` says whether the server still holds the failed attempt.
    pub fn retry(&mut self, undo: bool) {
        self.undo = undo;
        self.retries += 1;
        (self.procedure.sent, self.procedure.answer) = (false, None);
        match self.kind {
            Kind::NewOrder => self.new_order.restart(),
            Kind::Payment => self.payment.restart(),
            Kind::OrderStatus => self.order_status.restart(),
            Kind::Delivery => self.delivery.restart(),
            Kind::StockLevel => self.stock_level.restart(),
        }
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
        match self.kind {
            Kind::NewOrder => self.new_order.advance(outstanding, send),
            Kind::Payment => self.payment.advance(outstanding, send),
            Kind::OrderStatus => self.order_status.advance(outstanding, send),
            Kind::Delivery => self.delivery.advance(outstanding, send),
            Kind::StockLevel => self.stock_level.advance(outstanding, send),
        }
    }

    fn advance_procedure<T>(&mut self, outstanding: usize, send: impl FnOnce(Id, &[Value<'_>]) -> T) -> Next<T> {
        if self.procedure.sent {
            return if outstanding > 0 { Next::Wait } else { Next::End };
        }
        self.procedure.sent = true;
        Next::Sent(match self.kind {
            Kind::NewOrder => self.new_order.call(send),
            Kind::Payment => self.payment.call(send),
            Kind::OrderStatus => self.order_status.call(send),
            Kind::Delivery => self.delivery.call(send),
            Kind::StockLevel => self.stock_level.call(send),
        })
    }

    /// Takes a row of statement `id`.
    ///
    /// # Errors
    /// When the row cannot be decoded.
    #[inline]
    pub fn row(&mut self, id: Id, row: &Row<'_>) -> Result<(), Error> {
        let mut failed = None;
        let values = row
            .values()
            .map_while(|value| value.map_err(|error| failed = Some(error)).ok());
        if self.procedure.used {
            self.procedure.answer = { values }.next().as_ref().and_then(row::unsigned);
            return failed.map_or(Ok(()), Err);
        }
        match self.kind {
            Kind::NewOrder => self.new_order.row(id, values),
            Kind::Payment => self.payment.row(id, values),
            Kind::OrderStatus => self.order_status.row(id, values),
            Kind::Delivery => self.delivery.row(id, values),
            Kind::StockLevel => self.stock_level.row(id, values),
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
        self.kind == Kind::NewOrder
            && if self.procedure.used {
                self.procedure.answer == Some(0)
            } else {
                self.new_order.is_rolled_back()
            }
    }

    /// The order that a committed New-Order made.
    pub fn order_id(&self) -> Option<OrderId> {
        match self.kind {
            Kind::NewOrder if self.procedure.used => {
                let order = self.procedure.answer.filter(|order| *order > 0);
                order.map(|order| self.new_order.order_id_of(order))
            }
            Kind::NewOrder if !self.new_order.is_rolled_back() => self.new_order.order_id(),
            _ => None,
        }
    }

    /// Districts of a Delivery that had no new order.
    pub fn skipped(&self) -> u32 {
        match self.kind {
            Kind::Delivery if self.procedure.used => self.procedure.answer.unwrap_or(0),
            Kind::Delivery => self.delivery.skipped(),
            _ => 0,
        }
    }
}
