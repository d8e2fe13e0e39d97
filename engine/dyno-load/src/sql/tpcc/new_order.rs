//! New-Order (clause 2.4).

use std::io::Write as _;

use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use super::acknowledged::OrderId;
use super::config::{between, TpccConfig, DISTRICTS, ITEMS};
use super::profile::{cents, integer, unsigned, AmountText, Next, Profile, Terminal};
use super::statements::Id;

const MOST_LINES: usize = 15;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    item: u32,
    supply: u32,
    quantity: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Customer,
    District,
    Next,
    Order,
    New,
    Item,
    Stock,
    Take,
    Line,
    Commit,
    Rollback,
    End,
}

/// One New-Order: its input, how far it is, and what it has read.
#[derive(Debug, Default)]
pub struct NewOrder {
    warehouse: u32,
    district: u32,
    customer: u32,
    lines: [Line; MOST_LINES],
    count: usize,
    step: Step,
    line: usize,
    order: Option<u32>,
    price_cents: Option<i64>,
    stock: Option<i64>,
    information: [u8; 24],
    /// Items, supplying warehouses and quantities as a procedure takes them.
    lists: [Vec<u8>; 3],
}

impl NewOrder {
    /// Whether it was rolled back, as one in a hundred is.
    pub fn is_rolled_back(&self) -> bool {
        self.step == Step::End && self.line < self.count
    }

    /// The order that it made; none when it was rolled back.
    pub fn order_id(&self) -> Option<OrderId> {
        let order = self.order.filter(|_| !self.is_rolled_back())?;
        Some(OrderId {
            warehouse: self.warehouse,
            district: self.district,
            order,
        })
    }

    fn next_step(&self) -> Step {
        match self.step {
            Step::Customer => Step::District,
            Step::District => Step::Next,
            Step::Next => Step::Order,
            Step::Order => Step::New,
            Step::New => Step::Item,
            Step::Item => Step::Stock,
            Step::Stock => Step::Take,
            Step::Take => Step::Line,
            Step::Line if self.line + 1 < self.count => Step::Item,
            Step::Line => Step::Commit,
            Step::Commit | Step::Rollback | Step::End => Step::End,
        }
    }
}

impl Profile for NewOrder {
    /// Draws the input (clause 2.4.1).
    fn begin(&mut self, config: &TpccConfig, terminal: Terminal, stream: &mut RandomStream) {
        let warehouse = terminal.warehouse;
        self.warehouse = warehouse;
        self.district = between(stream, 1, DISTRICTS);
        self.customer = config.nurand_constants.customer(stream);
        self.count = between(stream, 5, MOST_LINES as u32) as usize;
        let rolls_back = between(stream, 1, 100) == 1;
        for line in &mut self.lines[..self.count] {
            let remote = config.warehouses > 1 && between(stream, 1, 100) == 1;
            *line = Line {
                item: config.nurand_constants.item(stream),
                supply: if remote {
                    other_warehouse(config, warehouse, stream)
                } else {
                    warehouse
                },
                quantity: between(stream, 1, 10),
            };
        }
        if rolls_back {
            // An item that is not there: greater than all others, so it stays the last when lines are sorted.
            self.lines[self.count - 1].item = ITEMS + 1;
        }
        // All transactions lock stocks in the same order: fewer deadlocks.
        self.lines[..self.count].sort_unstable();
        self.restart();
    }

    fn restart(&mut self) {
        self.step = Step::Customer;
        self.line = 0;
        (self.order, self.price_cents, self.stock) = (None, None, None);
    }

    fn call<T>(&mut self, send: impl FnOnce(Id, &[Value<'_>]) -> T) -> T {
        let int = |value: u32| Value::Int32(value as i32);
        let lines = &self.lines[..self.count];
        put_list(&mut self.lists[0], lines.iter().map(|line| line.item));
        put_list(&mut self.lists[1], lines.iter().map(|line| line.supply));
        put_list(&mut self.lists[2], lines.iter().map(|line| line.quantity));
        let [items, supplies, quantities] = &self.lists;
        let all_local = lines.iter().all(|line| line.supply == self.warehouse);
        let values = [
            int(self.warehouse),
            int(self.district),
            int(self.customer),
            int(self.count as u32),
            int(u32::from(all_local)),
            Value::Bytes(items),
            Value::Bytes(supplies),
            Value::Bytes(quantities),
        ];
        send(Id::CallNewOrder, &values)
    }

    /// The order's number, or 0 for the rollback.
    fn take_answer(&mut self, answer: u32) {
        self.order = Some(answer).filter(|order| *order > 0);
        self.step = Step::End;
        self.line = if answer > 0 { self.count } else { 0 };
    }

    fn waits(&self) -> bool {
        matches!(
            self.step,
            Step::Next | Step::Take | Step::Commit | Step::Rollback | Step::End
        )
    }

    fn send_next<T>(
        &mut self,
        outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        let int = |value: u32| Value::Int32(value as i32);
        let (warehouse, district) = (int(self.warehouse), int(self.district));
        let item_is_known = self.step == Step::Take || (self.step == Step::Stock && outstanding == 0);
        if item_is_known && self.price_cents.is_none() {
            // The item that is not there (clause 2.4.2.3).
            self.step = Step::Rollback;
        }
        let order = || self.order.map(int).ok_or("the district");
        let line = self.lines[self.line.min(self.count - 1)];
        let (item, supply) = (int(line.item), int(line.supply));
        let sent = match self.step {
            Step::Customer => send(Id::NewOrderCustomer, &[warehouse, district, int(self.customer)]),
            Step::District => send(Id::NewOrderDistrict, &[district, warehouse]),
            Step::Next => send(Id::NewOrderNext, &[order()?, district, warehouse]),
            Step::Order => {
                let all_local = self.lines[..self.count]
                    .iter()
                    .all(|line| line.supply == self.warehouse);
                let (lines, all_local) = (int(self.count as u32), int(u32::from(all_local)));
                let customer = int(self.customer);
                send(
                    Id::NewOrderOrder,
                    &[order()?, district, warehouse, customer, lines, all_local],
                )
            }
            Step::New => send(Id::NewOrderNew, &[order()?, district, warehouse]),
            Step::Item => {
                self.price_cents = None;
                self.stock = None;
                send(Id::NewOrderItem, &[item])
            }
            Step::Stock => send(Id::NewOrderStock, &[item, supply]),
            Step::Take => {
                let stock = self.stock.ok_or("the stock of an item")?;
                let quantity = i64::from(line.quantity);
                // Clause 2.4.2.2: at least 10 stay, or 91 are added.
                let left = if stock >= quantity + 10 {
                    stock - quantity
                } else {
                    stock - quantity + 91
                };
                let remote = int(u32::from(line.supply != self.warehouse));
                send(
                    Id::NewOrderTake,
                    &[Value::Int32(left as i32), int(line.quantity), remote, item, supply],
                )
            }
            Step::Line => {
                let cents = self.price_cents.ok_or("the item")? * i64::from(line.quantity);
                let amount = AmountText::of(cents);
                send(
                    Id::NewOrderLine,
                    &[
                        order()?,
                        district,
                        warehouse,
                        int(self.line as u32 + 1),
                        item,
                        supply,
                        int(line.quantity),
                        Value::Bytes(amount.bytes()),
                        Value::Bytes(&self.information),
                    ],
                )
            }
            Step::Commit => send(Id::Commit, &[]),
            Step::Rollback => send(Id::Rollback, &[]),
            Step::End => return Ok(Next::End),
        };
        let next = self.next_step();
        if self.step == Step::Line {
            self.line += 1;
        }
        self.step = next;
        Ok(Next::Sent(sent))
    }

    fn row<'a>(&mut self, id: Id, mut values: impl Iterator<Item = Value<'a>>) {
        match id {
            Id::NewOrderDistrict => self.order = values.next().as_ref().and_then(unsigned),
            Id::NewOrderItem => self.price_cents = values.next().as_ref().and_then(cents),
            Id::NewOrderStock => {
                self.stock = values.next().as_ref().and_then(integer);
                // After S_QUANTITY and S_DATA come S_DIST_01 to S_DIST_10.
                if let Some(Value::Bytes(text)) = values.nth(self.district as usize) {
                    let length = text.len().min(self.information.len());
                    self.information[..length].copy_from_slice(&text[..length]);
                }
            }
            _ => {}
        }
    }
}

/// Numbers with commas between them.
fn put_list(out: &mut Vec<u8>, numbers: impl Iterator<Item = u32>) {
    out.clear();
    for (place, number) in numbers.enumerate() {
        let comma = if place > 0 { "," } else { "" };
        // Writing into a Vec cannot fail.
        let _ = write!(out, "{comma}{number}");
    }
}

/// A warehouse that is not this one, all others alike.
pub fn other_warehouse(config: &TpccConfig, warehouse: u32, stream: &mut RandomStream) -> u32 {
    let drawn = between(stream, 1, config.warehouses - 1);
    if drawn >= warehouse {
        drawn + 1
    } else {
        drawn
    }
}
