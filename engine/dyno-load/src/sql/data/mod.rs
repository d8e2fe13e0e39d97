//! The tables: made from the options, filled from the row's number, checked, dropped.

mod prepare;
mod rows;
pub mod tables;

pub use prepare::{prepare, Preparation, Request};
pub use rows::{verify, Row, RowSource, TableCheck};
pub use tables::{cleanup, drop_tables};
