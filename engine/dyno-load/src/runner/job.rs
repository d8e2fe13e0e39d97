//! Runs on several hosts: the coordinator sends the spec, and each agent resolves and checks it on its own host.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use dyno_loop::Share;
use dyno_mysql::Secret;

use super::kv::KvRun;
use super::sql::SqlRun;
use crate::agents::{self, Coordinator, Job, JobSettings, Shippable};
use crate::error::{Error, Exit};
use crate::kv::{server as kv_server, KvRecord};
use crate::spec::{self, KvSpec, LoadSpec, RunSpec, SqlSpec};
use crate::sql::part::Part;
use crate::sql::preflight::{self, Needs};
use crate::sql::{server, SqlRecord, SqlSettings};

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
) -> Result<Option<Coordinator<SqlRecord>>, Error> {
    if run.agents.is_empty() {
        return Ok(None);
    }
    let mut team = start(
        &run.agents,
        settings.connections(),
        settings.options.connect_timeout,
        interrupted,
    )?;
    let each = divide(&team, spec.load_mut())?;
    settings.load.shape.threads = each * team.count();
    let ssl_ca_text = spec.connection_mut().read_ssl_ca()?;
    let job = Job {
        spec: RunSpec::Sql(Box::new(spec)),
        any_server: run.any_server,
        password: settings.options.password.reveal().to_vec(),
        ssl_ca_text,
        slices: run.slices.is_some(),
    };
    team.offer(each, &job)?;
    Ok(Some(team))
}

/// The same for operations of memcached; `spec` then contains the threads of all agents.
///
/// # Errors
/// As [`engage`].
pub fn engage_kv(
    run: &KvRun,
    spec: &mut KvSpec,
    interrupted: &Arc<AtomicBool>,
) -> Result<Option<Coordinator<KvRecord>>, Error> {
    if run.agents.is_empty() {
        return Ok(None);
    }
    if spec.preset.name.is_some() || spec.operations.is_some() {
        return Err(Error::User(
            "--agent: a load of several hosts lasts a time; remove --preset and --operations".into(),
        ));
    }
    if spec.mix.choice_of_keys()?.starts_with("latest") {
        return Err(Error::User(
            "--agent: only one program knows which key is the newest; remove --agent, or --ycsb d or --key-choice latest"
                .into(),
        ));
    }
    let mut team = start(
        &run.agents,
        spec.load.connections,
        spec.server.connect_timeout,
        interrupted,
    )?;
    let each = divide(&team, &mut spec.load)?;
    let job = Job {
        spec: RunSpec::Kv(Box::new(KvSpec {
            fill: None,
            ..spec.clone()
        })),
        any_server: true,
        password: Vec::new(),
        ssl_ca_text: None,
        slices: run.slices.is_some(),
    };
    team.offer(each, &job)?;
    Ok(Some(team))
}

fn start<E: Shippable>(
    commands: &[String],
    connections: u32,
    timeout: Duration,
    interrupted: &Arc<AtomicBool>,
) -> Result<Coordinator<E>, Error> {
    let count = commands.len() as u32;
    if connections < count {
        return Err(Error::User(format!(
            "--connections {connections} is fewer than the {count} agents; each needs at least one"
        )));
    }
    Coordinator::start(commands, timeout, interrupted)
}

/// Sets the threads of all agents together; returns those of each.
fn divide<E: Shippable>(team: &Coordinator<E>, load: &mut LoadSpec) -> Result<u32, Error> {
    let (count, connections) = (team.count(), load.connections);
    let share = connections / count;
    let each = spec::threads_for(load.threads, connections.div_ceil(count), team.least_cpus()).min(share);
    load.threads = Some(each * count);
    load.trace = spec::trace(load)?;
    Ok(each)
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
