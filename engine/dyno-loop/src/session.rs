//! What a protocol provides to the load loop: one connection's state.

use std::io;
use std::sync::Arc;

use super::arrivals::{Recording, TerminalCycle};
use super::recorder::{Extra, Traffic};
use super::settings::LoadSettings;
use super::tally::Tally;
use crate::recorder::errors::{Failure, Loss, Stop};
use crate::recorder::Operation;

/// What an operation that was started does to its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// The slot is busy until a reply ends the operation.
    Busy,
    /// The operation has no reply of its own, and the slot is free at once.
    Free {
        /// Whether another one may follow before one that has a reply.
        may_follow: bool,
    },
}

/// What received bytes brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing more: the bytes are used up.
    Pending,
    /// A connection that is being made has come one step further: its time starts anew.
    Progress,
    /// The connection is ready for operations.
    Ready,
    /// An operation has ended, and was counted: its slot is free.
    Free {
        /// The operation's number.
        number: u64,
        /// When it ended.
        at_ns: u64,
    },
}

/// The protocol state of one connection, and the operations in flight on it.
///
/// The session parses and makes bytes; the worker owns the socket, the clock, and the decision what starts when.
/// A connection has [`Session::slots`] slots, each for one operation at a time.
pub trait Session: Sized {
    /// What a run is to do; shared by all workers.
    type Settings: Send + Sync + 'static;
    /// What the sessions of one worker share; made on the worker's thread.
    type Shared;
    /// What is recorded beside what every load records.
    type Extra: Extra;
    /// The times of terminals; [`super::arrivals::NoTerminals`] where the protocol has no workload with terminals.
    type Terminals: TerminalCycle;

    /// The word for an operation in messages.
    const OPERATION: &'static str;
    /// Connections of a worker that are being made at the same time, below the length of the server's queue.
    const CONNECTING_AT_A_TIME: usize;
    /// Where to look when connections are not ready in time, for the message.
    const CONNECT_HINT: &'static str;
    /// Whether an operation survives its connection and begins again on the next; else it is lost with it.
    const RESUMES: bool;

    /// The part of the settings that the loop reads.
    fn load(settings: &Self::Settings) -> &LoadSettings;

    /// The terminals, where the workload has them.
    fn terminals(settings: &Self::Settings) -> Option<Self::Terminals>;

    /// The operations of each connection, where they were recorded.
    fn recording(_settings: &Self::Settings) -> Option<Arc<Recording>> {
        None
    }

    /// Whether this operation of a recorded load begins another session than the connection's last one: the connection
    /// is then made anew.
    fn needs_new_connection(&self, _shared: &Self::Shared, _number: u64) -> bool {
        false
    }

    /// Operations that may be in flight on one connection at the same time.
    fn slots(_settings: &Self::Settings) -> u32 {
        1
    }

    /// Whether every operation is a connection of its own.
    fn connects_each_time(_settings: &Self::Settings) -> bool {
        false
    }

    /// Makes what the sessions of one worker share.
    ///
    /// # Errors
    /// When a file cannot be opened.
    fn share(settings: Arc<Self::Settings>) -> io::Result<Self::Shared>;

    /// Connection `number` of the run, not connected.
    fn new(shared: &Self::Shared, number: u32) -> Self;

    /// A socket has begun to connect at `now_ns`: forgets the last connection's state, and greets where the client
    /// speaks first.
    fn opened(&mut self, shared: &Self::Shared, now_ns: u64);

    /// Begins an operation. `is_ready` is false while the connection is being made; the operation then starts once it is.
    ///
    /// # Errors
    /// When the connection or the run cannot go on.
    fn start(&mut self, shared: &mut Self::Shared, operation: Operation, is_ready: bool) -> Result<SlotState, Stop>;

    /// Requests a reply after operations that have none.
    fn request_reply(&mut self, _now_ns: u64) {}

    /// Takes the next event out of received bytes, records it, and makes what is sent next.
    ///
    /// # Errors
    /// When the connection or the run cannot go on.
    fn advance(
        &mut self,
        shared: &mut Self::Shared,
        tally: &mut Tally<Self::Extra>,
        input: &mut &[u8],
        now_ns: u64,
    ) -> Result<Step, Stop>;

    /// A connection is ready again after a loss: starts its operation anew; false where there is none.
    ///
    /// # Errors
    /// When the connection or the run cannot go on.
    fn resume(&mut self, _shared: &mut Self::Shared, _now_ns: u64) -> Result<bool, Stop> {
        Ok(false)
    }

    /// The connection is lost, and will be made again.
    fn lost(&mut self, _tally: &mut Tally<Self::Extra>) {}

    /// Calls for each operation in flight.
    fn each_in_flight(&self, each: &mut dyn FnMut(&Operation));

    /// How many are in flight: those that belong to the measurement, or those of the warm-up.
    fn in_flight(&self, measured: bool) -> u64 {
        let mut count = 0;
        self.each_in_flight(&mut |operation| count += u64::from(operation.measured == measured));
        count
    }

    /// Bytes to be sent.
    fn outgoing(&self) -> &[u8];

    /// The first `count` bytes of [`Session::outgoing`] were sent.
    fn sent(&mut self, count: usize);

    /// `count` bytes were received.
    #[inline]
    fn received(&mut self, _count: usize) {}

    /// Why the connection is lost, when the server has closed it.
    fn end_of_input(&mut self) -> Loss;

    /// Makes a goodbye, where the protocol has one.
    fn say_goodbye(&mut self) {}

    /// Bytes since the last call, over this connection and those before it.
    fn take_traffic(&mut self) -> Traffic;

    /// An interval has ended.
    ///
    /// # Errors
    /// When a file of the worker cannot be written.
    fn interval_ended(_shared: &mut Self::Shared) -> Result<(), Failure> {
        Ok(())
    }
}
