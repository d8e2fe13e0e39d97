//! oltp_delete: deletes by primary key, each a transaction of its own; rows that are gone already count as unchanged.

use super::blocks;
use super::{OltpOptions, Workload};
use crate::sql::definition::{Definition, Values};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "oltp_delete",
    summary: "a delete by primary key, without a transaction; empties the tables",
    single_table: false,
    define,
};

fn define(_options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    let statement = blocks::delete_statement(&mut definition);
    definition.calls(statement, Values::Id, 1);
    definition
}
