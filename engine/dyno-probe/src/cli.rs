//! The program `dynoprobe`: its command line and exit codes.

use std::io::Write;
use std::process::ExitCode;

use crate::arguments::Arguments;
use crate::catalogue;
use crate::run::{run, RunError};
use clap::Parser;

/// Runs the program. 0: ended in order; 1: the output or the system failed; 2: a wrong argument.
pub fn main() -> ExitCode {
    dyno_core::panics::abort_on_panic();
    let arguments = Arguments::parse();
    if arguments.list_families || arguments.metrics_json {
        let text = if arguments.metrics_json {
            catalogue::json()
        } else {
            catalogue::list()
        };
        let written = writeln!(std::io::stdout(), "{}", text.trim_end());
        return if written.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            dyno_core::tell!("dynoprobe: {error}");
            ExitCode::from(if matches!(error, RunError::Usage(_)) { 2 } else { 1 })
        }
    }
}
