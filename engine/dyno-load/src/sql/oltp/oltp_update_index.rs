//! oltp_update_index: updates of the indexed column, each a transaction of its own.

use super::blocks;
use super::{OltpOptions, Workload};
use crate::sql::definition::Definition;

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "oltp_update_index",
    summary: "an update of the indexed column k, without a transaction",
    single_table: false,
    define,
};

fn define(options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    blocks::index_updates(&mut definition, options.index_updates);
    definition
}
