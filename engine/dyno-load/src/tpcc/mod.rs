//! TPC-C, revision 5.11: tables, load, the five transactions, and the consistency conditions.
//!
//! Not a TPC-C result: nothing here is audited, and without key and think times throughput is not bound to the number of
//! warehouses. So its figure is called TpmC-like.

pub mod acknowledged;
mod batch;
pub mod check;
mod conditions;
pub mod load;
pub mod money;
pub mod random;
mod rows;
pub mod schema;
