//! The tables: made from the options, filled from the row's number, checked, dropped.

mod cleanup;
pub mod rows;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dyno_mysql::blocking::Client;
use dyno_mysql::{Charset, Options, Statement, Value};

pub use cleanup::{cleanup, drop_tables, Prepared};
pub use rows::{verify, Row, RowSource, TableCheck};

use super::oltp::TableOptions;
use super::server::{connect_unbounded, failed};
use crate::error::Error;

// Filling the tables: several threads inside one table, each on a stretch of ids of its own.
//
// Rows go as multi-row INSERTs with binary parameters under character set binary, which the server neither parses nor
// converts: on MariaDB 10.11 that costs it 2.0 µs a row, against 4.7 for the same rows as SQL text and 2.9 by LOAD DATA.
// A chunk of rows is one transaction, so that an interrupted load has whole chunks and can be resumed.

/// Rows of one transaction.
const CHUNK_ROWS: u32 = 10_000;
/// Rows of one INSERT: about 100 KB, below every server's max_allowed_packet.
const STATEMENT_ROWS: u32 = 500;

/// What is to be made.
#[derive(Debug)]
pub struct Request {
    /// How to log in, without a database.
    pub options: Options,
    /// The database; made when it is missing.
    pub database: String,
    /// The tables.
    pub oltp: TableOptions,
    /// Their rows.
    pub rows: RowSource,
    /// Whether the tables stay empty.
    pub empty: bool,
    /// Threads, each with a connection.
    pub threads: u32,
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
    /// How long it took, with indexes.
    pub elapsed_s: f64,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    table: u32,
    first: u32,
    last: u32,
}

struct Progress {
    /// Each thread's own stretch; one that is done helps the others.
    queues: Vec<Mutex<VecDeque<Chunk>>>,
    /// Chunks that each table still lacks.
    left: Vec<AtomicU32>,
    found: AtomicU64,
    loaded: AtomicU64,
}

/// Makes and fills the tables; `say` hears of each table that is complete.
///
/// # Errors
/// When a table is there already and not to be resumed, has foreign rows, or the server refuses.
pub fn prepare(request: &Request, say: &(dyn Fn(String) + Sync)) -> Result<Preparation, Error> {
    let start_ns = dyno_core::clock::now_ns();
    let mut client = make_database(request)?;
    make_tables(&mut client, request)?;
    let progress = plan(request);
    std::thread::scope(|scope| {
        let work = |thread: usize| {
            let progress = &progress;
            move || load(request, progress, thread, say)
        };
        let threads: Vec<_> = (0..progress.queues.len())
            .map(|thread| scope.spawn(work(thread)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::Output("a loading thread panicked".into())))
            })
            .collect::<Result<Vec<()>, Error>>()
    })?;
    Ok(Preparation {
        rows_found: progress.found.into_inner(),
        rows_loaded: progress.loaded.into_inner(),
        elapsed_s: (dyno_core::clock::now_ns() - start_ns) as f64 / 1e9,
    })
}

fn connect(request: &Request) -> Result<Client, Error> {
    let mut options = request.options.clone();
    options.database = Some(request.database.clone());
    options.charset = Charset::Binary;
    connect_unbounded(&options)
}

fn make_database(request: &Request) -> Result<Client, Error> {
    let mut client = crate::sql::server::connect(&request.options)?;
    crate::sql::server::make_database(&mut client, &request.database)?;
    connect(request)
}

/// Creates the tables that are not there, if nothing else has the name of one.
fn make_tables(client: &mut Client, request: &Request) -> Result<(), Error> {
    let mut missing = Vec::new();
    for table in 1..=request.oltp.tables {
        match Prepared::sbtest(table).is_there(client)? {
            false => missing.push(table),
            true if request.resume => {}
            true => {
                return Err(Error::User(format!(
                    "table sbtest{table} is there already; `dynoload oltp cleanup` drops it, --resume completes an \
                     interrupted prepare with the same options"
                )))
            }
        }
    }
    for table in missing {
        let sql = rows::create_table(&request.oltp, table);
        client.exec(&sql).map_err(|error| failed(&sql, &error))?;
    }
    Ok(())
}

/// Chunks of all tables; each thread gets a stretch and works from its high end down. A table's highest ids come first, so
/// that later rows do not raise its AUTO_INCREMENT counter: InnoDB writes each new value to the index's root page, which
/// every other thread passes.
fn plan(request: &Request) -> Progress {
    let oltp = &request.oltp;
    let size = if request.empty { 0 } else { oltp.table_size };
    let mut chunks = Vec::new();
    let mut left = Vec::new();
    for table in 1..=oltp.tables {
        let before = chunks.len();
        let firsts = (1..=size).step_by(CHUNK_ROWS as usize);
        chunks.extend(firsts.map(|first| Chunk {
            table,
            first,
            last: (first - 1 + CHUNK_ROWS).min(size),
        }));
        if chunks.len() == before {
            // An empty table still wants its index.
            chunks.push(Chunk {
                table,
                first: 1,
                last: 0,
            });
        }
        left.push(AtomicU32::new((chunks.len() - before) as u32));
    }
    let threads = (request.threads as usize).clamp(1, chunks.len());
    let stretch = chunks.len().div_ceil(threads);
    let queues = chunks
        .chunks(stretch)
        .map(|part| Mutex::new(part.iter().copied().collect()))
        .collect();
    Progress {
        queues,
        left,
        found: AtomicU64::new(0),
        loaded: AtomicU64::new(0),
    }
}

impl Progress {
    /// The next chunk of a thread's own stretch, the highest ids first, else the first of the longest other one.
    fn next(&self, thread: usize) -> Option<Chunk> {
        let lock = |queue: &'_ Mutex<VecDeque<Chunk>>, own: bool| {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            if own {
                queue.pop_back()
            } else {
                queue.pop_front()
            }
        };
        lock(&self.queues[thread], true).or_else(|| {
            let length = |queue: &&Mutex<VecDeque<Chunk>>| queue.lock().map_or(0, |queue| queue.len());
            let longest = self.queues.iter().max_by_key(length)?;
            lock(longest, false)
        })
    }
}

fn load(request: &Request, progress: &Progress, thread: usize, say: &(dyn Fn(String) + Sync)) -> Result<(), Error> {
    let mut client = connect(request)?;
    let mut inserter = Inserter::default();
    while let Some(chunk) = progress.next(thread) {
        let rows = u64::from(chunk.last + 1 - chunk.first);
        if rows > 0 {
            if request.resume && is_complete(&mut client, request, chunk)? {
                progress.found.fetch_add(rows, Ordering::Relaxed);
            } else {
                inserter.load(&mut client, request, chunk)?;
                progress.loaded.fetch_add(rows, Ordering::Relaxed);
            }
        }
        if progress.left[chunk.table as usize - 1].fetch_sub(1, Ordering::AcqRel) == 1 {
            finish_table(&mut client, request, chunk.table)?;
            say(format!("table sbtest{} is complete", chunk.table));
        }
    }
    Ok(())
}

fn finish_table(client: &mut Client, request: &Request, table: u32) -> Result<(), Error> {
    if !request.oltp.create_secondary || (request.resume && rows::has_index(client, table)?) {
        return Ok(());
    }
    let sql = rows::create_index(table);
    client.exec(&sql).map(|_| ()).map_err(|error| failed(&sql, &error))
}

/// Whether a chunk is there; its first row tells whether it is of the same seed.
fn is_complete(client: &mut Client, request: &Request, chunk: Chunk) -> Result<bool, Error> {
    let Chunk { table, first, last } = chunk;
    let question = format!("SELECT COUNT(*) FROM sbtest{table} WHERE id BETWEEN {first} AND {last}");
    let count = client
        .query_text(&question)
        .map_err(|error| failed(&question, &error))?;
    let count: u32 = count.and_then(|text| text.parse().ok()).unwrap_or(0);
    if count == 0 {
        return Ok(false);
    }
    let question = format!("SELECT c FROM sbtest{table} WHERE id = {first}");
    let c = client
        .query_text(&question)
        .map_err(|error| failed(&question, &error))?
        .unwrap_or_default();
    if count != last + 1 - first || c.as_bytes() != request.rows.row(table, first).c {
        return Err(Error::User(format!(
            "table sbtest{table} has {count} rows with ids {first} to {last} that are not those of this --seed and \
             --rand-type, or a workload has changed them; `dynoload oltp cleanup` drops it"
        )));
    }
    Ok(true)
}

/// Preparation INSERTs of one connection, and room for the rows of one.
#[derive(Default)]
struct Inserter {
    /// Table, rows, statement: the last one used of each length.
    statements: Vec<(u32, u32, Statement)>,
    rows: Vec<Row>,
}

impl Inserter {
    fn load(&mut self, client: &mut Client, request: &Request, chunk: Chunk) -> Result<(), Error> {
        let run = |client: &mut Client, sql: &str| client.exec(sql).map(|_| ()).map_err(|error| failed(sql, &error));
        run(client, "BEGIN")?;
        let mut first = chunk.first;
        while first <= chunk.last {
            let count = STATEMENT_ROWS.min(chunk.last + 1 - first);
            self.insert(client, request, chunk.table, first, count)?;
            first += count;
        }
        run(client, "COMMIT")
    }

    fn insert(
        &mut self,
        client: &mut Client,
        request: &Request,
        table: u32,
        first: u32,
        count: u32,
    ) -> Result<(), Error> {
        let position = self.statement(client, table, count)?;
        self.rows.resize(STATEMENT_ROWS as usize, Row::empty());
        let rows = &mut self.rows[..count as usize];
        for (row, id) in rows.iter_mut().zip(first..) {
            request.rows.fill(row, table, id);
        }
        let values: Vec<Value<'_>> = rows
            .iter()
            .flat_map(|row| {
                [
                    Value::Int32(row.id as i32),
                    Value::Int32(row.k as i32),
                    Value::Bytes(&row.c),
                    Value::Bytes(&row.pad),
                ]
            })
            .collect();
        let describe =
            |error: dyno_mysql::Error| failed(&format!("INSERT INTO sbtest{table}, ids from {first}"), &error);
        client
            .execute(&mut self.statements[position].2, &values, |_| ())
            .map(|_| ())
            .map_err(describe)
    }

    /// The place of the prepared INSERT of `count` rows into `table`.
    fn statement(&mut self, client: &mut Client, table: u32, count: u32) -> Result<usize, Error> {
        if let Some(found) = self
            .statements
            .iter()
            .position(|known| (known.0, known.1) == (table, count))
        {
            return Ok(found);
        }
        if let Some(stale) = self.statements.iter().position(|known| known.0 != table) {
            let (_, _, statement) = self.statements.swap_remove(stale);
            client
                .close(statement)
                .map_err(|error| failed("closing a statement", &error))?;
        }
        let rows = vec!["(?,?,?,?)"; count as usize].join(",");
        let sql = format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES {rows}");
        let prepared = client
            .prepare(&sql)
            .map_err(|error| failed("preparing an INSERT", &error))?;
        self.statements.push((table, count, prepared));
        Ok(self.statements.len() - 1)
    }
}
