//! Requests for operations: keys and values are made here, and the protocol carries them.

use dyno_kv::{Connection, Detail, Error, Item, Store};

use super::record::Command;
use super::workload::{Operation, Workload};

/// Room to make keys and values in, shared by a worker's connections.
#[derive(Debug, Default)]
pub struct Requests {
    key: Vec<u8>,
    value: Vec<u8>,
    ends: Vec<usize>,
}

impl Requests {
    /// Puts the first command of an operation into the output; true when it is quiet.
    ///
    /// # Errors
    /// When the protocol cannot carry it.
    #[inline]
    pub fn begin(
        &mut self,
        connection: &mut Connection,
        workload: &Workload,
        operation: &Operation,
        number: u64,
    ) -> Result<bool, Error> {
        let detail = if operation.verify {
            Detail::Deliver
        } else {
            Detail::Skip
        };
        self.key.clear();
        match operation.command {
            Command::Get => {
                workload.keys.write(operation.key, &mut self.key);
                connection.get(&self.key, false, detail)?;
            }
            Command::Gets => {
                workload.keys.write(operation.key, &mut self.key);
                connection.get(&self.key, true, Detail::Deliver)?;
            }
            Command::Set => {
                let quiet = workload.quiet_sets;
                self.store(connection, workload, Store::Set, (operation.key, number), quiet)?;
                return Ok(quiet);
            }
            Command::MultiGet => {
                workload.multi_get(number, &mut self.key, &mut self.ends);
                let keys = self.ends.iter().scan(0, |start, end| {
                    let key = &self.key[*start..*end];
                    *start = *end;
                    Some(key)
                });
                connection.multi_get(keys, detail)?;
            }
            Command::Increment => {
                workload.write_counter(operation.key, &mut self.key);
                connection.arithmetic(dyno_kv::Arithmetic::Increment, &self.key, 1, false)?;
            }
            Command::Delete => {
                workload.keys.write(operation.key, &mut self.key);
                connection.delete(&self.key, false)?;
            }
            Command::Cas | Command::Barrier => connection.noop(),
        }
        Ok(false)
    }

    /// Puts a store of the key's value in this version into the output.
    ///
    /// # Errors
    /// When the protocol cannot carry it.
    pub fn store(
        &mut self,
        connection: &mut Connection,
        workload: &Workload,
        store: Store,
        (key, version): (u64, u64),
        quiet: bool,
    ) -> Result<(), Error> {
        self.key.clear();
        workload.keys.write(key, &mut self.key);
        workload.values.write(key, version, &mut self.value);
        let item = Item {
            key: &self.key,
            flags: 0,
            ttl_s: workload.ttl_s,
            value: &self.value,
        };
        connection.store(store, &item, quiet)
    }
}
