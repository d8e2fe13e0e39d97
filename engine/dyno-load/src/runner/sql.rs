//! Runs SQL: check, load, judge, write the result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use dyno_loop::{Address, Outcome};
use dyno_mysql::blocking::Client;
use serde_json::Value;

use super::{exit_of, job, print_table, run_slices, tcp_segments_since, without_priority, Outputs, SliceOptions};
use crate::agents::Coordinator;
use crate::error::{Error, Exit};
use crate::output::json::{self, Final};
use crate::output::progress::Progress;
use crate::output::sinks::Sinks;
use crate::output::{sql as output, table};
use crate::quality::{self, Measurement, QualityInputs};
use crate::server::{CounterCheck, Facts};
use crate::slices::{Input, SqlTarget};
use crate::spec::SqlSpec;
use crate::sql::preflight::{self, Needs};
use crate::sql::reconciliation::ServerCounters;
use crate::sql::tpcc::{check, procedures};
use crate::sql::{server, SqlRecord, SqlSession, SqlSettings};

/// One run of SQL.
#[derive(Debug)]
pub struct SqlRun {
    /// What to run.
    pub spec: SqlSpec,
    /// Whether a server that is neither MySQL nor MariaDB will do.
    pub any_server: bool,
    /// Commands that start agents; empty where this program loads.
    pub agents: Vec<String>,
    /// Slices in place of one measurement.
    pub slices: Option<SliceOptions>,
    /// Where results go.
    pub outputs: Outputs,
}

/// Runs it.
///
/// # Errors
/// When the run cannot begin, or an output fails.
pub fn run_sql(run: &SqlRun) -> Result<Exit, Error> {
    let mut spec = run.spec.clone();
    let (mut settings, mut control) = connect(&mut spec)?;
    crate::host::take_priority(settings.load.priority);
    if settings.workload.tpcc().is_some_and(|config| config.stored_procedures) {
        procedures::create(&mut control)?;
    }
    let needs = Needs {
        settings: &settings,
        single_table: spec.is_single_table()?,
        any_server: run.any_server,
    };
    let facts = preflight::check(&mut control, &needs)?;
    let mut description = spec.description(&settings);
    description.tls_in_use = server::tls_in_use(&control);
    if let Some(slices) = &run.slices {
        let input = Input::open()?;
        let team = job::engage(run, &mut settings, spec, &input.interrupted)?;
        let shown = output::settings(&settings, &description);
        let load = settings.load.clone();
        let target = SqlTarget::new(settings, control);
        return run_slices(target, team, &load, slices, shown, &facts, &input);
    }
    let interrupted = crate::host::interruption()?;
    let team = job::engage(run, &mut settings, spec, &interrupted)?;
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
            let control = server::connect(&settings.options)?;
            Ok((settings, control))
        }
        SqlSpec::Tpcc(tpcc) => {
            // The control connection commits each statement: an open read view would hold back the purge during the run.
            let mut control = server::connect(&tpcc.connection.options(true)?)?;
            if tpcc.terminals.warehouses.is_none() {
                // Agents count none themselves: all have the same.
                tpcc.terminals.warehouses = Some(check::count_warehouses(&mut control)?.max(1));
            }
            Ok((tpcc.resolve()?, control))
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
    progress.say(&format!(
        "{} on {} {} at {}: {} connections, {} threads{}",
        settings.workload.definition().name,
        facts.kind,
        facts.version,
        settings.options.endpoint,
        settings.connections(),
        settings.load.shape.threads,
        team.as_ref()
            .map_or_else(String::new, |team| format!(" of {} agents", team.count()))
    ));
    let mut sinks = Sinks::start(&outputs.paths(), progress, &shown, facts)?;
    let mut before = None;
    let tcp_before = crate::host::tcp_segments();
    let mut read_counters = || before = ServerCounters::read(&mut control).ok();
    let (outcome, agents) = match team {
        None => (
            dyno_loop::run::<SqlSession>(settings, interrupted, &mut read_counters, &mut sinks)?,
            Vec::new(),
        ),
        Some(team) => team.run(&settings.load, &mut read_counters, &mut sinks)?,
    };
    sinks.progress().finish();
    let counters = reconcile(before.as_ref(), &mut control, settings, &outcome);
    // The kernel's counts are of this host, and the load of an agent is not on it.
    let is_local_tcp = agents.is_empty() && matches!(settings.load.address, Address::Tcp(_));
    let tcp = tcp_segments_since(tcp_before.filter(|_| is_local_tcp));
    let duration_s = measured_s(settings, &outcome, interrupted);
    let (quality, findings) = match &outcome.totals {
        None => quality::without_load(),
        Some(totals) => quality::judge(&QualityInputs {
            measured: Measurement::of(totals),
            end: outcome.end,
            duration_s,
            failure: outcome.failure.as_ref(),
            threads: settings.load.shape.threads,
            open_loop: settings.load.shape.is_timed(),
            counters: &counters,
            agents: &agents,
            tcp,
            kv: None,
        }),
    };
    let result = Final {
        settings: &shown,
        server: facts,
        outcome: &outcome,
        agents: &agents,
        counters: &counters,
        quality,
        findings: &findings,
        duration_s,
    };
    sinks.finish(&json::final_record(&result))?;
    print_table(&table::render(&result), outputs.json.as_deref())?;
    Ok(exit_of(&outcome, quality))
}

fn measured_s(settings: &SqlSettings, outcome: &Outcome<SqlRecord>, interrupted: &AtomicBool) -> f64 {
    let planned_s = settings.load.shape.duration_ns as f64 / 1e9;
    let ended_early = outcome.failure.is_some() || interrupted.load(Ordering::Relaxed);
    match outcome.timeline {
        Some(timeline) if ended_early => {
            let now = dyno_core::clock::now_ns();
            (now.saturating_sub(timeline.measure_ns) as f64 / 1e9).clamp(1e-3, planned_s)
        }
        _ => planned_s,
    }
}

fn reconcile(
    before: Option<&ServerCounters>,
    control: &mut Client,
    settings: &SqlSettings,
    outcome: &Outcome<SqlRecord>,
) -> Vec<CounterCheck> {
    let (Some(before), Some(totals)) = (before, &outcome.totals) else {
        return Vec::new();
    };
    // A server that left transactions without an end may hang: asking it would delay the end of the run.
    if outcome.failure.is_some() || outcome.end.unfinished > 0 || settings.connects_each_time() {
        return Vec::new();
    }
    // A server that is gone after the load has no counters: the comparison is absent then, not zero.
    let Ok(after) = ServerCounters::read(control) else {
        return Vec::new();
    };
    let cut_off = if outcome.interrupted {
        outcome.end.in_flight_at_stop
    } else {
        0
    };
    let connections = u64::from(settings.connections());
    after.reconcile(before, totals, totals.all.ignored_errors + cut_off, connections)
}
