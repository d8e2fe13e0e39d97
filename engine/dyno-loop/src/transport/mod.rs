//! Sockets that never block, readiness by epoll, and what was received in one round.

mod batch;
mod poller;
mod socket;

pub use batch::Batch;
pub use poller::{Interest, Poller};
pub use socket::{Address, Socket};
