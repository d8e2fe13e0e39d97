//! oltp_point_select: one row by its primary key; sysbench ignores --point-selects here, and so do we.

use super::blocks;
use super::{OltpOptions, Workload};
use crate::sql::definition::Definition;

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "oltp_point_select",
    summary: "one row by primary key, without a transaction",
    single_table: false,
    define,
};

fn define(_options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    blocks::point_selects(&mut definition, 1);
    definition
}
