//! The OLTP family of sysbench: its workloads, and what one transaction draws and sends.

mod options;
mod row_text;
mod transaction;
mod workloads;

pub use options::{OltpOptions, TableOptions};
pub use row_text::RowText;
pub use transaction::{Context, Request, Transaction};
pub use workloads::{distance, named, Workload, CATALOGUE};
