//! Multi-row INSERTs with binary parameters: rows gather until one is full.

use dyno_mysql::blocking::Client;
use dyno_mysql::Statement;

use super::batch::Batch;
use super::schema::Table;
use crate::error::Error;
use crate::sql::server::failed;

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
        let (Some(table), count) = (self.table, self.pending) else {
            return Ok(());
        };
        if count == 0 {
            return Ok(());
        }
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
        let known = self
            .statements
            .iter()
            .position(|known| (known.0, known.1) == (table.name, count));
        if let Some(position) = known {
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
