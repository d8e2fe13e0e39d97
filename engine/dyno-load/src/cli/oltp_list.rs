//! `dynoload oltp list`: the workloads.

use std::io::Write as _;

use crate::error::{Error, Exit};
use crate::sql::oltp::CATALOGUE;

/// Prints a line a workload: name, what a transaction is.
pub fn run() -> Result<Exit, Error> {
    let mut out = dyno_core::streams::stdout();
    for workload in CATALOGUE {
        writeln!(out, "{:<24} {}", workload.name, workload.summary)?;
    }
    Ok(Exit::Done)
}
