//! oltp_update_non_index: updates of a column without an index, each a transaction of its own.

use super::blocks;
use super::{OltpOptions, Workload};
use crate::sql::definition::Definition;

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "oltp_update_non_index",
    summary: "an update of the column c, without a transaction",
    single_table: false,
    define,
};

fn define(options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    blocks::non_index_updates(&mut definition, options.non_index_updates);
    definition
}
