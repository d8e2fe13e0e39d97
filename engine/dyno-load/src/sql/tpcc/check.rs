//! Is the database consistent, and is every acknowledged order in it?

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use dyno_mysql::blocking::Client;
use dyno_mysql::Options;
use serde::Serialize;

use super::acknowledged::OrderId;
use super::completeness;
use super::conditions::{Condition, CONDITIONS};
use super::random::ITEMS;
use crate::error::Error;
use crate::sql::server::{connect_unbounded, failed};

/// Most warehouses of one question: their sums per customer are a temporary table of some 50 MB.
const WAREHOUSES_PER_QUESTION: u32 = 25;
/// Orders asked for in one statement.
const ORDERS_PER_QUESTION: usize = 1000;

/// One condition's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConditionCheck {
    /// Its number in clause 3.3.2.
    pub number: u32,
    /// What must hold.
    pub text: &'static str,
    /// Rows for which it does not.
    pub violations: u64,
}

/// What became of the orders that a run's server acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Durability {
    /// Acknowledgements of orders, repeated ones included.
    pub acknowledged: u64,
    /// Acknowledged orders that are not in ORDER.
    pub missing: u64,
    /// Acknowledgements of orders that had been acknowledged before.
    pub repeated: u64,
}

/// The whole result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Warehouses that are there.
    pub warehouses: u32,
    /// The twelve conditions.
    pub conditions: Vec<ConditionCheck>,
    /// Acknowledged orders; absent when none were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
}

impl Report {
    /// Whether everything holds.
    pub fn holds(&self) -> bool {
        let durable = self
            .durability
            .is_none_or(|durability| durability.missing + durability.repeated == 0);
        durable && self.warehouses > 0 && self.conditions.iter().all(|condition| condition.violations == 0)
    }
}

/// Checks every warehouse over `threads` connections. Nothing else may write meanwhile.
///
/// # Errors
/// When a table is missing, or the server refuses.
pub fn check(options: &Options, threads: u32, acknowledged: Option<Vec<OrderId>>) -> Result<Report, Error> {
    let mut client = connect_unbounded(options)?;
    let warehouses = count_warehouses(&mut client)?;
    let range = warehouses.div_ceil(threads.max(1)).clamp(1, WAREHOUSES_PER_QUESTION);
    let questions: VecDeque<(usize, String)> = (1..=warehouses)
        .step_by(range as usize)
        .flat_map(|first| {
            let last = (first + range - 1).min(warehouses);
            let question = move |(place, condition): (usize, &Condition)| (place, condition.question(first, last));
            CONDITIONS.iter().enumerate().map(question)
        })
        .collect();
    let questions = Mutex::new(questions);
    let violations = Mutex::new([0u64; CONDITIONS.len()]);
    std::thread::scope(|scope| {
        let work = || -> Result<(), Error> {
            let mut client = connect_unbounded(options)?;
            loop {
                let next = questions.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some((place, question)) = next else { return Ok(()) };
                let count = number(&mut client, &question)?;
                violations.lock().unwrap_or_else(PoisonError::into_inner)[place] += count;
            }
        };
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let panicked = || Err(Error::Output("a checking thread panicked".into()));
        let ends: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| panicked()))
            .collect();
        ends.into_iter().collect::<Result<(), Error>>()
    })?;
    let violations = violations.into_inner().unwrap_or_else(PoisonError::into_inner);
    let conditions = CONDITIONS
        .iter()
        .zip(violations)
        .map(|(condition, violations)| ConditionCheck {
            number: condition.number,
            text: condition.text,
            violations,
        });
    Ok(Report {
        warehouses,
        conditions: conditions.collect(),
        durability: acknowledged.map(|orders| durability(&mut client, orders)).transpose()?,
    })
}

/// Whether tables with at least `wanted` warehouses and all items are there.
///
/// # Errors
/// A sentence on what is there, and how to make it.
pub fn warehouses_for(client: &mut Client, wanted: u32) -> Result<(), Error> {
    let warehouses = count_warehouses(client)?;
    let items = number(client, "SELECT COUNT(*) FROM item")?;
    if warehouses < wanted || items != u64::from(ITEMS) {
        return Err(Error::User(format!(
            "the tables have {warehouses} warehouses and {items} items, {wanted} and {ITEMS} are wanted; run `dynoload tpcc \
             cleanup` and `dynoload tpcc prepare --warehouses {wanted}`, or lower --warehouses"
        )));
    }
    completeness::unfinished(client, wanted)?.map_or(Ok(()), |missing| {
        Err(Error::Server(format!(
            "the tables lack {missing}: their preparation was interrupted; run `dynoload tpcc prepare --warehouses \
             {warehouses} --resume`"
        )))
    })
}

/// Warehouses that are there.
///
/// # Errors
/// When the table is missing, or the server refuses.
pub fn count_warehouses(client: &mut Client) -> Result<u32, Error> {
    Ok(number(client, "SELECT COUNT(*) FROM warehouse")? as u32)
}

fn number(client: &mut Client, question: &str) -> Result<u64, Error> {
    const NO_SUCH_TABLE: u16 = 1146;
    let text = client.query_text(question).map_err(|error| match error.server() {
        Some(server) if server.code == NO_SUCH_TABLE => Error::User(format!(
            "{}; `dynoload tpcc prepare` creates the tables",
            server.message
        )),
        _ => failed(question, &error),
    })?;
    text.as_deref()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Error::Server(format!("\"{question}\" returned {text:?}, not a count")))
}

fn durability(client: &mut Client, mut orders: Vec<OrderId>) -> Result<Durability, Error> {
    let acknowledged = orders.len() as u64;
    orders.sort_unstable();
    orders.dedup();
    let mut result = Durability {
        acknowledged,
        missing: 0,
        repeated: acknowledged - orders.len() as u64,
    };
    let mut by_district: BTreeMap<(u32, u32), Vec<String>> = BTreeMap::new();
    for id in orders {
        by_district
            .entry((id.warehouse, id.district))
            .or_default()
            .push(id.order.to_string());
    }
    for ((warehouse, district), orders) in by_district {
        for part in orders.chunks(ORDERS_PER_QUESTION) {
            let question = format!(
                "SELECT COUNT(*) FROM orders WHERE o_w_id = {warehouse} AND o_d_id = {district} AND o_id IN ({})",
                part.join(",")
            );
            result.missing += (part.len() as u64).saturating_sub(number(client, &question)?);
        }
    }
    Ok(result)
}
