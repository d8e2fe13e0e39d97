//! The run: workers, their connections, their times, and the collection of what they report.

pub mod batch;
mod client;
mod collector;
mod connecting;
mod crew;
mod failure;
mod feed;
pub mod gauges;
mod intervals;
mod launch;
pub mod poller;
mod settings;
pub mod socket;
mod terminals;
mod thread;
mod timeline;
mod transactions;
mod work;
mod worker;

pub use collector::{Interval, Observer, Totals};
pub use crew::{Channels, Crew, Edge, End, Load, Mark, NotReady, Report, Start};
pub use failure::Failure;
pub use feed::{Feed, Next};
pub use intervals::Intervals;
pub use launch::{run, run_share, run_workers, soon, spawn, BeforeLoad, Outcome, Share, START_DELAY_NS};
pub use settings::{IgnoredErrors, Overload, Pace, Priority, Settings, Think};
pub use thread::worker_thread;
pub use timeline::{IntervalId, Phase, SliceTimes, Timeline};
pub use work::{work, Work};
