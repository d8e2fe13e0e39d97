//! oltp_read_only: point selects, then four kinds of range selects, in one transaction.

use super::blocks;
use super::{OltpOptions, Workload};
use crate::sql::definition::Definition;

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "oltp_read_only",
    summary: "10 point selects and 4 range selects in a transaction",
    single_table: false,
    define,
};

fn define(options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    blocks::begin(&mut definition, options);
    blocks::point_selects(&mut definition, options.point_selects);
    blocks::ranges(&mut definition, options);
    blocks::commit(&mut definition, options);
    definition
}
