//! connect: one operation is a new connection with its handshake and authentication, and its end. Ours; sysbench has none.

use super::{OltpOptions, Workload};
use crate::sql::definition::{Definition, StatementKind, Values};

/// The workload.
pub const WORKLOAD: Workload = Workload {
    name: "connect",
    summary: "connect, TLS, authenticate, disconnect: the cost of short connections; needs no tables",
    single_table: false,
    define,
};

fn define(_options: &OltpOptions) -> Definition {
    let mut definition = Definition::new(WORKLOAD.name);
    let statement = definition.statement(StatementKind::Connect, "", Vec::new());
    definition.statements[statement].always_text = true;
    definition.calls(statement, Values::Nothing, 1);
    definition
}
