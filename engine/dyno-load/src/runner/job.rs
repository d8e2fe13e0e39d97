//! Runs on several hosts: the coordinator sends the spec, and each agent resolves and checks it on its own host.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use dyno_loop::Share;
use dyno_mysql::Secret;

use super::sql::SqlRun;
use crate::agents::{self, Coordinator, Job};
use crate::error::{Error, Exit};
use crate::spec::{self, SqlSpec};
use crate::sql::preflight::{self, Needs};
use crate::sql::{server, SqlSettings};

/// Starts the agents and has them check their shares; none without --agent.
///
/// `settings` then contain the threads of all agents.
///
/// # Errors
/// When an agent cannot be started or refuses, or there is too little for each.
pub fn engage(
    run: &SqlRun,
    settings: &mut SqlSettings,
    mut spec: SqlSpec,
    interrupted: &Arc<AtomicBool>,
) -> Result<Option<Coordinator>, Error> {
    if run.agents.is_empty() {
        return Ok(None);
    }
    let count = run.agents.len() as u32;
    let connections = settings.connections();
    if connections < count {
        return Err(Error::User(format!(
            "--connections {connections} is fewer than the {count} agents; each needs at least one"
        )));
    }
    let timeout = settings.options.connect_timeout;
    let mut coordinator = Coordinator::start(&run.agents, timeout, interrupted)?;
    let share = connections / count;
    let load = spec.load_mut();
    let each = spec::threads_for(load.threads, connections.div_ceil(count), coordinator.least_cpus()).min(share);
    load.threads = Some(each * count);
    load.trace = spec::trace(load)?;
    settings.load.shape.threads = each * count;
    let job = Job {
        spec,
        any_server: run.any_server,
        password: settings.options.password.reveal().to_string(),
    };
    coordinator.offer(each, &job)?;
    Ok(Some(coordinator))
}

/// Serves one coordinator.
///
/// # Errors
/// When the coordinator cannot be reached, or does not keep to the protocol.
pub fn serve_agent() -> Result<Exit, Error> {
    agents::serve(&accept)
}

/// Makes the settings as for a run on this host, and checks the server from this host.
fn accept(mut job: Job, share: Share) -> Result<Arc<SqlSettings>, Error> {
    job.spec.connection_mut().password = Some(Secret::new(std::mem::take(&mut job.password)));
    let settings = job.spec.resolve()?;
    crate::host::take_priority(settings.load.priority);
    let mut control = server::connect(&settings.options)?;
    let needs = Needs {
        settings: &settings,
        single_table: job.spec.is_single_table()?,
        any_server: job.any_server,
    };
    preflight::check(&mut control, &needs)?;
    let most_each = settings.connections().div_ceil(settings.load.shape.threads);
    crate::host::allow_open_files(u64::from(most_each) * u64::from(share.threads) + 64)?;
    Ok(Arc::new(settings))
}
