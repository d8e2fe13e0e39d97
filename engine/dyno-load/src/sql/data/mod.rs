//! The tables: made from the options, filled from the row's number, checked, dropped.

mod cleanup;
mod prepare;
mod rows;
pub mod tables;

pub use cleanup::{cleanup, drop_tables, Prepared};
pub use prepare::{prepare, Preparation, Request};
pub use rows::{verify, Row, RowSource, TableCheck};
