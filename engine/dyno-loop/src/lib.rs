//! One load loop for any protocol: workers, arrivals, overload, intervals and records.
//!
//! A [`Session`] speaks one protocol on one connection; a [`Worker`] drives many of them over epoll on one thread. The
//! worker is generic over the session, so that the loop is compiled for each protocol and nothing is dispatched at run
//! time. This crate knows no protocol and no workload.

pub mod arrivals;
mod collector;
mod crew;
pub mod gauges;
mod launch;
pub mod recorder;
mod report;
mod session;
mod settings;
mod tally;
mod timeline;
pub mod transport;
mod worker;

pub use collector::{Interval, Observer, Totals};
pub use crew::{Crew, Load, NotReady, Start};
pub use launch::{run, run_share, run_workers, spawn, AfterLoad, BeforeLoad, Outcome, Rest, Share, START_DELAY_NS};
pub use recorder::errors::{Failure, Loss, Stop};
pub use recorder::{Latency, Operation};
pub use report::{Channels, Edge, End, Mark, PlanAccount, Report};
pub use session::{Session, SlotState, Step};
pub use settings::{
    may_run_in_real_time, niceness, take_priority, IgnoredErrors, LoadSettings, LoadShape, OperationLimit, Overload,
    Priority, Think,
};
pub use tally::{Intervals, Tally};
pub use timeline::{IntervalId, Phase, SliceTimes, Timeline};
pub use transport::Address;
pub use worker::Worker;
