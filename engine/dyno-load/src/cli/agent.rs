//! `dynoload agent`, and `--agent` of the runs: what is asked goes typed to other hosts, where the same functions resolve it.

use std::io::IsTerminal as _;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use clap::Args;
use dyno_mysql::Secret;
use serde::{Deserialize, Serialize};

use super::run_settings::{self, LoadArguments};
use super::{oltp_run, tpcc_run};
use crate::agents::{self, Coordinator};
use crate::error::{Error, Exit};
use crate::run::{Settings, Share};
use crate::server::{self, Needs};

pub const ABOUT: &str = "Is started by `dynoload oltp run --agent COMMAND` and `dynoload tpcc run --agent COMMAND`, on any host \
from which the server can be reached. It does what the coordinator says on its standard input, tells on its standard output how \
it goes, listens on no port, and ends when its input ends.

Example: two hosts load the server db1; a third one coordinates and writes the result.
  dynoload oltp run --workload oltp_read_only --host db1 --connections 512 --threads 4 --duration 60s \\
      --agent 'ssh -o BatchMode=yes load1 dynoload agent' --agent 'ssh -o BatchMode=yes load2 dynoload agent'";

/// Who loads.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Several hosts")]
pub struct AgentArguments {
    /// A command that starts `dynoload agent`, as in 'ssh -o BatchMode=yes load2 dynoload agent'; once for each host. The
    /// load then runs there and not here: each agent has --threads threads and its share of the connections and of the
    /// rate. This program gives them one start, merges their histograms, and asks the server for its counters. The password
    /// goes through the command's standard input; files and sockets that options name are those of the agent's host,
    /// save --password-file and a trace
    #[arg(long = "agent", value_name = "COMMAND", conflicts_with = "slices")]
    pub agent: Vec<String>,
}

/// What is asked, whatever the family.
#[derive(Serialize, Deserialize)]
pub enum Asked {
    /// `oltp run`.
    Oltp(oltp_run::Asked),
    /// `tpcc run`.
    Tpcc(tpcc_run::Asked),
}

/// What an agent gets. Not `Debug`, for the password.
#[derive(Serialize, Deserialize)]
struct Job {
    asked: Asked,
    any_server: bool,
    password: String,
}

impl Asked {
    fn load(&mut self) -> &mut LoadArguments {
        match self {
            Self::Oltp(asked) => &mut asked.load,
            Self::Tpcc(asked) => &mut asked.load,
        }
    }
}

/// Starts the agents and has them check their shares; none where no agents are asked for.
///
/// `settings` then have the threads of all agents together.
///
/// # Errors
/// When an agent cannot be started or refuses, or there is too little for each.
pub fn engage(
    arguments: &AgentArguments,
    settings: &mut Settings,
    mut asked: Asked,
    any_server: bool,
    interrupted: &Arc<AtomicBool>,
) -> Result<Option<Coordinator>, Error> {
    if arguments.agent.is_empty() {
        return Ok(None);
    }
    let count = arguments.agent.len() as u32;
    let connections = settings.context.connections;
    if connections < count {
        return Err(Error::User(format!(
            "--connections {connections} is fewer than the {count} agents; each needs one at least"
        )));
    }
    let mut coordinator = Coordinator::start(&arguments.agent, interrupted)?;
    let share = connections / count;
    let load = asked.load();
    let each =
        run_settings::threads_for(load.threads, connections.div_ceil(count), coordinator.least_cpus()).min(share);
    load.threads = Some(each * count);
    load.trace = run_settings::trace(load)?;
    settings.threads = each * count;
    let job = Job {
        asked,
        any_server,
        password: settings.options.password.reveal().to_string(),
    };
    let job = serde_json::to_value(job).map_err(|error| Error::User(format!("an agent cannot be told: {error}")))?;
    coordinator.offer(each, &job)?;
    Ok(Some(coordinator))
}

/// Serves one coordinator.
pub fn run() -> Result<Exit, Error> {
    if std::io::stdin().is_terminal() {
        return Err(Error::User(
            "an agent is started by another dynoload, as in `dynoload oltp run --agent 'ssh load2 dynoload agent' …`"
                .into(),
        ));
    }
    agents::serve(&accept)
}

/// Makes the settings as a run on this host would, and checks the server from here.
fn accept(job: serde_json::Value, share: Share) -> Result<Arc<Settings>, Error> {
    // What cannot be read is not shown: it has the password.
    let Ok(mut job) = serde_json::from_value::<Job>(job) else {
        return Err(Error::Output("the job is not one that this version understands".into()));
    };
    let password = Some(Secret::new(std::mem::take(&mut job.password)));
    let (settings, single_table) = match &mut job.asked {
        Asked::Oltp(asked) => {
            asked.connection.password = password;
            let workload = asked.workload()?;
            (asked.resolve()?.0, workload.single_table)
        }
        Asked::Tpcc(asked) => {
            asked.connection.password = password;
            (asked.resolve()?, false)
        }
    };
    crate::host::take_priority(settings.priority);
    let mut control = server::connect(&settings.options)?;
    server::check(
        &mut control,
        &Needs {
            context: &settings.context,
            prepared: settings.prepared,
            single_table,
            any_server: job.any_server,
        },
    )?;
    let most_each = settings.context.connections.div_ceil(settings.threads);
    crate::host::allow_open_files(u64::from(most_each) * u64::from(share.threads) + 64)?;
    Ok(Arc::new(settings))
}
