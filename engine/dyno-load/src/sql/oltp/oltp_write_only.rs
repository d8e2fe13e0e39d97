//! oltp_write_only: two updates and a delete with its insert, in one transaction.

use super::blocks;
use super::{OltpOptions, Workload};
use crate::sql::definition::Definition;

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "oltp_write_only",
    summary: "an index update, a non-index update, a delete and an insert in a transaction",
    single_table: false,
    define,
};

fn define(options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    blocks::begin(&mut definition, options);
    blocks::index_updates(&mut definition, options.index_updates);
    blocks::non_index_updates(&mut definition, options.non_index_updates);
    blocks::delete_inserts(&mut definition, options.delete_inserts);
    blocks::commit(&mut definition, options);
    definition
}
