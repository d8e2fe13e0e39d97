//! Workloads of the user's own: a file of SQL transactions with parameters, and a TOML file or a dump for their tables.

pub mod data;
pub mod dump;
mod parser;
mod rules;
mod scale;
mod schema;
mod work;

pub use parser::{parse, FileContext, FileStatement, FileTransaction};
pub use rules::{Drawn, Rule};
pub use schema::Schema;
pub use work::FileWork;
