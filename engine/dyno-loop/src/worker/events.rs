//! The worker's part that receives and sends.
//!
//! A worker reads from all connections that have something, then parses the answers, then writes what comes next. Taking
//! connections one by one through all three steps would bring the code of each step into the processor's caches anew for
//! every connection, after the kernel's has driven it out: most of what a load engine costs above a bare loop.

use std::io::ErrorKind;

use dyno_core::clock::now_ns;
use dyno_core::prefetch;

use super::Worker;
use crate::recorder::errors::{Failure, Loss};
use crate::session::{Session, Step};
use crate::transport::{Batch, Interest};

impl<S: Session> Worker<S> {
    /// Handles the events of one wait: receives, parses, and sends what comes next.
    pub(super) fn handle_events(&mut self, events: usize) -> Result<(), Failure> {
        // Lent out while the worker is borrowed for the answers.
        let mut batch = std::mem::take(&mut self.batch);
        let mut result = Ok(());
        let mut event = 0;
        while event < events && result.is_ok() {
            result = self.handle_batch(&mut event, events, &mut batch);
        }
        self.batch = batch;
        result
    }

    /// One batch in three steps, from event number `event` on.
    fn handle_batch(&mut self, event: &mut usize, events: usize, batch: &mut Batch) -> Result<(), Failure> {
        batch.clear();
        while *event < events && batch.has_room() {
            let index = self.poller.token(*event) as usize;
            let is_writable = self.poller.is_writable(*event);
            *event += 1;
            if *event < events {
                prefetch(&self.links[self.poller.token(*event) as usize]);
            }
            if is_writable {
                self.flush(index)?;
            }
            match self.receive(index, batch.room())? {
                0 => {}
                count => batch.took(index, count, now_ns()),
            }
        }
        for (taken, next) in batch.taken_with_next() {
            prefetch(&self.links[next]);
            self.parse(taken.index, taken.at_ns, batch.bytes(taken))?;
        }
        for (taken, next) in batch.taken_with_next() {
            prefetch(&self.links[next]);
            self.flush(taken.index)?;
        }
        Ok(())
    }

    /// Reads once; the number of bytes, 0 when there were none, also when the connection was lost and is made again.
    #[inline]
    fn receive(&mut self, index: usize, room: &mut [u8]) -> Result<usize, Failure> {
        let link = &mut self.links[index];
        let Some(socket) = &mut link.socket else { return Ok(0) };
        match socket.read(room) {
            Ok(0) => {
                let loss = link.session.end_of_input();
                self.lost(index, &loss).map(|()| 0)
            }
            Ok(count) => {
                link.session.received(count);
                Ok(count)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(error) => self.lost(index, &Loss::from(error)).map(|()| 0),
        }
    }

    /// Parses what was read at `now`, and makes what is sent next.
    #[inline]
    fn parse(&mut self, index: usize, now: u64, mut input: &[u8]) -> Result<(), Failure> {
        loop {
            let session = &mut self.links[index].session;
            match session.advance(&mut self.shared, &mut self.tally, &mut input, now) {
                Ok(Step::Free { number, at_ns }) => self.slot_is_free(index, number, at_ns)?,
                Ok(Step::Pending) => return Ok(()),
                Ok(Step::Progress) => self.progressed(now),
                Ok(Step::Ready) => self.ready(index, now)?,
                Err(stop) => return self.stopped(index, stop),
            }
        }
    }

    /// Writes what is to be sent, and waits for room where there is none.
    #[inline]
    pub(super) fn flush(&mut self, index: usize) -> Result<(), Failure> {
        let link = &mut self.links[index];
        let Some(socket) = &mut link.socket else { return Ok(()) };
        while !link.session.outgoing().is_empty() {
            match socket.write(link.session.outgoing()) {
                Ok(count) => link.session.sent(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.await_room(index, true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.lost(index, &Loss::from(error)),
            }
        }
        if link.awaits_room {
            return self.await_room(index, false);
        }
        Ok(())
    }

    /// Makes epoll report room to write, or no longer.
    #[cold]
    fn await_room(&mut self, index: usize, awaits_room: bool) -> Result<(), Failure> {
        let link = &mut self.links[index];
        let Some(socket) = &link.socket else { return Ok(()) };
        if link.awaits_room == awaits_room {
            return Ok(());
        }
        link.awaits_room = awaits_room;
        let interest = if awaits_room {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        match self.poller.modify(socket, index as u64, interest) {
            Ok(()) => Ok(()),
            Err(error) => self.lost(index, &Loss::from(error)),
        }
    }
}
