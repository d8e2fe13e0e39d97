//! The tables: made from the options, filled from the row's number, checked, dropped.

mod cleanup;
mod prepare;
mod rows;
pub mod tables;
mod verify;

pub use cleanup::{cleanup, drop_tables, Prepared};
pub use prepare::{prepare, Preparation, Request};
pub use rows::{Row, RowSource};
pub use verify::{verify, TableCheck};
