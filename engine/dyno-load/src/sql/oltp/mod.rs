//! The OLTP family of sysbench: its workloads, and what one transaction draws and sends.

mod options;
mod transaction;
mod workloads;

pub use options::{OltpOptions, RowText, TableOptions};
pub use transaction::{Context, Request, Transaction};
pub use workloads::{distance, named, Workload, CATALOGUE};
