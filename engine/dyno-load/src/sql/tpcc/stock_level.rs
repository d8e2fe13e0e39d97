//! Stock-Level (clause 2.8).

use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use super::config::{between, StockLevelQuery, TpccConfig};
use super::profile::{unsigned, Next, Profile, Terminal};
use super::statements::Id;

/// Items of twenty orders: 200 on average, 300 at most.
const MOST_ITEMS: usize = 300;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Step {
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
    step: Step,
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
        self.step = Step::District;
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
            Step::Stock => self.item == 0 || self.item == self.items.len(),
            Step::District => false,
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
        if self.step == Step::Stock && self.item == self.items.len() {
            self.step = Step::Commit;
        }
        let (sent, next) = match self.step {
            Step::District => {
                let next = if self.join { Step::Join } else { Step::Items };
                (send(Id::LevelDistrict, &[district, warehouse]), next)
            }
            Step::Items => {
                let before = next_order()?;
                self.items.reserve(MOST_ITEMS);
                (
                    send(Id::LevelItems, &[warehouse, district, before, before]),
                    Step::Stock,
                )
            }
            Step::Stock => {
                let item = int(self.items[self.item]);
                self.item += 1;
                (send(Id::LevelStock, &[warehouse, item, threshold]), Step::Stock)
            }
            Step::Join => {
                let before = next_order()?;
                let values = [warehouse, district, before, before, warehouse, threshold];
                (send(Id::LevelJoin, &values), Step::Commit)
            }
            Step::Commit => (send(Id::Commit, &[]), Step::End),
            Step::End => return Ok(Next::End),
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
