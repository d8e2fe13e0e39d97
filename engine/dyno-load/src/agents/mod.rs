//! Load from several hosts in one run.
//!
//! The coordinator starts each agent by a command (ssh, ip netns exec, or dynoload itself) and exchanges JSON lines with it
//! over the command's standard input and output: nothing listens on a port. Agents run shares of the same workers that a run
//! on one host has, so that the operations do not depend on their number; they send every interval's histograms whole, and
//! the coordinator merges those: percentiles are never averaged.
//!
//! An agent ends when its input does. The clocks of hosts are independent of one another: the coordinator estimates the
//! offset of each, with a bound, before the load and after it.

mod agent;
mod clock;
mod coordinator;
mod peer;
mod protocol;
mod proxy;

pub use agent::{serve, JobSettings};
pub use clock::Clock;
pub use coordinator::{AgentFacts, Coordinator, Proxies};
pub use peer::Shippable;
pub use protocol::Job;
pub use proxy::AgentUsage;
