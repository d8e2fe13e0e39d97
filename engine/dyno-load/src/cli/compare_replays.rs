//! `dynoload compare-replays`: its options.

use std::path::PathBuf;

use clap::Args;

use crate::error::{Error, Exit};
use crate::replay::compare;

const ABOUT: &str = "Statements are compared one by one: error code, number of rows, a checksum of the rows that does not \
depend on their order, and with ORDER BY their order. Differences that may be on the same data are marked: with NOW(), RAND(), \
@@variables and the like, with LIMIT or ORDER BY that leaves ties.

Exit codes: 0 the results are equal, but for marked ones; 2 wrong input; 4 results differ";

/// The options of `compare-replays`.
#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct CompareArguments {
    /// Results of one replay, written with `dynoload replay --results`
    a: PathBuf,
    /// Results of another replay of the same capture
    b: PathBuf,
    /// Write the comparison as JSON lines to a file, or - for standard output (the table then goes to standard error)
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Compares.
pub fn run(arguments: &CompareArguments) -> Result<Exit, Error> {
    compare::run(&arguments.a, &arguments.b, arguments.json.as_deref())
}
