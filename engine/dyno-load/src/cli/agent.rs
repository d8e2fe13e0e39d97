//! `dynoload agent`.

use std::io::IsTerminal as _;

use crate::error::{Error, Exit};
use crate::runner;

pub const ABOUT: &str = "Is started by `dynoload oltp run --agent COMMAND`, `tpcc run`, `sql run`, `script` or `kv run`, on any host \
from which the server can be reached. It does what the coordinator says on its standard input, tells on its standard output how \
it goes, listens on no port, and ends when its input ends.

Example: two hosts load the server db1; a third one coordinates and writes the result.
  dynoload oltp run --workload oltp_read_only --host db1 --connections 512 --threads 4 --duration 60s \\
      --agent 'ssh -o BatchMode=yes load1 dynoload agent' --agent 'ssh -o BatchMode=yes load2 dynoload agent'";

/// Serves one coordinator.
pub fn run() -> Result<Exit, Error> {
    if std::io::stdin().is_terminal() {
        return Err(Error::User(
            "an agent is started by another dynoload, as in `dynoload oltp run --agent 'ssh load2 dynoload agent' …`"
                .into(),
        ));
    }
    runner::serve_agent()
}
