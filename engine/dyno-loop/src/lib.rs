//! One load loop for any protocol: workers, arrivals, overload, intervals and records.
//!
//! A [`Session`] speaks one protocol on one connection; a [`Worker`] drives many of them over epoll on one thread. The
//! worker is generic over the session, so that the loop is compiled for each protocol and nothing is dispatched at run
//! time. This crate knows no protocol and no workload.

pub mod arrivals;
mod collector;
mod crew;
mod failure;
pub mod gauges;
pub mod instructions;
mod intervals;
mod launch;
mod operation;
mod overload;
pub mod priority;
pub mod recorder;
mod report;
mod session;
mod settings;
mod tally;
mod thread;
mod timeline;
pub mod transport;
mod worker;

pub use collector::{Interval, Observer, Totals};
pub use crew::{Crew, Load, NotReady, Start};
pub use failure::{Failure, Loss, Stop};
pub use intervals::Intervals;
pub use launch::{run, run_share, run_workers, spawn, AfterLoad, BeforeLoad, Outcome, Rest, Share, START_DELAY_NS};
pub use operation::Operation;
pub use overload::Overload;
pub use priority::Priority;
pub use recorder::Latency;
pub use report::{Channels, Edge, End, Mark, PlanAccount, Report};
pub use session::{Session, SlotState, Step};
pub use settings::{IgnoredErrors, LoadSettings, LoadShape, OperationLimit, Think};
pub use tally::Tally;
pub use timeline::{IntervalId, Phase, SliceTimes, Timeline};
pub use transport::Address;
pub use worker::Worker;
