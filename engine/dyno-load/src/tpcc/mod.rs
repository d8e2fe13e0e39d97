//! TPC-C, revision 5.11: tables, load, the five transactions, and the consistency conditions.
//!
//! Not a TPC-C result: nothing here is audited, and without key and think times throughput is not bound to the number of
//! warehouses. So its figure is called TpmC-like.

pub mod acknowledged;
mod batch;
pub mod check;
mod conditions;
mod customer;
mod delivery;
mod execution;
mod inserter;
pub mod load;
pub mod money;
mod new_order;
mod next;
mod order_status;
mod payment;
mod plan;
pub mod procedures;
pub mod random;
mod row;
mod rows;
pub mod schema;
mod statements;
mod stock_level;

pub use acknowledged::Acknowledgements;
pub use execution::Execution;
pub use next::Next;
pub use plan::{Home, Kind, Plan, StockLevel};
pub use statements::{definition, Id};
