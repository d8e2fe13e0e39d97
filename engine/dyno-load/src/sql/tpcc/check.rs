//! Is the database consistent, and is every acknowledged order in it?
//!
//! The consistency conditions of TPC-C 5.11, clauses 3.3.2.1 to 3.3.2.12, are questions that count their violations. A
//! question is for a range of warehouses: HISTORY has no index on them, and is read once for each range.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use dyno_mysql::blocking::Client;
use dyno_mysql::Options;
use serde::Serialize;

use super::load::CHUNK_ITEMS;
use super::rows::{DISTRICTS, ITEMS};
use super::schema;
use crate::error::Error;
use crate::sql::server::{connect_unbounded, failed};

/// One condition. `sql` counts violations in a range of warehouses, `{w}`, so that ranges can be checked side by side.
#[derive(Debug, Clone, Copy)]
pub struct Condition {
    /// Its number in clause 3.3.2.
    pub number: u32,
    /// What must hold.
    pub text: &'static str,
    /// SELECT of one count.
    pub sql: &'static str,
}

/// All twelve.
///
/// Condition 11 of the standard is for the initial population only (2,100 orders of each district are delivered); here
/// the deliveries since then are added, which its customers' C_DELIVERY_CNT tell. So it holds at any time, and fails when
/// an order is delivered twice.
pub const CONDITIONS: [Condition; 12] = [
    Condition {
        number: 1,
        text: "W_YTD = sum(D_YTD)",
        sql: "SELECT COUNT(*) FROM warehouse WHERE w_id {w} AND NOT (w_ytd <=> (SELECT SUM(d_ytd) FROM district WHERE \
              d_w_id = w_id))",
    },
    Condition {
        number: 2,
        text: "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        sql: "SELECT COUNT(*) FROM district WHERE d_w_id {w} AND (NOT (d_next_o_id - 1 <=> (SELECT MAX(o_id) FROM \
              orders WHERE o_w_id = d_w_id AND o_d_id = d_id)) OR d_next_o_id - 1 <> (SELECT MAX(no_o_id) FROM \
              new_orders WHERE no_w_id = d_w_id AND no_d_id = d_id))",
    },
    Condition {
        number: 3,
        text: "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER",
        sql: "SELECT COUNT(*) FROM (SELECT MAX(no_o_id) - MIN(no_o_id) + 1 AS span, COUNT(*) AS present FROM new_orders \
              WHERE no_w_id {w} GROUP BY no_w_id, no_d_id) AS t WHERE span <> present",
    },
    Condition {
        number: 4,
        text: "sum(O_OL_CNT) = rows of ORDER-LINE",
        sql: "SELECT COUNT(*) FROM (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS said FROM orders WHERE o_w_id {w} GROUP BY \
              o_w_id, o_d_id) AS o LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS present FROM order_line WHERE ol_w_id \
              {w} GROUP BY ol_w_id, ol_d_id) AS l ON o_w_id = ol_w_id AND o_d_id = ol_d_id WHERE NOT (said <=> present)",
    },
    Condition {
        number: 5,
        text: "O_CARRIER_ID is null if and only if the order is in NEW-ORDER",
        sql: "SELECT COUNT(*) + (SELECT COUNT(*) FROM new_orders LEFT JOIN orders ON o_w_id = no_w_id AND o_d_id = no_d_id \
              AND o_id = no_o_id WHERE no_w_id {w} AND o_id IS NULL) FROM orders LEFT JOIN new_orders ON no_w_id = \
              o_w_id AND no_d_id = o_d_id AND no_o_id = o_id WHERE o_w_id {w} AND (o_carrier_id IS NULL) <> (no_o_id IS \
              NOT NULL)",
    },
    Condition {
        number: 6,
        text: "O_OL_CNT = rows of ORDER-LINE of the order",
        sql: "SELECT COUNT(*) FROM orders LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS present FROM order_line \
              WHERE ol_w_id {w} GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND \
              ol_o_id = o_id WHERE o_w_id {w} AND \
              NOT (o_ol_cnt <=> present)",
    },
    Condition {
        number: 7,
        text: "OL_DELIVERY_D is null if and only if O_CARRIER_ID is",
        sql: "SELECT COUNT(*) FROM order_line LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
              WHERE ol_w_id {w} AND (o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL))",
    },
    Condition {
        number: 8,
        text: "W_YTD = sum(H_AMOUNT)",
        sql: "SELECT COUNT(*) FROM warehouse LEFT JOIN (SELECT h_w_id, SUM(h_amount) AS paid FROM history WHERE h_w_id {w} \
              GROUP BY h_w_id) AS h ON h_w_id = w_id WHERE w_id {w} AND NOT (w_ytd <=> paid)",
    },
    Condition {
        number: 9,
        text: "D_YTD = sum(H_AMOUNT)",
        sql: "SELECT COUNT(*) FROM district LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS paid FROM history WHERE \
              h_w_id {w} GROUP BY h_w_id, h_d_id) AS h ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_w_id {w} AND NOT (d_ytd <=> paid)",
    },
    Condition {
        number: 10,
        text: "C_BALANCE = sum(delivered OL_AMOUNT) - sum(H_AMOUNT)",
        sql: "SELECT COUNT(*) FROM customer LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS owed FROM orders \
              JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id {w} AND \
              ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS l ON o_w_id = c_w_id AND o_d_id = c_d_id AND \
              o_c_id = c_id LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history WHERE \
              h_c_w_id {w} GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND \
              h_c_id = c_id WHERE c_w_id {w} AND c_balance <> COALESCE(owed, 0) - COALESCE(paid, 0)",
    },
    Condition {
        number: 11,
        text: "rows of ORDER - rows of NEW-ORDER = 2100 + deliveries since the load",
        sql: "SELECT COUNT(*) FROM district LEFT JOIN (SELECT o_w_id, o_d_id, COUNT(*) AS orders FROM orders WHERE o_w_id \
              {w} GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id LEFT JOIN (SELECT no_w_id, no_d_id, \
              COUNT(*) AS waiting FROM new_orders WHERE no_w_id {w} GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id \
              AND no_d_id = d_id LEFT JOIN (SELECT c_w_id, c_d_id, SUM(c_delivery_cnt) AS delivered FROM customer WHERE \
              c_w_id {w} GROUP BY c_w_id, c_d_id) AS c ON c_w_id = d_w_id AND c_d_id = d_id WHERE d_w_id {w} AND NOT \
              (orders - COALESCE(waiting, 0) <=> 2100 + delivered)",
    },
    Condition {
        number: 12,
        text: "C_BALANCE + C_YTD_PAYMENT = sum(delivered OL_AMOUNT)",
        sql: "SELECT COUNT(*) FROM customer LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS owed FROM orders \
              JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_w_id {w} AND \
              ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS l ON o_w_id = c_w_id AND o_d_id = c_d_id AND \
              o_c_id = c_id WHERE c_w_id {w} AND \
              c_balance + c_ytd_payment <> COALESCE(owed, 0)",
    },
];

impl Condition {
    /// The question for the warehouses `first` to `last`.
    pub fn question(&self, first: u32, last: u32) -> String {
        self.sql.replace("{w}", &format!("BETWEEN {first} AND {last}"))
    }
}

/// What an interrupted preparation has left out of warehouses 1 to `warehouses`, in words. A run removes no row of these
/// tables, and a chunk is one transaction: its first row stands for it.
///
/// # Errors
/// When the server refuses.
pub fn unfinished(client: &mut Client, warehouses: u32) -> Result<Option<String>, Error> {
    for (table, name, _) in schema::completion(false) {
        if !schema::is_done(client, table, name, false)? {
            return Ok(Some(format!("the index {name} of {table}")));
        }
    }
    let list =
        |numbers: &mut dyn Iterator<Item = u32>| numbers.map(|one| one.to_string()).collect::<Vec<_>>().join(",");
    let districts = list(&mut (1..=DISTRICTS));
    let firsts = list(&mut (1..=ITEMS).step_by(CHUNK_ITEMS as usize));
    for warehouse in 1..=warehouses {
        for (table, condition, chunks) in [
            (
                "customer",
                format!("c_w_id = {warehouse} AND c_d_id IN ({districts}) AND c_id = 1"),
                DISTRICTS,
            ),
            (
                "orders",
                format!("o_w_id = {warehouse} AND o_d_id IN ({districts}) AND o_id = 1"),
                DISTRICTS,
            ),
            (
                "stock",
                format!("s_w_id = {warehouse} AND s_i_id IN ({firsts})"),
                ITEMS / CHUNK_ITEMS,
            ),
        ] {
            let question = format!("SELECT COUNT(*) FROM {table} WHERE {condition}");
            let count = client
                .query_text(&question)
                .map_err(|error| failed(&question, &error))?;
            if count.as_deref() != Some(&*chunks.to_string()) {
                return Ok(Some(format!("rows of {table} in warehouse {warehouse}")));
            }
        }
    }
    Ok(None)
}

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
    unfinished(client, wanted)?.map_or(Ok(()), |missing| {
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

// Orders that the server has acknowledged, in a file: after a crash every one of them must be there.
//
// A line an order, `warehouse district order`. Each worker appends whole lines to the same file, a block at a time and at
// the end of every interval: the file survives a crash of the server, not one of this program's machine. Costs about
// 50 ns an order.

/// Lines are written out in blocks of this size.
const BLOCK_BYTES: usize = 64 * 1024;

/// The key of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderId {
    /// O_W_ID.
    pub warehouse: u32,
    /// O_D_ID.
    pub district: u32,
    /// O_ID.
    pub order: u32,
}

/// One worker's way into the file.
#[derive(Debug)]
pub struct Acknowledgements {
    file: File,
    block: Vec<u8>,
}

impl Acknowledgements {
    /// Opens the file to append to it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self {
            file,
            block: Vec::with_capacity(BLOCK_BYTES + 64),
        })
    }

    /// Notes one order.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note(&mut self, id: OrderId) -> io::Result<()> {
        writeln!(self.block, "{} {} {}", id.warehouse, id.district, id.order)?;
        if self.block.len() >= BLOCK_BYTES {
            return self.flush();
        }
        Ok(())
    }

    /// Writes out what is noted.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

/// Reads the file back.
///
/// # Errors
/// When it cannot be read, or a line is not three numbers.
pub fn read(path: &Path) -> Result<Vec<OrderId>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::User(format!("--acknowledged '{}' cannot be read: {error}", path.display())))?;
    let order = |(number, line): (usize, &str)| {
        let mut parts = line.split(' ').map(str::parse);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(warehouse)), Some(Ok(district)), Some(Ok(order)), None) => Ok(OrderId {
                warehouse,
                district,
                order,
            }),
            _ => Err(Error::User(format!(
                "--acknowledged '{}', line {}: '{line}' is not `warehouse district order`",
                path.display(),
                number + 1
            ))),
        }
    };
    text.lines().enumerate().map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_stand_under_their_numbers_and_ask_for_a_range_of_warehouses() {
        for (condition, number) in CONDITIONS.iter().zip(1..) {
            assert_eq!(condition.number, number);
            let question = condition.question(7, 9);
            assert!(
                question.contains("_id BETWEEN 7 AND 9") && !question.contains('{'),
                "{question}"
            );
        }
    }
}
