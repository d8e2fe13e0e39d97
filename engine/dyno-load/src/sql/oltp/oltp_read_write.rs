//! oltp_read_write: the reads of oltp_read_only, then the writes of oltp_write_only, in one transaction.

use super::blocks;
use super::{OltpOptions, Workload};
use crate::sql::definition::Definition;

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "oltp_read_write",
    summary: "the reads of oltp_read_only and the writes of oltp_write_only in a transaction",
    single_table: false,
    define,
};

fn define(options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    blocks::begin(&mut definition, options);
    blocks::point_selects(&mut definition, options.point_selects);
    blocks::ranges(&mut definition, options);
    blocks::index_updates(&mut definition, options.index_updates);
    blocks::non_index_updates(&mut definition, options.non_index_updates);
    blocks::delete_inserts(&mut definition, options.delete_inserts);
    blocks::commit(&mut definition, options);
    definition
}
