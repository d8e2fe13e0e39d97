//! Payment (clause 2.5), and the two transactions that only read: Order-Status (clause 2.6) and Stock-Level (clause 2.8).

use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use super::new_order::other_warehouse;
use super::profile::{unsigned, AmountText, CustomerChoice, Next, Profile, StockLevelQuery, Terminal, TpccConfig};
use super::rows::{between, DISTRICTS};
use super::statements::Id;

/// Most characters of C_DATA.
const DATA_LENGTH: usize = 500;
/// Place of C_CREDIT in the customer's row.
const CREDIT: usize = 9;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum PaymentStep {
    #[default]
    Warehouse,
    WarehouseAddress,
    District,
    DistrictAddress,
    Count,
    ByName,
    Customer,
    Data,
    ChangeBad,
    ChangeGood,
    History,
    Commit,
    End,
}

/// One Payment: its input, how far it is, and what it has read.
#[derive(Debug, Default)]
pub struct Payment {
    warehouse: u32,
    district: u32,
    customer: CustomerChoice,
    cents: i64,
    step: PaymentStep,
    warehouse_name: Vec<u8>,
    district_name: Vec<u8>,
    bad_credit: Option<bool>,
    data: Vec<u8>,
}

impl Payment {
    fn next_step(&self) -> PaymentStep {
        match self.step {
            PaymentStep::Warehouse => PaymentStep::WarehouseAddress,
            PaymentStep::WarehouseAddress => PaymentStep::District,
            PaymentStep::District => PaymentStep::DistrictAddress,
            PaymentStep::DistrictAddress if self.customer.is_by_name() => PaymentStep::Count,
            PaymentStep::DistrictAddress => PaymentStep::Customer,
            PaymentStep::Count => PaymentStep::ByName,
            PaymentStep::ByName => PaymentStep::Customer,
            // Which of the two follows is known once the row is here.
            PaymentStep::Customer => PaymentStep::Data,
            PaymentStep::Data => PaymentStep::ChangeBad,
            PaymentStep::ChangeBad | PaymentStep::ChangeGood => PaymentStep::History,
            PaymentStep::History => PaymentStep::Commit,
            PaymentStep::Commit | PaymentStep::End => PaymentStep::End,
        }
    }

    /// Clause 2.5.2.2: the payment goes in front of C_DATA, what is beyond 500 characters is cut off.
    fn put_payment_in_data(&mut self) {
        let amount = AmountText::of(self.cents);
        let prefix = format!(
            "{} {} {} {} {} {} ",
            self.customer.id().unwrap_or(0),
            self.customer.district,
            self.customer.warehouse,
            self.district,
            self.warehouse,
            String::from_utf8_lossy(amount.bytes())
        );
        self.data.splice(0..0, prefix.into_bytes());
        self.data.truncate(DATA_LENGTH);
    }
}

impl Profile for Payment {
    /// Draws the input (clause 2.5.1): 15 % of the customers are of another warehouse.
    fn begin(&mut self, config: &TpccConfig, terminal: Terminal, stream: &mut RandomStream) {
        let warehouse = terminal.warehouse;
        self.warehouse = warehouse;
        self.district = between(stream, 1, DISTRICTS);
        self.cents = i64::from(between(stream, 100, 500_000));
        let remote = config.warehouses > 1 && between(stream, 1, 100) <= 15;
        let (of_warehouse, of_district) = if remote {
            (
                other_warehouse(config, warehouse, stream),
                between(stream, 1, DISTRICTS),
            )
        } else {
            (warehouse, self.district)
        };
        self.customer.begin(config, of_warehouse, of_district, stream);
        self.restart();
    }

    fn restart(&mut self) {
        self.step = PaymentStep::Warehouse;
        self.customer.restart();
        self.bad_credit = None;
        self.data.clear();
        self.warehouse_name.clear();
        self.district_name.clear();
    }

    fn call<T>(&mut self, send: impl FnOnce(Id, &[Value<'_>]) -> T) -> T {
        let int = |value: u32| Value::Int32(value as i32);
        let amount = AmountText::of(self.cents);
        let values = [
            int(self.warehouse),
            int(self.district),
            int(self.customer.warehouse),
            int(self.customer.district),
            // By name where there is no number.
            int(self.customer.id().unwrap_or(0)),
            Value::Bytes(self.customer.name()),
            Value::Bytes(amount.bytes()),
        ];
        send(Id::CallPayment, &values)
    }

    fn waits(&self) -> bool {
        match self.step {
            PaymentStep::Customer => self.customer.is_by_name(),
            PaymentStep::Data | PaymentStep::ChangeBad | PaymentStep::Commit | PaymentStep::End => true,
            _ => false,
        }
    }

    fn send_next<T>(
        &mut self,
        _outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        let int = |value: u32| Value::Int32(value as i32);
        if self.step == PaymentStep::Data && !self.bad_credit.ok_or("the customer")? {
            self.step = PaymentStep::ChangeGood;
        }
        if self.step == PaymentStep::ChangeBad {
            self.put_payment_in_data();
        }
        let (warehouse, district) = (int(self.warehouse), int(self.district));
        let (of_warehouse, of_district) = (int(self.customer.warehouse), int(self.customer.district));
        let id = || self.customer.id().map(int).ok_or("a customer of that name");
        let amount = AmountText::of(self.cents);
        let amount = Value::Bytes(amount.bytes());
        let name = Value::Bytes(self.customer.name());
        let sent = match self.step {
            PaymentStep::Warehouse => send(Id::PaymentWarehouse, &[amount, warehouse]),
            PaymentStep::WarehouseAddress => send(Id::PaymentWarehouseAddress, &[warehouse]),
            PaymentStep::District => send(Id::PaymentDistrict, &[amount, warehouse, district]),
            PaymentStep::DistrictAddress => send(Id::PaymentDistrictAddress, &[warehouse, district]),
            PaymentStep::Count => send(Id::CountByName, &[of_warehouse, of_district, name]),
            PaymentStep::ByName => send(Id::PaymentByName, &[of_warehouse, of_district, name]),
            PaymentStep::Customer => send(Id::PaymentCustomer, &[of_warehouse, of_district, id()?]),
            PaymentStep::Data => send(Id::PaymentData, &[of_warehouse, of_district, id()?]),
            PaymentStep::ChangeBad => {
                let data = Value::Bytes(&self.data);
                send(
                    Id::PaymentChangeBad,
                    &[amount, amount, data, of_warehouse, of_district, id()?],
                )
            }
            PaymentStep::ChangeGood => send(
                Id::PaymentChangeGood,
                &[amount, amount, of_warehouse, of_district, id()?],
            ),
            PaymentStep::History => {
                let mut data = Vec::with_capacity(24);
                data.extend_from_slice(&self.warehouse_name);
                data.extend_from_slice(b"    ");
                data.extend_from_slice(&self.district_name);
                let data = Value::Bytes(&data);
                send(
                    Id::PaymentHistory,
                    &[of_district, of_warehouse, id()?, district, warehouse, amount, data],
                )
            }
            PaymentStep::Commit => send(Id::Commit, &[]),
            PaymentStep::End => return Ok(Next::End),
        };
        self.step = self.next_step();
        Ok(Next::Sent(sent))
    }

    fn row<'a>(&mut self, id: Id, mut values: impl Iterator<Item = Value<'a>>) {
        let mut text_at = |place: usize| match values.nth(place) {
            Some(Value::Bytes(text)) => text,
            _ => &[],
        };
        match id {
            Id::PaymentWarehouseAddress => self.warehouse_name.extend_from_slice(text_at(5)),
            Id::PaymentDistrictAddress => self.district_name.extend_from_slice(text_at(5)),
            Id::PaymentByName => self.customer.found(values.next().as_ref().and_then(unsigned)),
            Id::PaymentCustomer => self.bad_credit = Some(text_at(CREDIT) == b"BC"),
            Id::PaymentData => self.data.extend_from_slice(text_at(0)),
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum OrderStatusStep {
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
    step: OrderStatusStep,
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
            OrderStatusStep::Count
        } else {
            OrderStatusStep::ById
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
            OrderStatusStep::Order => self.customer.is_by_name(),
            OrderStatusStep::Lines | OrderStatusStep::Commit | OrderStatusStep::End => true,
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
            OrderStatusStep::Count => (
                send(Id::CountByName, &[warehouse, district, name]),
                OrderStatusStep::ByName,
            ),
            OrderStatusStep::ByName => (
                send(Id::StatusByName, &[warehouse, district, name]),
                OrderStatusStep::Order,
            ),
            OrderStatusStep::ById => (
                send(Id::StatusById, &[warehouse, district, id()?]),
                OrderStatusStep::Order,
            ),
            OrderStatusStep::Order => {
                let id = id()?;
                (
                    send(Id::StatusOrder, &[warehouse, district, id, warehouse, district, id]),
                    OrderStatusStep::Lines,
                )
            }
            OrderStatusStep::Lines => {
                let order = self.order.map(int).ok_or("the customer's last order")?;
                (
                    send(Id::StatusLines, &[warehouse, district, order]),
                    OrderStatusStep::Commit,
                )
            }
            OrderStatusStep::Commit => (send(Id::Commit, &[]), OrderStatusStep::End),
            OrderStatusStep::End => return Ok(Next::End),
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

/// Items of twenty orders: 200 on average, 300 at most.
const MOST_ITEMS: usize = 300;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum StockLevelStep {
    #[default]
    District,
    Items,
    Stock,
    Join,
    Commit,
    End,
}

/// One Stock-Level: its input, how far it is, and what it has read.
#[derive(Debug, Default)]
pub struct StockLevel {
    warehouse: u32,
    district: u32,
    threshold: u32,
    join: bool,
    step: StockLevelStep,
    next_order: Option<u32>,
    items: Vec<u32>,
    item: usize,
}

impl Profile for StockLevel {
    /// Draws the input (clause 2.8.1): the district is the terminal's own.
    fn begin(&mut self, config: &TpccConfig, terminal: Terminal, stream: &mut RandomStream) {
        self.warehouse = terminal.warehouse;
        self.district = terminal.district;
        self.threshold = between(stream, 10, 20);
        self.join = config.stock_level == StockLevelQuery::Join;
        self.restart();
    }

    fn restart(&mut self) {
        self.step = StockLevelStep::District;
        self.next_order = None;
        self.items.clear();
        self.item = 0;
    }

    fn call<T>(&mut self, send: impl FnOnce(Id, &[Value<'_>]) -> T) -> T {
        let int = |value: u32| Value::Int32(value as i32);
        let values = [int(self.warehouse), int(self.district), int(self.threshold)];
        send(Id::CallStockLevel, &values)
    }

    fn waits(&self) -> bool {
        match self.step {
            StockLevelStep::Stock => self.item == 0 || self.item == self.items.len(),
            StockLevelStep::District => false,
            _ => true,
        }
    }

    fn send_next<T>(
        &mut self,
        _outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        let int = |value: u32| Value::Int32(value as i32);
        let (warehouse, district) = (int(self.warehouse), int(self.district));
        let next_order = || self.next_order.map(int).ok_or("the district");
        let threshold = int(self.threshold);
        if self.step == StockLevelStep::Stock && self.item == self.items.len() {
            self.step = StockLevelStep::Commit;
        }
        let (sent, next) = match self.step {
            StockLevelStep::District => {
                let next = if self.join {
                    StockLevelStep::Join
                } else {
                    StockLevelStep::Items
                };
                (send(Id::LevelDistrict, &[district, warehouse]), next)
            }
            StockLevelStep::Items => {
                let before = next_order()?;
                self.items.reserve(MOST_ITEMS);
                (
                    send(Id::LevelItems, &[warehouse, district, before, before]),
                    StockLevelStep::Stock,
                )
            }
            StockLevelStep::Stock => {
                let item = int(self.items[self.item]);
                self.item += 1;
                (
                    send(Id::LevelStock, &[warehouse, item, threshold]),
                    StockLevelStep::Stock,
                )
            }
            StockLevelStep::Join => {
                let before = next_order()?;
                let values = [warehouse, district, before, before, warehouse, threshold];
                (send(Id::LevelJoin, &values), StockLevelStep::Commit)
            }
            StockLevelStep::Commit => (send(Id::Commit, &[]), StockLevelStep::End),
            StockLevelStep::End => return Ok(Next::End),
        };
        self.step = next;
        Ok(Next::Sent(sent))
    }

    fn row<'a>(&mut self, id: Id, mut values: impl Iterator<Item = Value<'a>>) {
        match id {
            Id::LevelDistrict => self.next_order = values.next().as_ref().and_then(unsigned),
            Id::LevelItems => self.items.extend(values.next().as_ref().and_then(unsigned)),
            _ => {}
        }
    }
}
