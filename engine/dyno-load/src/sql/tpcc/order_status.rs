//! Order-Status (clause 2.6).

use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use super::config::{between, TpccConfig, DISTRICTS};
use super::profile::{unsigned, CustomerChoice, Next, Profile, Terminal};
use super::statements::Id;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Count,
    ByName,
    ById,
    Order,
    Lines,
    Commit,
    End,
}

/// One Order-Status: its input, how far it is, and what it has read.
#[derive(Debug, Default)]
pub struct OrderStatus {
    customer: CustomerChoice,
    order: Option<u32>,
    step: Step,
}

impl Profile for OrderStatus {
    /// Draws the input (clause 2.6.1).
    fn begin(&mut self, config: &TpccConfig, terminal: Terminal, stream: &mut RandomStream) {
        let district = between(stream, 1, DISTRICTS);
        self.customer.begin(config, terminal.warehouse, district, stream);
        self.restart();
    }

    fn restart(&mut self) {
        self.customer.restart();
        self.order = None;
        self.step = if self.customer.is_by_name() {
            Step::Count
        } else {
            Step::ById
        };
    }

    fn call<T>(&mut self, send: impl FnOnce(Id, &[Value<'_>]) -> T) -> T {
        let int = |value: u32| Value::Int32(value as i32);
        let values = [
            int(self.customer.warehouse),
            int(self.customer.district),
            // By name where there is no number.
            int(self.customer.id().unwrap_or(0)),
            Value::Bytes(self.customer.name()),
        ];
        send(Id::CallOrderStatus, &values)
    }

    fn waits(&self) -> bool {
        match self.step {
            Step::Order => self.customer.is_by_name(),
            Step::Lines | Step::Commit | Step::End => true,
            _ => false,
        }
    }

    fn send_next<T>(
        &mut self,
        _outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        let int = |value: u32| Value::Int32(value as i32);
        let (warehouse, district) = (int(self.customer.warehouse), int(self.customer.district));
        let id = || self.customer.id().map(int).ok_or("a customer of that name");
        let name = Value::Bytes(self.customer.name());
        let (sent, next) = match self.step {
            Step::Count => (send(Id::CountByName, &[warehouse, district, name]), Step::ByName),
            Step::ByName => (send(Id::StatusByName, &[warehouse, district, name]), Step::Order),
            Step::ById => (send(Id::StatusById, &[warehouse, district, id()?]), Step::Order),
            Step::Order => {
                let id = id()?;
                (
                    send(Id::StatusOrder, &[warehouse, district, id, warehouse, district, id]),
                    Step::Lines,
                )
            }
            Step::Lines => {
                let order = self.order.map(int).ok_or("the customer's last order")?;
                (send(Id::StatusLines, &[warehouse, district, order]), Step::Commit)
            }
            Step::Commit => (send(Id::Commit, &[]), Step::End),
            Step::End => return Ok(Next::End),
        };
        self.step = next;
        Ok(Next::Sent(sent))
    }

    fn row<'a>(&mut self, id: Id, mut values: impl Iterator<Item = Value<'a>>) {
        match id {
            Id::StatusByName => self.customer.found(values.next().as_ref().and_then(unsigned)),
            Id::StatusOrder => self.order = values.next().as_ref().and_then(unsigned),
            _ => {}
        }
    }
}
