//! `dynoload`: the load engine for MySQL and MariaDB that costs less than what it measures.

pub mod agents;
pub mod cli;
pub mod data;
pub mod error;
pub mod host;
pub mod kv;
pub mod null_server;
pub mod output;
pub mod recorder;
pub mod report;
pub mod run;
pub mod server;
pub mod slices;
pub mod tpcc;
pub mod verdict;
pub mod workload;
