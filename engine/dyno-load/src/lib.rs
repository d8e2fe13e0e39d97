//! `dynoload`: the load engine for MySQL and MariaDB that costs less than what it measures.

pub mod recorder;
pub mod run;
pub mod workload;
