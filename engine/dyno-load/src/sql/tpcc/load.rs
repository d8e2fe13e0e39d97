//! Filling the nine tables: several connections inside one warehouse, each on chunks of its own, sorted by key.
//!
//! Rows go as multi-row INSERTs with binary parameters, as in `oltp prepare`. A chunk is one transaction (10,000 items or
//! stocks, or the customers or the orders of one district with all their lines), so that an interrupted load has whole
//! chunks and can be resumed. Rows gather until an INSERT is full.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dyno_mysql::blocking::Client;
use dyno_mysql::{Charset, Options, Statement};

use super::rows::{Rows, CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED, ITEMS};
use super::schema::{self, Batch, Table};
use crate::error::Error;
use crate::sql::server::{connect_unbounded, failed};

/// Items, or stocks, of one transaction.
pub(super) const CHUNK_ITEMS: u32 = 10_000;

/// What is to be made.
#[derive(Debug)]
pub struct Request {
    /// How to log in, without a database.
    pub options: Options,
    /// The database; made when it is missing.
    pub database: String,
    /// Warehouses.
    pub warehouses: u32,
    /// Seed of the rows.
    pub seed: u64,
    /// Threads, each with a connection.
    pub threads: u32,
    /// Whether the standard's foreign keys are made.
    pub foreign_keys: bool,
    /// Whether tables that are there are completed.
    pub resume: bool,
}

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preparation {
    /// Rows that were there already.
    pub rows_found: u64,
    /// Rows loaded.
    pub rows_loaded: u64,
    /// How long it took, with indexes and foreign keys.
    pub elapsed_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Items { first: u32 },
    Stock { warehouse: u32, first: u32 },
    Customers { warehouse: u32, district: u32 },
    Orders { warehouse: u32, district: u32 },
    Warehouse { warehouse: u32 },
}

struct Progress {
    chunks: Mutex<VecDeque<Chunk>>,
    found: AtomicU64,
    loaded: AtomicU64,
}

/// Makes and fills the tables; `say` hears of what is complete.
///
/// # Errors
/// When a table is there already and not to be resumed, has foreign rows, or the server refuses.
pub fn prepare(request: &Request, say: &(dyn Fn(String) + Sync)) -> Result<Preparation, Error> {
    let start_ns = dyno_core::clock::now_ns();
    let mut client = make_database(request)?;
    make_tables(&mut client, request)?;
    let progress = Progress {
        chunks: Mutex::new(plan(request.warehouses)),
        found: AtomicU64::new(0),
        loaded: AtomicU64::new(0),
    };
    in_parallel(request.threads, &|| load(request, &progress))?;
    say(format!(
        "{} rows are loaded; creating indexes",
        progress.found.load(Ordering::Relaxed) + progress.loaded.load(Ordering::Relaxed)
    ));
    complete(request)?;
    Ok(Preparation {
        rows_found: progress.found.into_inner(),
        rows_loaded: progress.loaded.into_inner(),
        elapsed_s: (dyno_core::clock::now_ns() - start_ns) as f64 / 1e9,
    })
}

/// Does `work` in `threads` threads; the first error of any.
fn in_parallel(threads: u32, work: &(dyn Fn() -> Result<(), Error> + Sync)) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let ends: Vec<Result<(), Error>> = threads
            .into_iter()
            .map(|thread| {
                let panicked = || Err(Error::Output("a loading thread panicked".into()));
                thread.join().unwrap_or_else(|_| panicked())
            })
            .collect();
        ends.into_iter().collect()
    })
}

fn connect(request: &Request) -> Result<Client, Error> {
    let mut options = request.options.clone();
    options.database = Some(request.database.clone());
    options.charset = Charset::Binary;
    // Keys are made after their rows and checked then; rows of other tables may come first.
    options
        .init_statements
        .push("SET SESSION foreign_key_checks = 0".into());
    connect_unbounded(&options)
}

fn run(client: &mut Client, sql: &str) -> Result<(), Error> {
    client.exec(sql).map(|_| ()).map_err(|error| failed(sql, &error))
}

fn make_database(request: &Request) -> Result<Client, Error> {
    let mut client = crate::sql::server::connect(&request.options)?;
    crate::sql::server::make_database(&mut client, &request.database)?;
    connect(request)
}

fn make_tables(client: &mut Client, request: &Request) -> Result<(), Error> {
    let existing = schema::existing(client)?;
    if let (Some(name), false) = (existing.first(), request.resume) {
        return Err(Error::User(format!(
            "table {name} is there already in {}; `dynoload tpcc cleanup` drops it, --resume completes an interrupted \
             prepare with the same options",
            request.database
        )));
    }
    for table in schema::TABLES {
        if !existing.contains(&table.name) {
            run(client, &table.create())?;
        }
    }
    Ok(())
}

/// Every chunk, the tables with the most rows first inside a warehouse: the last chunks, that threads wait for, are small.
fn plan(warehouses: u32) -> VecDeque<Chunk> {
    let firsts = || (1..=ITEMS).step_by(CHUNK_ITEMS as usize);
    let mut chunks: VecDeque<Chunk> = VecDeque::new();
    for warehouse in 1..=warehouses {
        chunks.extend((1..=DISTRICTS).map(|district| Chunk::Orders { warehouse, district }));
        chunks.extend((1..=DISTRICTS).map(|district| Chunk::Customers { warehouse, district }));
        chunks.extend(firsts().map(|first| Chunk::Stock { warehouse, first }));
        chunks.push_back(Chunk::Warehouse { warehouse });
    }
    chunks.extend(firsts().map(|first| Chunk::Items { first }));
    chunks
}

fn load(request: &Request, progress: &Progress) -> Result<(), Error> {
    let mut client = connect(request)?;
    let mut inserter = Inserter::default();
    let rows = Rows { seed: request.seed };
    loop {
        let chunk = progress
            .chunks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let Some(chunk) = chunk else { return Ok(()) };
        if request.resume && is_complete(&mut client, rows, chunk)? {
            progress.found.fetch_add(chunk.first_rows(), Ordering::Relaxed);
            continue;
        }
        run(&mut client, "BEGIN")?;
        let loaded = chunk.fill(rows, &mut inserter, &mut client)?;
        run(&mut client, "COMMIT")?;
        progress.loaded.fetch_add(loaded, Ordering::Relaxed);
    }
}

impl Chunk {
    /// Rows of its first table.
    fn first_rows(self) -> u64 {
        match self {
            Self::Items { .. } | Self::Stock { .. } => u64::from(CHUNK_ITEMS),
            Self::Customers { .. } | Self::Orders { .. } => u64::from(CUSTOMERS),
            Self::Warehouse { .. } => 1,
        }
    }

    /// Inserts its rows and counts them.
    fn fill(self, rows: Rows, inserter: &mut Inserter, client: &mut Client) -> Result<u64, Error> {
        let before = inserter.rows();
        match self {
            Self::Items { first } => {
                for item in first..first + CHUNK_ITEMS {
                    inserter.row(client, &schema::ITEM, |batch| rows.item(batch, item))?;
                }
            }
            Self::Stock { warehouse, first } => {
                for item in first..first + CHUNK_ITEMS {
                    inserter.row(client, &schema::STOCK, |batch| rows.stock(batch, warehouse, item))?;
                }
            }
            Self::Customers { warehouse, district } => {
                for customer in 1..=CUSTOMERS {
                    let fill = |batch: &mut Batch| rows.customer(batch, warehouse, district, customer);
                    inserter.row(client, &schema::CUSTOMER, fill)?;
                }
                for customer in 1..=CUSTOMERS {
                    let fill = |batch: &mut Batch| rows.history(batch, warehouse, district, customer);
                    inserter.row(client, &schema::HISTORY, fill)?;
                }
            }
            Self::Orders { warehouse, district } => fill_orders(rows, inserter, client, warehouse, district)?,
            Self::Warehouse { warehouse } => {
                inserter.row(client, &schema::WAREHOUSE, |batch| rows.warehouse(batch, warehouse))?;
                for district in 1..=DISTRICTS {
                    inserter.row(client, &schema::DISTRICT, |batch| {
                        rows.district(batch, warehouse, district)
                    })?;
                }
            }
        }
        inserter.flush(client)?;
        Ok(inserter.rows() - before)
    }

    /// How to find it: its first table, the condition on that, and a column whose text depends on the seed.
    fn question(self) -> (&'static str, String, &'static str) {
        let last = |first: u32| first + CHUNK_ITEMS - 1;
        match self {
            Self::Items { first } => ("item", format!("i_id BETWEEN {first} AND {}", last(first)), "i_data"),
            Self::Stock { warehouse, first } => {
                let last = last(first);
                (
                    "stock",
                    format!("s_w_id = {warehouse} AND s_i_id BETWEEN {first} AND {last}"),
                    "s_data",
                )
            }
            Self::Customers { warehouse, district } => (
                "customer",
                format!("c_w_id = {warehouse} AND c_d_id = {district}"),
                "c_data",
            ),
            Self::Orders { warehouse, district } => (
                "orders",
                format!("o_w_id = {warehouse} AND o_d_id = {district}"),
                "o_c_id",
            ),
            Self::Warehouse { warehouse } => ("warehouse", format!("w_id = {warehouse}"), "w_ytd"),
        }
    }

    /// What that column holds in its first row.
    fn first_text(self, rows: Rows) -> Vec<u8> {
        let mut batch = Batch::default();
        match self {
            Self::Items { first } => rows.item(&mut batch, first),
            Self::Stock { warehouse, first } => rows.stock(&mut batch, warehouse, first),
            Self::Customers { warehouse, district } => rows.customer(&mut batch, warehouse, district, 1),
            Self::Orders { warehouse, district } => {
                return rows.customers_of_orders(warehouse, district)[0]
                    .to_string()
                    .into_bytes()
            }
            Self::Warehouse { warehouse } => rows.warehouse(&mut batch, warehouse),
        }
        batch.last_text().to_vec()
    }
}

fn fill_orders(
    rows: Rows,
    inserter: &mut Inserter,
    client: &mut Client,
    warehouse: u32,
    district: u32,
) -> Result<(), Error> {
    for (order, customer) in (1..).zip(rows.customers_of_orders(warehouse, district)) {
        let fill = |batch: &mut Batch| rows.order(batch, warehouse, district, order, customer);
        inserter.row(client, &schema::ORDERS, fill)?;
    }
    for order in FIRST_UNDELIVERED..=CUSTOMERS {
        inserter.row(client, &schema::NEW_ORDERS, |batch| {
            batch.int(order);
            batch.int(district);
            batch.int(warehouse);
        })?;
    }
    for order in 1..=CUSTOMERS {
        for line in rows.order_lines(warehouse, district, order) {
            inserter.row(client, &schema::ORDER_LINE, |batch| line.put(batch))?;
        }
    }
    Ok(())
}

/// Whether a chunk is there: its first table has all its rows, and the first is of the same seed.
fn is_complete(client: &mut Client, rows: Rows, chunk: Chunk) -> Result<bool, Error> {
    let (table, condition, column) = chunk.question();
    let mut ask = |question: String| client.query_text(&question).map_err(|error| failed(&question, &error));
    let count = ask(format!("SELECT COUNT(*) FROM {table} WHERE {condition}"))?;
    let count: u64 = count.and_then(|text| text.parse().ok()).unwrap_or(0);
    if count == 0 {
        return Ok(false);
    }
    let order = if table == "warehouse" {
        ""
    } else {
        " ORDER BY 1 LIMIT 1"
    };
    let key = match table {
        "item" => "i_id",
        "stock" => "s_i_id",
        "customer" => "c_id",
        "orders" => "o_id",
        _ => "w_id",
    };
    let question = format!("SELECT {key}, {column} FROM {table} WHERE {condition}{order}");
    let answer = client.query(&question).map_err(|error| failed(&question, &error))?;
    let text = answer
        .rows
        .first()
        .and_then(|row| row.get(1)?.clone())
        .unwrap_or_default();
    if count != chunk.first_rows() || text != chunk.first_text(rows) {
        return Err(Error::User(format!(
            "table {table} has {count} rows with {condition} that are not the initial population of seed {}: it is of \
             another --seed, or a run has changed it; `dynoload tpcc cleanup` drops it",
            rows.seed
        )));
    }
    Ok(true)
}

/// Makes indexes and foreign keys, those of different tables at the same time.
fn complete(request: &Request) -> Result<(), Error> {
    let (keys, indexes): (Vec<_>, Vec<_>) = schema::completion(request.foreign_keys)
        .into_iter()
        .partition(|(_, _, sql)| sql.starts_with("ALTER"));
    let steps = Mutex::new(indexes);
    in_parallel(request.threads.min(2), &|| {
        let mut client = connect(request)?;
        loop {
            let step = steps.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((table, name, sql)) = step else { return Ok(()) };
            if !(request.resume && schema::is_done(&mut client, table, name, false)?) {
                run(&mut client, &sql)?;
            }
        }
    })?;
    let mut client = connect(request)?;
    for (table, name, sql) in keys {
        if !(request.resume && schema::is_done(&mut client, table, name, true)?) {
            run(&mut client, &sql)?;
        }
    }
    Ok(())
}

/// Rows on their way, and the prepared INSERTs of one connection.
#[derive(Debug, Default)]
pub struct Inserter {
    /// Table, rows, statement.
    statements: Vec<(&'static str, usize, Statement)>,
    batch: Batch,
    table: Option<Table>,
    pending: usize,
    rows: u64,
}

impl Inserter {
    /// Rows sent so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes one row; sends what has gathered when it is enough, or of another table.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn row(&mut self, client: &mut Client, table: &Table, fill: impl FnOnce(&mut Batch)) -> Result<(), Error> {
        let other = self.table.is_some_and(|known| known.name != table.name);
        if other || self.pending == table.rows_per_insert {
            self.flush(client)?;
        }
        self.table = Some(*table);
        fill(&mut self.batch);
        self.pending += 1;
        Ok(())
    }

    /// Sends what has gathered.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn flush(&mut self, client: &mut Client) -> Result<(), Error> {
        let count = self.pending;
        let Some(table) = self.table.filter(|_| count > 0) else {
            return Ok(());
        };
        let position = self.statement(client, &table, count)?;
        let values = self.batch.values();
        client
            .execute(&mut self.statements[position].2, &values, |_| ())
            .map_err(|error| failed(&format!("INSERT INTO {}, {count} rows", table.name), &error))?;
        self.batch.clear();
        self.pending = 0;
        self.rows += count as u64;
        Ok(())
    }

    /// The place of the prepared INSERT of `count` rows.
    fn statement(&mut self, client: &mut Client, table: &Table, count: usize) -> Result<usize, Error> {
        let mut known = self.statements.iter();
        if let Some(position) = known.position(|known| (known.0, known.1) == (table.name, count)) {
            return Ok(position);
        }
        // Lines of a district make a rest of another length each time: only whole statements are worth keeping.
        let rest = |known: &(&str, usize, Statement)| known.0 == table.name && known.1 != table.rows_per_insert;
        if let Some(stale) = self.statements.iter().position(rest) {
            let (_, _, statement) = self.statements.swap_remove(stale);
            client
                .close(statement)
                .map_err(|error| failed("closing a statement", &error))?;
        }
        let prepared = client
            .prepare(&table.insert(count))
            .map_err(|error| failed("preparing an INSERT", &error))?;
        self.statements.push((table.name, count, prepared));
        Ok(self.statements.len() - 1)
    }
}
