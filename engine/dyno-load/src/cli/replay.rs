//! `dynoload replay`.

use clap::Arg;

use crate::error::{Error, Exit};
use crate::replay::{self, ReplayRun};

pub const EXAMPLES: &str = "Examples:
  dynoload replay monday.capture --socket /run/mysqld/mysqld.sock
      Each session connects, sends its statements and ends when it did in the capture.
  dynoload replay monday.capture --host new --read-only --speed 4 --results new.results
      Four times as fast, without statements that write; the result of each statement goes to a file.
  dynoload replay monday.capture --host copy --schema shop=shop_copy --speed max --json result.json
      As fast as each session goes, on a schema of another name.

A replay changes the data unless --read-only is set: use a copy, and restore it before each replay.
The password comes from --password-file or DYNO_PASSWORD. The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 2 wrong input, 3 cannot be done here, 4 INVALID (such as missing tables), 130 interrupted.";

/// `--database` of a replay.
pub fn default_schema(argument: Arg) -> Arg {
    argument
        .default_value("")
        .hide_default_value(true)
        .help("Default schema of sessions for which the capture has none")
}

/// Replays.
pub fn run(mut run: ReplayRun) -> Result<Exit, Error> {
    run.selection.default_schema = Some(run.connection.database.clone()).filter(|name| !name.is_empty());
    replay::run(&run)
}
