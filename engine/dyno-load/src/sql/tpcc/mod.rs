//! TPC-C, revision 5.11: tables, load, the five transactions, and the consistency conditions.
//!
//! Not a TPC-C result: nothing here is audited, and without key and think times throughput is not bound to the number of
//! warehouses. So its figure is called TpmC-like.

pub mod acknowledged;
mod batch;
pub mod check;
mod completeness;
mod conditions;
mod config;
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
pub mod procedures;
mod profile;
pub mod random;
mod row;
mod rows;
pub mod schema;
mod statements;
mod stock_level;

pub use acknowledged::Acknowledgements;
pub use config::{Home, Kind, StockLevelQuery, TpccConfig};
pub use execution::Execution;
pub use next::Next;
pub use statements::{definition, Id};

use super::definition::Definition;

/// What all transactions of a run share.
#[derive(Debug, Clone)]
pub struct Context {
    /// The statements.
    pub definition: Definition,
    /// Terminals, their homes and their times.
    pub config: TpccConfig,
}

impl Context {
    /// The statements for a configuration.
    pub fn new(config: TpccConfig) -> Self {
        Self {
            definition: definition(config.stored_procedures),
            config,
        }
    }
}
