//! `dynoload`: the load engine for MySQL, MariaDB and memcached that costs less than what it measures.

pub mod agents;
pub mod capture;
pub mod cli;
pub mod error;
pub mod host;
pub mod kv;
pub mod null_server;
pub mod output;
pub mod parse;
pub mod quality;
pub mod replay;
pub mod runner;
pub mod server;
pub mod slices;
pub mod sources;
pub mod spec;
pub mod sql;
pub mod statements;
