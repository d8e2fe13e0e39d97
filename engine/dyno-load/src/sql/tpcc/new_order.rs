//! New-Order (clause 2.4), and Delivery (clause 2.7) of what it made: the oldest new order of each district, all ten in one
//! transaction.
//!
//! The standard lets a delivery be queued and done later; here its terminal waits for it, so that its end is seen.

use std::io::Write as _;

use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use super::check::OrderId;
use super::profile::{cents, integer, unsigned, AmountText, Next, Profile, Terminal, TpccConfig};
use super::rows::{between, DISTRICTS, ITEMS};
use super::statements::Id;

const MOST_LINES: usize = 15;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    item: u32,
    supply: u32,
    quantity: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NewOrderStep {
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
    step: NewOrderStep,
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
        self.step == NewOrderStep::End && self.line < self.count
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

    fn next_step(&self) -> NewOrderStep {
        match self.step {
            NewOrderStep::Customer => NewOrderStep::District,
            NewOrderStep::District => NewOrderStep::Next,
            NewOrderStep::Next => NewOrderStep::Order,
            NewOrderStep::Order => NewOrderStep::New,
            NewOrderStep::New => NewOrderStep::Item,
            NewOrderStep::Item => NewOrderStep::Stock,
            NewOrderStep::Stock => NewOrderStep::Take,
            NewOrderStep::Take => NewOrderStep::Line,
            NewOrderStep::Line if self.line + 1 < self.count => NewOrderStep::Item,
            NewOrderStep::Line => NewOrderStep::Commit,
            NewOrderStep::Commit | NewOrderStep::Rollback | NewOrderStep::End => NewOrderStep::End,
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
        self.step = NewOrderStep::Customer;
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
        self.step = NewOrderStep::End;
        self.line = if answer > 0 { self.count } else { 0 };
    }

    fn waits(&self) -> bool {
        matches!(
            self.step,
            NewOrderStep::Next | NewOrderStep::Take | NewOrderStep::Commit | NewOrderStep::Rollback | NewOrderStep::End
        )
    }

    fn send_next<T>(
        &mut self,
        outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        let int = |value: u32| Value::Int32(value as i32);
        let (warehouse, district) = (int(self.warehouse), int(self.district));
        let item_is_known = self.step == NewOrderStep::Take || (self.step == NewOrderStep::Stock && outstanding == 0);
        if item_is_known && self.price_cents.is_none() {
            // The item that is not there (clause 2.4.2.3).
            self.step = NewOrderStep::Rollback;
        }
        let order = || self.order.map(int).ok_or("the district");
        let line = self.lines[self.line.min(self.count - 1)];
        let (item, supply) = (int(line.item), int(line.supply));
        let sent = match self.step {
            NewOrderStep::Customer => send(Id::NewOrderCustomer, &[warehouse, district, int(self.customer)]),
            NewOrderStep::District => send(Id::NewOrderDistrict, &[district, warehouse]),
            NewOrderStep::Next => send(Id::NewOrderNext, &[order()?, district, warehouse]),
            NewOrderStep::Order => {
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
            NewOrderStep::New => send(Id::NewOrderNew, &[order()?, district, warehouse]),
            NewOrderStep::Item => {
                self.price_cents = None;
                self.stock = None;
                send(Id::NewOrderItem, &[item])
            }
            NewOrderStep::Stock => send(Id::NewOrderStock, &[item, supply]),
            NewOrderStep::Take => {
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
            NewOrderStep::Line => {
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
            NewOrderStep::Commit => send(Id::Commit, &[]),
            NewOrderStep::Rollback => send(Id::Rollback, &[]),
            NewOrderStep::End => return Ok(Next::End),
        };
        let next = self.next_step();
        if self.step == NewOrderStep::Line {
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DeliveryStep {
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
    step: DeliveryStep,
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
            DeliveryStep::Commit
        } else {
            DeliveryStep::Oldest
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
        self.step = DeliveryStep::Oldest;
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
        matches!(
            self.step,
            DeliveryStep::Delete | DeliveryStep::Customer | DeliveryStep::Commit | DeliveryStep::End
        )
    }

    fn send_next<T>(
        &mut self,
        _outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        if self.step == DeliveryStep::Delete && self.order.is_none() {
            // Clause 2.7.4.2: a district without a new order is skipped, and counted.
            self.skipped += 1;
            self.next_district();
        }
        let int = |value: u32| Value::Int32(value as i32);
        let (warehouse, district) = (int(self.warehouse), int(self.district));
        let order = int(self.order.unwrap_or(0));
        let (sent, next) = match self.step {
            DeliveryStep::Oldest => (send(Id::DeliveryOldest, &[district, warehouse]), DeliveryStep::Delete),
            DeliveryStep::Delete => (
                send(Id::DeliveryDelete, &[order, district, warehouse]),
                DeliveryStep::Order,
            ),
            DeliveryStep::Order => (
                send(Id::DeliveryOrder, &[order, district, warehouse]),
                DeliveryStep::Carrier,
            ),
            DeliveryStep::Carrier => {
                let carrier = int(self.carrier);
                (
                    send(Id::DeliveryCarrier, &[carrier, order, district, warehouse]),
                    DeliveryStep::Lines,
                )
            }
            DeliveryStep::Lines => (
                send(Id::DeliveryLines, &[order, district, warehouse]),
                DeliveryStep::Sum,
            ),
            DeliveryStep::Sum => (
                send(Id::DeliverySum, &[order, district, warehouse]),
                DeliveryStep::Customer,
            ),
            DeliveryStep::Customer => {
                let customer = int(self.customer.ok_or("the new order's order")?);
                let sum = AmountText::of(self.sum_cents.ok_or("the order's lines")?);
                let sum = Value::Bytes(sum.bytes());
                let sent = send(Id::DeliveryCustomer, &[sum, customer, district, warehouse]);
                self.next_district();
                (sent, self.step)
            }
            DeliveryStep::Commit => (send(Id::Commit, &[]), DeliveryStep::End),
            DeliveryStep::End => return Ok(Next::End),
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
