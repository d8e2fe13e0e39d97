//! `dynoload agent`, and `--agent` of the runs.

use std::io::IsTerminal as _;

use clap::Args;

use crate::error::{Error, Exit};
use crate::runner;

pub const ABOUT: &str = "Is started by `dynoload oltp run --agent COMMAND`, `tpcc run`, `sql run`, `script` or `kv run`, on any host \
from which the server can be reached. It does what the coordinator says on its standard input, tells on its standard output how \
it goes, listens on no port, and ends when its input ends.

Example: two hosts load the server db1; a third one coordinates and writes the result.
  dynoload oltp run --workload oltp_read_only --host db1 --connections 512 --threads 4 --duration 60s \\
      --agent 'ssh -o BatchMode=yes load1 dynoload agent' --agent 'ssh -o BatchMode=yes load2 dynoload agent'";

/// Who loads.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Several hosts")]
pub struct AgentArguments {
    /// A command that starts `dynoload agent`, as in 'ssh -o BatchMode=yes load2 dynoload agent', or unix:PATH, a socket
    /// that leads to the input and output of one; repeat for each host.
    /// The load then runs on the agents only: each has --threads threads and its share of the connections and of the
    /// rate. This program starts them together, merges their histograms, and reads the server's counters. The password
    /// is sent through the command's standard input, as are a trace, a script with its modules, and a file of SQL. Other
    /// files and sockets named by options are those of the agent's host, except --password-file
    #[arg(long = "agent", value_name = "COMMAND")]
    pub agent: Vec<String>,
}

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
