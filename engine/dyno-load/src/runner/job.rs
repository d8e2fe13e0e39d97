//! Runs on several hosts: the coordinator sends the spec, and each agent resolves and checks it on its own host.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use dyno_loop::Share;
use dyno_mysql::Secret;

use crate::agents::{self, Coordinator, Job, JobSettings, Shippable};
use crate::error::{Error, Exit};
use crate::kv::server as kv_server;
use crate::spec::{self, KvSpec, RunSpec, SqlSpec};
use crate::sql::definition::Part;
use crate::sql::preflight::{self, Needs};
use crate::sql::server;

/// Starts the agents and has them check their shares of the job, whose load then has the threads of all of them.
///
/// # Errors
/// When an agent cannot be started or refuses, or there is too little for each.
pub fn engage<E: Shippable>(
    commands: &[String],
    job: &mut Job,
    timeout: Duration,
    interrupted: &Arc<AtomicBool>,
) -> Result<Coordinator<E>, Error> {
    let load = job.spec.load_mut();
    let (count, connections) = (commands.len() as u32, load.connections());
    if connections < count {
        return Err(Error::User(format!(
            "--connections {connections} is fewer than the {count} agents; each needs at least one"
        )));
    }
    let mut team = Coordinator::start(commands, timeout, interrupted)?;
    let most_each = connections.div_ceil(count);
    let each = spec::threads_for(load.threads, most_each, team.least_cpus()).min(connections / count);
    (load.connections, load.threads) = (Some(connections), Some(each * count));
    load.trace = spec::trace(load)?;
    team.offer(each, job)?;
    Ok(team)
}

/// Serves one coordinator.
///
/// # Errors
/// When the coordinator cannot be reached, or does not keep to the protocol.
pub fn serve_agent() -> Result<Exit, Error> {
    agents::serve(&accept)
}

/// Makes the settings as for a run on this host, and checks the server from this host.
fn accept(job: Job, share: Share) -> Result<JobSettings, Error> {
    match job.spec {
        RunSpec::Sql(mut spec) => {
            let connection = spec.connection_mut();
            connection.password = Some(Secret::new(job.password));
            connection.ssl_ca_text = job.ssl_ca_text;
            accept_sql(&spec, job.any_server, share)
        }
        RunSpec::Kv(spec) => accept_kv(&spec, share),
    }
}

fn accept_sql(spec: &SqlSpec, any_server: bool, share: Share) -> Result<JobSettings, Error> {
    let mut settings = spec.resolve()?;
    settings.workload.divide(Part {
        index: share.first_worker / share.threads,
        count: settings.load.shape.threads / share.threads,
    });
    crate::host::take_priority(settings.load.priority);
    let mut control = server::connect(&settings.options)?;
    let needs = Needs {
        settings: &settings,
        single_table: spec.is_single_table()?,
        any_server,
    };
    preflight::check(&mut control, &needs)?;
    allow_files(settings.connections(), settings.load.shape.threads, share)?;
    Ok(JobSettings::Sql(Arc::new(settings)))
}

fn accept_kv(spec: &KvSpec, share: Share) -> Result<JobSettings, Error> {
    let last = spec.parts()?.pop();
    let settings = last
        .ok_or_else(|| Error::User("there is nothing to run".into()))?
        .settings;
    crate::host::take_priority(settings.load.priority);
    let mut control = kv_server::connect(&settings.endpoint, settings.protocol, settings.connect_timeout())?;
    kv_server::check(&mut control, &settings, false)?; // the coordinator knows whether the connections are held
    let shape = &settings.load.shape;
    allow_files(shape.connections, shape.threads, share)?;
    Ok(JobSettings::Kv(settings))
}

fn allow_files(connections: u32, threads: u32, share: Share) -> Result<(), Error> {
    let most_each = connections.div_ceil(threads);
    crate::host::allow_open_files(u64::from(most_each) * u64::from(share.threads) + 64)
}
