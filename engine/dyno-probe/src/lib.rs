//! The sampler of mydyno: host, processes and database servers, read at a steady interval and written as JSON lines.
//!
//! One metric family a file under [`families`]. What it costs is measured by `bench/run probe`; what each metric means
//! is printed by `dynoprobe --metrics-json`.

pub mod arguments;
pub mod cli;
pub mod clock;
pub mod collector;
pub mod deltas;
pub mod families;
pub mod keyed;
pub mod machine;
pub mod metric;
pub mod mysql;
pub mod pseudo_file;
pub mod record;
pub mod roster;
pub mod run;
pub mod sample;
pub mod server;
pub mod speed;
pub mod text;
pub mod waiter;
