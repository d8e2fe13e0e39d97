//! `dynoprobe`: the sampler.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use dyno_probe::arguments::Arguments;
use dyno_probe::catalogue;
use dyno_probe::run::{run, RunError};

/// 0: ended in order; 1: the output or the system failed; 2: a wrong argument.
fn main() -> ExitCode {
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
            eprintln!("dynoprobe: {error}");
            ExitCode::from(if matches!(error, RunError::Usage(_)) { 2 } else { 1 })
        }
    }
}
