//! The run: workers, their connections, their times, and the collection of what they report.

pub mod batch;
mod client;
mod collector;
mod connecting;
mod failure;
mod feed;
mod launch;
pub mod poller;
mod settings;
pub mod socket;
mod terminals;
mod thread;
mod timeline;
mod transactions;
mod worker;

pub use collector::{Interval, Observer, Totals};
pub use failure::Failure;
pub use feed::{Feed, Next};
pub use launch::{run, run_share, run_workers, soon, BeforeLoad, Outcome, Share, START_DELAY_NS};
pub use settings::{IgnoredErrors, Overload, Pace, Priority, Settings, Think};
pub use thread::worker_thread;
pub use timeline::{IntervalId, Phase, Timeline};
pub use worker::{Channels, End, Report};
