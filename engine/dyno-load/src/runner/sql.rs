//! Runs SQL: check, load, judge, write the result.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use dyno_mysql::blocking::Client;
use dyno_mysql::OWN_STATE;
use serde_json::Value;

use super::observed::observe_load;
use super::{exit_of, job, print_table, run_slices, without_priority, Outputs, RunOptions};
use crate::agents::{Coordinator, Job};
use crate::error::{Error, Exit};
use crate::output::sinks::{Progress, Sinks};
use crate::output::sql as output;
use crate::quality::OwnSql;
use crate::server::Facts;
use crate::slices::{Input, SqlTarget};
use crate::spec::{RunSpec, SqlSpec};
use crate::sql::preflight::{self, Needs};
use crate::sql::reconciliation::ServerCounters;
use crate::sql::script::{MainThread, Reporting, ScriptSession};
use crate::sql::tpcc::{check, create_procedures};
use crate::sql::{server, SqlRecord, SqlSession, SqlSettings, SqlWorkload};

/// Runs it.
///
/// # Errors
/// When the run cannot begin, or an output fails.
pub fn run_sql(mut spec: SqlSpec, run: &RunOptions) -> Result<Exit, Error> {
    let (mut settings, mut control) = connect(&mut spec)?;
    let acknowledged = settings.acknowledged.as_deref();
    run.outputs.check_apart(&spec.files(), acknowledged)?;
    if let Some(path) = acknowledged {
        // Fails here rather than after the connections are made; an old run's orders are not of this one.
        std::fs::File::create(path).map_err(|error| {
            Error::User(format!(
                "--acknowledged '{}' cannot be written: {error}",
                path.display()
            ))
        })?;
    }
    crate::host::take_priority(settings.load.priority);
    if settings.workload.tpcc().is_some_and(|config| config.stored_procedures) {
        create_procedures(&mut control)?;
    }
    let needs = Needs {
        settings: &settings,
        single_table: spec.is_single_table()?,
        any_server: run.outputs.any_server,
    };
    let facts = preflight::check(&mut control, &needs)?;
    if run.agent.is_empty() {
        preflight::warn_of_local_ports(&settings);
    }
    let mut description = spec.description(&settings);
    description.tls_in_use = server::tls_in_use(&control);
    if run.slices {
        let input = Input::open()?;
        let team = engage(run, &mut settings, spec, &input.interrupted)?;
        let shown = output::settings(&settings, &description);
        let load = settings.load.clone();
        let settings = Arc::new(settings);
        let main = main_thread(&settings)?;
        let target = SqlTarget::new(&settings, control);
        let exit = run_slices(target, team, &load, run.server_pid, shown, &facts, &input)?;
        main.map_or(Ok(()), |main| main.finish(None))?;
        return Ok(exit);
    }
    let interrupted = crate::host::interruption()?;
    let team = engage(run, &mut settings, spec, &interrupted)?;
    let shown = output::settings(&settings, &description);
    measure(
        &Arc::new(settings),
        shown,
        &facts,
        control,
        team,
        &interrupted,
        &run.outputs,
    )
}

/// The settings, and the control connection. The warehouses of TPC-C are counted first where their number is not given.
fn connect(spec: &mut SqlSpec) -> Result<(SqlSettings, Client), Error> {
    match spec {
        SqlSpec::Oltp(oltp) => {
            let settings = oltp.resolve()?;
            let control = server::connect(&settings.control_options())?;
            Ok((settings, control))
        }
        SqlSpec::File(file) => {
            let settings = file.resolve()?;
            let mut control = server::connect(&settings.control_options())?;
            warn_of_autocommit(&mut control);
            Ok((settings, control))
        }
        SqlSpec::Script(script) => {
            let settings = script.resolve()?;
            let mut control = server::connect(&settings.control_options())?;
            warn_of_autocommit(&mut control);
            Ok((settings, control))
        }
        SqlSpec::Tpcc(tpcc) => {
            // The control connection commits each statement: an open read view would hold back the purge during the run.
            let mut control = server::connect(&tpcc.connection.options(true, Some(OWN_STATE))?)?;
            if tpcc.terminals.warehouses.is_none() {
                // Agents count none themselves: all have the same.
                tpcc.terminals.warehouses = Some(check::count_warehouses(&mut control)?.max(1));
            }
            Ok((tpcc.resolve()?, control))
        }
    }
}

/// The agents with their shares; none without --agent. `settings` then contain the threads of all agents.
fn engage(
    run: &RunOptions,
    settings: &mut SqlSettings,
    mut spec: SqlSpec,
    interrupted: &Arc<AtomicBool>,
) -> Result<Option<Coordinator<SqlRecord>>, Error> {
    if run.agent.is_empty() {
        return Ok(None);
    }
    let ssl_ca_text = spec.connection_mut().read_ssl_ca()?;
    let mut job = Job {
        spec: RunSpec::Sql(Box::new(spec)),
        any_server: run.outputs.any_server,
        password: settings.options.password.reveal().to_vec(),
        ssl_ca_text,
        slices: run.slices,
    };
    let team = job::engage(&run.agent, &mut job, settings.options.connect_timeout, interrupted)?;
    settings.load.shape.threads = team.threads();
    Ok(Some(team))
}

/// The user's statements run in the state that the server gives each session; one of its values loses what they change.
fn warn_of_autocommit(control: &mut Client) {
    if let Ok(Some(value)) = control.query_text("SELECT @@GLOBAL.autocommit") {
        if value == "0" {
            dyno_core::tell!(
                "dynoload: warning: autocommit of the server is OFF, and the sessions inherit it: what the statements change is \
                 lost unless they commit"
            );
        }
    }
}

/// Runs the load, judges it, and writes every output.
fn measure(
    settings: &Arc<SqlSettings>,
    mut shown: Value,
    facts: &Facts,
    mut control: Client,
    team: Option<Coordinator<SqlRecord>>,
    interrupted: &AtomicBool,
    outputs: &Outputs,
) -> Result<Exit, Error> {
    match &team {
        Some(_) => without_priority(&mut shown),
        None => crate::host::allow_open_files(u64::from(settings.connections()) + 64)?,
    }
    let progress = Progress::new(outputs.quiet);
    announce(&progress, settings, facts, team.as_ref());
    let mut main = main_thread(settings)?;
    let is_script = main.is_some();
    let mut sinks = Sinks::start(&outputs.paths(), progress, &shown, facts)?;
    let mut reporting = Reporting {
        observer: &mut sinks,
        main: main.as_mut(),
    };
    let mut read = || ServerCounters::read(&mut control).ok();
    let observed = if is_script {
        observe_load::<ScriptSession, _>(settings, team, interrupted, &mut read, &mut reporting)?
    } else {
        observe_load::<SqlSession, _>(settings, team, interrupted, &mut read, &mut reporting)?
    };
    sinks.progress().finish();
    let of_hooks = main.as_ref().map_or(0, MainThread::questions);
    let counters = observed.reconcile(|before, after, totals, cut_off| {
        if settings.connects_each_time() {
            return Vec::new();
        }
        let uncertain = totals.all.ignored_errors + cut_off + of_hooks;
        after.reconcile(before, totals, uncertain, settings.questions_of_reconnecting(totals))
    });
    if let Some(main) = main {
        if let Err(error) = main.finish(Some((&observed.outcome, observed.duration_s))) {
            // The result of the load stays.
            dyno_core::tell!("dynoload: {error}");
        }
    }
    let own_sql = observed
        .outcome
        .totals
        .as_ref()
        .and_then(|totals| OwnSql::of(settings, &totals.measured.extra));
    let end = observed.conclude(&settings.load, (&shown, facts), &counters, None, own_sql);
    sinks.finish(&end.record)?;
    print_table(&end.text, outputs.json.as_deref())?;
    Ok(exit_of(&observed.outcome, end.quality))
}

/// What is about to run, for a person.
fn announce(progress: &Progress, settings: &SqlSettings, facts: &Facts, team: Option<&Coordinator<SqlRecord>>) {
    progress.say(&format!(
        "{} on {} {} at {}: {} connections, {} threads{}",
        settings.workload.definition().name,
        facts.kind,
        facts.version,
        settings.options.endpoint,
        settings.connections(),
        settings.load.shape.threads,
        team.map_or_else(String::new, |team| format!(" of {} agents", team.count()))
    ));
    if let SqlWorkload::Captured(context) = &settings.workload {
        progress.say(&context.contents());
    }
}

/// A script's init() has run when this returns; none for other workloads.
fn main_thread(settings: &Arc<SqlSettings>) -> Result<Option<MainThread>, Error> {
    match &settings.workload {
        SqlWorkload::Script(context) => MainThread::start(context, settings).map(Some),
        _ => Ok(None),
    }
}
