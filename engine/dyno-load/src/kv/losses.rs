//! The worker's part for what goes wrong: commands that the server refuses, connections that are lost.

use dyno_core::clock::now_ns;
use dyno_kv::ServerError;

use super::client::Loss;
use super::operations::RECONNECT_PAUSE_NS;
use super::record::Command;
use super::worker::Worker;
use crate::recorder::client_code;
use crate::run::Failure;

/// The binary protocol's statuses stand for the words of text and meta in the counts of errors.
const UNKNOWN_COMMAND: u16 = 0x81;
const INVALID_ARGUMENTS: u16 = 0x04;
const OUT_OF_MEMORY: u16 = 0x82;
const INTERNAL_ERROR: u16 = 0x84;

impl Worker {
    /// The server refused a command: that costs the operation when the error is to be ignored, else the run.
    #[cold]
    pub(super) fn refused(&mut self, index: usize, now: u64, error: &ServerError) -> Result<(), Failure> {
        let code = code_of(error);
        let recorder = &mut self.intervals.recorder;
        recorder.errors.record(code, &error.message);
        let Some(flight) = self.take_flight(index, now) else {
            return Ok(());
        };
        let recorder = &mut self.intervals.recorder;
        if !self.settings.ignored_errors.contains(code) {
            recorder.counts.errors += 1;
            self.end.unfinished += u64::from(flight.measured);
            return Err(Failure::with_code(
                code,
                format!(
                    "{} (command {}); --ignore-errors {code} would go on with the next operation",
                    error.message,
                    flight.command.name()
                ),
            ));
        }
        recorder.counts.ignored_errors += 1;
        self.in_flight -= 1;
        self.end.unfinished += u64::from(flight.measured);
        self.clients[index].idle_since_ns = now;
        self.place_is_free(index, now)
    }

    /// A connection is gone: it is made again when losses are to be ignored, else the run ends.
    #[cold]
    pub(super) fn lost(&mut self, index: usize, loss: &Loss) -> Result<(), Failure> {
        let (code, message) = loss.describe();
        let boundary_ns = self.intervals.boundary_ns;
        let recorder = &mut self.intervals.recorder;
        recorder.errors.record(code, &message);
        let started = boundary_ns != u64::MAX;
        let ignored = self.settings.ignored_errors.contains(code)
            || (code == client_code::CONNECTION && self.settings.ignored_errors.contains(client_code::SERVER_LOST));
        if !started || !ignored {
            recorder.counts.errors += 1;
            let hint = if started {
                "; --ignore-errors 2003,2013 would connect again"
            } else {
                ""
            };
            return Err(Failure::with_code(
                code,
                format!(
                    "connection {} to {}: {message}{hint}",
                    self.clients[index].number, self.settings.endpoint
                ),
            ));
        }
        let client = &mut self.clients[index];
        let under_way = client
            .flights
            .iter()
            .filter(|flight| flight.command != Command::Barrier);
        recorder.kv.counts.lost += under_way.clone().count() as u64;
        self.end.unfinished += under_way.filter(|flight| flight.measured).count() as u64;
        recorder.counts.ignored_errors += 1;
        self.in_flight -= client.flights.len() as u64;
        client.flights.clear();
        client.close();
        self.idle.retain(|idle| *idle != index as u32);
        self.timers
            .retain(|std::cmp::Reverse((_, waiting))| *waiting != index as u32);
        self.timers
            .push(std::cmp::Reverse((now_ns() + RECONNECT_PAUSE_NS, index as u32)));
        Ok(())
    }
}

/// The number under which a refusal is counted.
fn code_of(error: &ServerError) -> u16 {
    let message = &error.message;
    match error.status {
        Some(status) => status,
        None if message.starts_with("SERVER_ERROR out of memory") => OUT_OF_MEMORY,
        None if message.starts_with("SERVER_ERROR") => INTERNAL_ERROR,
        None if message.starts_with("CLIENT_ERROR") => INVALID_ARGUMENTS,
        None => UNKNOWN_COMMAND,
    }
}
