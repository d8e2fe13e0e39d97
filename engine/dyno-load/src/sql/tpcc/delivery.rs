//! Delivery (clause 2.7): the oldest new order of each district, all ten in one transaction.
//!
//! The standard lets a delivery be queued and done later; here its terminal waits for it, so that its end is seen.

use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use super::config::{between, TpccConfig, DISTRICTS};
use super::profile::{cents, unsigned, AmountText, Next, Profile, Terminal};
use super::statements::Id;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Oldest,
    Delete,
    Order,
    Carrier,
    Lines,
    Sum,
    Customer,
    Commit,
    End,
}

/// One Delivery: its input, how far it is, and what it has read.
#[derive(Debug, Default)]
pub struct Delivery {
    warehouse: u32,
    carrier: u32,
    district: u32,
    step: Step,
    order: Option<u32>,
    customer: Option<u32>,
    sum_cents: Option<i64>,
    skipped: u32,
}

impl Delivery {
    /// Districts that had no new order.
    pub fn skipped(&self) -> u32 {
        self.skipped
    }

    fn next_district(&mut self) {
        (self.order, self.customer, self.sum_cents) = (None, None, None);
        self.district += 1;
        self.step = if self.district > DISTRICTS {
            Step::Commit
        } else {
            Step::Oldest
        };
    }
}

impl Profile for Delivery {
    /// Draws the input (clause 2.7.1).
    fn begin(&mut self, _config: &TpccConfig, terminal: Terminal, stream: &mut RandomStream) {
        self.warehouse = terminal.warehouse;
        self.carrier = between(stream, 1, 10);
        self.restart();
    }

    fn restart(&mut self) {
        self.district = 1;
        self.step = Step::Oldest;
        self.skipped = 0;
        (self.order, self.customer, self.sum_cents) = (None, None, None);
    }

    fn call<T>(&mut self, send: impl FnOnce(Id, &[Value<'_>]) -> T) -> T {
        let int = |value: u32| Value::Int32(value as i32);
        send(Id::CallDelivery, &[int(self.warehouse), int(self.carrier)])
    }

    /// The districts skipped.
    fn take_answer(&mut self, answer: u32) {
        self.skipped = answer;
    }

    fn waits(&self) -> bool {
        matches!(self.step, Step::Delete | Step::Customer | Step::Commit | Step::End)
    }

    fn send_next<T>(
        &mut self,
        _outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        if self.step == Step::Delete && self.order.is_none() {
            // Clause 2.7.4.2: a district without a new order is skipped, and counted.
            self.skipped += 1;
            self.next_district();
        }
        let int = |value: u32| Value::Int32(value as i32);
        let (warehouse, district) = (int(self.warehouse), int(self.district));
        let order = int(self.order.unwrap_or(0));
        let (sent, next) = match self.step {
            Step::Oldest => (send(Id::DeliveryOldest, &[district, warehouse]), Step::Delete),
            Step::Delete => (send(Id::DeliveryDelete, &[order, district, warehouse]), Step::Order),
            Step::Order => (send(Id::DeliveryOrder, &[order, district, warehouse]), Step::Carrier),
            Step::Carrier => {
                let carrier = int(self.carrier);
                (
                    send(Id::DeliveryCarrier, &[carrier, order, district, warehouse]),
                    Step::Lines,
                )
            }
            Step::Lines => (send(Id::DeliveryLines, &[order, district, warehouse]), Step::Sum),
            Step::Sum => (send(Id::DeliverySum, &[order, district, warehouse]), Step::Customer),
            Step::Customer => {
                let customer = int(self.customer.ok_or("the new order's order")?);
                let sum = AmountText::of(self.sum_cents.ok_or("the order's lines")?);
                let sum = Value::Bytes(sum.bytes());
                let sent = send(Id::DeliveryCustomer, &[sum, customer, district, warehouse]);
                self.next_district();
                (sent, self.step)
            }
            Step::Commit => (send(Id::Commit, &[]), Step::End),
            Step::End => return Ok(Next::End),
        };
        self.step = next;
        Ok(Next::Sent(sent))
    }

    fn row<'a>(&mut self, id: Id, mut values: impl Iterator<Item = Value<'a>>) {
        let value = values.next();
        match id {
            Id::DeliveryOldest => self.order = value.as_ref().and_then(unsigned),
            Id::DeliveryOrder => self.customer = value.as_ref().and_then(unsigned),
            Id::DeliverySum => self.sum_cents = value.as_ref().and_then(cents),
            _ => {}
        }
    }
}
