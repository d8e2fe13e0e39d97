//! Requests for operations, these operations in flight on a connection, and what their replies count.

use dyno_core::queue::Queue;
use dyno_kv::{Connection, Detail, Done, Error, Item, Status, Store};
use dyno_loop::{Operation, Tally};

use super::record::{Command, KvCounts, KvRecord};
use super::Workload;
use crate::kv;

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
pub struct Flight {
    /// The operation.
    pub operation: Operation,
    /// The number of its key.
    pub key: u64,
    /// When the current command was sent.
    pub sent_ns: u64,
    /// The cas value that gets found.
    pub cas: u64,
    /// The current command.
    pub command: Command,
    /// Whether the command has no reply of its own: the next reply on the connection ends it.
    pub quiet: bool,
    /// Whether values found are compared with what their key makes.
    pub verify: bool,
}

impl Flight {
    /// A command without an operation whose reply ends the quiet ones before it; it has the number of the last of them.
    pub fn barrier(number: u64, now_ns: u64) -> Self {
        Self {
            operation: Operation {
                number,
                intended_ns: now_ns,
                started_ns: now_ns,
                measured: false,
            },
            key: 0,
            sent_ns: now_ns,
            cas: 0,
            command: Command::Barrier,
            quiet: false,
            verify: false,
        }
    }
}

/// Compares a value that was found with what its key makes, and keeps its cas value.
pub fn value_found(
    flights: &mut Queue<Flight>,
    workload: &Workload,
    counts: &mut KvCounts,
    (key, cas, data): (&[u8], Option<u64>, &[u8]),
) {
    let Some(flight) = flights.iter_mut().find(|flight| !flight.quiet) else {
        return;
    };
    flight.cas = cas.unwrap_or(0);
    if !flight.verify {
        return;
    }
    let number = match flight.command {
        Command::MultiGet => workload.keys.number(key),
        _ => Some(flight.key),
    };
    counts.verified += 1;
    if !number.is_some_and(|number| workload.values.is_right(number, data)) {
        counts.wrong_values += 1;
    }
}

/// Counts one command with its reply.
#[inline]
pub fn count(tally: &mut Tally<KvRecord>, workload: &Workload, flight: &Flight, now: u64, done: &Done) {
    let recorder = tally.recorder();
    let counts = &mut recorder.extra.counts;
    let success = done.status == Status::Success;
    match flight.command {
        Command::Get | Command::MultiGet | Command::Gets => {
            counts.cmd_get += u64::from(done.keys);
            counts.get_hits += u64::from(done.hits);
            counts.get_misses += u64::from(done.keys - done.hits);
            recorder.counts.reads += 1;
            recorder.counts.rows += u64::from(done.hits);
        }
        Command::Set => {
            counts.cmd_set += 1;
            counts.not_stored += u64::from(!success);
            if success {
                workload.keys.stored();
            }
            counts.object_bytes += workload.object_bytes(flight.key);
            recorder.counts.writes += 1;
        }
        Command::Cas => {
            counts.cmd_set += 1;
            counts.cas += 1;
            counts.cas_changed += u64::from(done.status == Status::Exists);
            counts.cas_missing += u64::from(done.status == Status::NotFound);
            counts.not_stored += u64::from(done.status == Status::NotStored);
            recorder.counts.writes += 1;
        }
        Command::Increment => {
            let missing = done.status == Status::NotFound;
            counts.incr_misses += u64::from(missing);
            counts.incr_hits += u64::from(!missing);
            recorder.counts.writes += 1;
        }
        Command::Delete => {
            counts.delete_hits += u64::from(success);
            counts.delete_misses += u64::from(!success);
            recorder.counts.writes += 1;
        }
        Command::Barrier => return,
    }
    let service_ns = now.saturating_sub(flight.sent_ns);
    recorder.extra.command(flight.command, service_ns);
    tally.statement_ended(now, service_ns);
}

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
        operation: &kv::Operation,
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
