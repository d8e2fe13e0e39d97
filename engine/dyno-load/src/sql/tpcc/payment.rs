//! Payment (clause 2.5).

use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use super::config::{between, TpccConfig, DISTRICTS};
use super::new_order::other_warehouse;
use super::profile::{unsigned, AmountText, CustomerChoice, Next, Profile, Terminal};
use super::statements::Id;

/// Most characters of C_DATA.
const DATA_LENGTH: usize = 500;
/// Place of C_CREDIT in the customer's row.
const CREDIT: usize = 9;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Step {
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
    step: Step,
    warehouse_name: Vec<u8>,
    district_name: Vec<u8>,
    bad_credit: Option<bool>,
    data: Vec<u8>,
}

impl Payment {
    fn next_step(&self) -> Step {
        match self.step {
            Step::Warehouse => Step::WarehouseAddress,
            Step::WarehouseAddress => Step::District,
            Step::District => Step::DistrictAddress,
            Step::DistrictAddress if self.customer.is_by_name() => Step::Count,
            Step::DistrictAddress => Step::Customer,
            Step::Count => Step::ByName,
            Step::ByName => Step::Customer,
            // Which of the two follows is known once the row is here.
            Step::Customer => Step::Data,
            Step::Data => Step::ChangeBad,
            Step::ChangeBad | Step::ChangeGood => Step::History,
            Step::History => Step::Commit,
            Step::Commit | Step::End => Step::End,
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
        self.step = Step::Warehouse;
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
            Step::Customer => self.customer.is_by_name(),
            Step::Data | Step::ChangeBad | Step::Commit | Step::End => true,
            _ => false,
        }
    }

    fn send_next<T>(
        &mut self,
        _outstanding: usize,
        send: impl FnOnce(Id, &[Value<'_>]) -> T,
    ) -> Result<Next<T>, &'static str> {
        let int = |value: u32| Value::Int32(value as i32);
        if self.step == Step::Data && !self.bad_credit.ok_or("the customer")? {
            self.step = Step::ChangeGood;
        }
        if self.step == Step::ChangeBad {
            self.put_payment_in_data();
        }
        let (warehouse, district) = (int(self.warehouse), int(self.district));
        let (of_warehouse, of_district) = (int(self.customer.warehouse), int(self.customer.district));
        let id = || self.customer.id().map(int).ok_or("a customer of that name");
        let amount = AmountText::of(self.cents);
        let amount = Value::Bytes(amount.bytes());
        let name = Value::Bytes(self.customer.name());
        let sent = match self.step {
            Step::Warehouse => send(Id::PaymentWarehouse, &[amount, warehouse]),
            Step::WarehouseAddress => send(Id::PaymentWarehouseAddress, &[warehouse]),
            Step::District => send(Id::PaymentDistrict, &[amount, warehouse, district]),
            Step::DistrictAddress => send(Id::PaymentDistrictAddress, &[warehouse, district]),
            Step::Count => send(Id::CountByName, &[of_warehouse, of_district, name]),
            Step::ByName => send(Id::PaymentByName, &[of_warehouse, of_district, name]),
            Step::Customer => send(Id::PaymentCustomer, &[of_warehouse, of_district, id()?]),
            Step::Data => send(Id::PaymentData, &[of_warehouse, of_district, id()?]),
            Step::ChangeBad => {
                let data = Value::Bytes(&self.data);
                send(
                    Id::PaymentChangeBad,
                    &[amount, amount, data, of_warehouse, of_district, id()?],
                )
            }
            Step::ChangeGood => send(
                Id::PaymentChangeGood,
                &[amount, amount, of_warehouse, of_district, id()?],
            ),
            Step::History => {
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
            Step::Commit => send(Id::Commit, &[]),
            Step::End => return Ok(Next::End),
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
