//! Runs memcached operations: fill, load, compare with the server, judge, write the result.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use serde_json::{json, Value};

use super::observed::{observe_load, Conclusion};
use super::{exit_of, job, print_table, run_slices, without_priority, Outputs, RunOptions};
use crate::agents::{Coordinator, Job};
use crate::error::{Error, Exit};
use crate::kv::server::{self, Counters};
use crate::kv::{KvRecord, KvSession, KvSettings};
use crate::output::kv as output;
use crate::output::sinks::{Progress, Sinks};
use crate::quality::KvInputs;
use crate::server::Facts;
use crate::slices::{Input, KvTarget, NoObserver};
use crate::spec::{fill, trace_path, KvData, KvPart, KvServer, KvSpec, LoadSpec, RunSpec};

/// Runs it.
///
/// # Errors
/// When the run cannot begin, or an output fails.
pub fn run_kv(mut spec: KvSpec, run: &RunOptions) -> Result<Exit, Error> {
    // What is wrong with the options is found before any agent is started.
    spec.parts()?;
    let files: Vec<PathBuf> = trace_path(&spec.load).map(PathBuf::from).into_iter().collect();
    run.outputs.check_apart(&files, None)?;
    let input = run.slices.then(Input::open).transpose()?;
    let interrupted = match &input {
        Some(input) => Arc::clone(&input.interrupted),
        None => crate::host::interruption()?,
    };
    let team = engage(run, &mut spec, &interrupted)?;
    let parts = spec.parts()?;
    if let Some(part) = parts.first() {
        if spec.fills_counters()? {
            set_counters(&part.settings)?;
        }
    }
    match &input {
        Some(input) => fill_then_slices(&parts, run.server_pid, team, input),
        None => execute(&parts, &run.outputs, team, &interrupted),
    }
}

/// The agents with their shares; none without --agent. `spec` then contains the threads of all agents.
fn engage(
    run: &RunOptions,
    spec: &mut KvSpec,
    interrupted: &Arc<AtomicBool>,
) -> Result<Option<Coordinator<KvRecord>>, Error> {
    if run.agent.is_empty() {
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
    let of_agents = KvSpec {
        fill: None,
        ..spec.clone()
    };
    let mut job = Job {
        spec: RunSpec::Kv(Box::new(of_agents)),
        any_server: true,
        password: Vec::new(),
        ssl_ca_text: None,
        slices: run.slices,
    };
    let team = job::engage(&run.agent, &mut job, spec.server.connect_timeout, interrupted)?;
    spec.load = job.spec.load_mut().clone();
    Ok(Some(team))
}

/// Stores the keys that a run will use, and the counters.
///
/// # Errors
/// When the run cannot begin, or an output fails.
pub fn prepare_kv(
    server: &KvServer,
    data: &KvData,
    load: &LoadSpec,
    share: &str,
    outputs: &Outputs,
) -> Result<Exit, Error> {
    let parts: Vec<KvPart> = fill(server, data, load, share)?.into_iter().collect();
    if let Some(part) = parts.first() {
        set_counters(&part.settings)?;
    }
    execute(&parts, outputs, None, &crate::host::interruption()?)
}

/// Runs every part in turn; the last one's result is the command's.
fn execute(
    parts: &[KvPart],
    outputs: &Outputs,
    mut team: Option<Coordinator<KvRecord>>,
    interrupted: &Arc<AtomicBool>,
) -> Result<Exit, Error> {
    let Some(last) = parts.last() else {
        return Err(Error::User("a share of 0 stores nothing".into()));
    };
    let mut control = server::connect(
        &last.settings.endpoint,
        last.settings.protocol,
        last.settings.connect_timeout(),
    )?;
    let facts = server::check(&mut control, &last.settings, false)?;
    let mut counters = Counters::new(Arc::clone(&last.settings), control);
    crate::host::take_priority(last.settings.load.priority);
    crate::host::allow_open_files(u64::from(last.settings.load.shape.connections) + 64)?;
    let mut shown = output::settings(&last.settings, &last.words);
    if team.is_some() {
        without_priority(&mut shown);
    }
    let progress = Progress::new(outputs.quiet);
    let mut sinks = Sinks::start(&outputs.paths(), progress, &shown, &facts)?;
    let mut records = Vec::new();
    for (position, part) in parts.iter().enumerate() {
        let settings = &part.settings;
        sinks.progress().say(&format!(
            "{} on {} {} at {}: {} connections, {} threads, {} protocol, {} in progress on each",
            settings.name,
            facts.kind,
            facts.version,
            settings.endpoint,
            settings.load.shape.connections,
            settings.load.shape.threads,
            settings.protocol.name(),
            settings.depth
        ));
        let loads = if position + 1 == parts.len() { team.take() } else { None };
        let (end, exit) = measure(part, &facts, &mut counters, interrupted, &mut sinks, loads)?;
        let only_filled = settings.name == "fill" && position + 1 < parts.len();
        if !only_filled || exit != Exit::Done {
            print_table(&end.text, outputs.json.as_deref())?;
        }
        let failed = !matches!(exit, Exit::Done | Exit::Invalid);
        if position + 1 < parts.len() && !failed {
            sinks.record("part", &end.record)?;
            records.push(end.record);
            continue;
        }
        let mut record = end.record;
        // What came before stands in the final record too, so that a reader needs no other.
        record["parts"] = records.iter().map(summary_of_part).collect();
        sinks.finish(&record)?;
        return Ok(exit);
    }
    Ok(Exit::Done)
}

fn summary_of_part(record: &Value) -> Value {
    json!({
        "workload": record["settings"]["workload"],
        "duration_s": record["duration_s"],
        "counts": record["counts"],
        "kv": record["kv"],
        "reconciliation": record["reconciliation"],
        "verdict": record["verdict"],
    })
}

fn measure(
    part: &KvPart,
    facts: &Facts,
    server_counters: &mut Counters,
    interrupted: &Arc<AtomicBool>,
    sinks: &mut Sinks,
    team: Option<Coordinator<KvRecord>>,
) -> Result<(Conclusion, Exit), Error> {
    let settings = &part.settings;
    let mut read = || server_counters.read();
    let observed = observe_load::<KvSession, _>(settings, team, interrupted, &mut read, sinks)?;
    sinks.progress().finish();
    let (outcome, duration_s) = (&observed.outcome, observed.duration_s);
    let counters = observed.reconcile(|before, after, totals, cut_off| {
        let uncertain = totals.all.ignored_errors + totals.sums.lost + cut_off;
        server::reconcile(before, after, &totals.sums, uncertain)
    });
    let kv = outcome.totals.as_ref().map(|totals| KvInputs {
        measured: &totals.measured.extra.counts,
        all: &totals.sums,
        expected_hit_share: part.expected_hit_share,
    });
    let mut shown = output::settings(settings, &part.words);
    if !observed.agents.is_empty() {
        without_priority(&mut shown);
    }
    let mut end = observed.conclude(&settings.load, (&shown, facts), &counters, kv, None);
    if let Some(totals) = &outcome.totals {
        end.record["kv"] = output::body(settings, totals, duration_s);
        end.text.push_str(&output::table(settings, totals, duration_s));
    }
    if let Some(operations) = settings.load.limit.as_ref().map(|limit| limit.operations) {
        end.record["kv"]["total_time_s"] = json!(duration_s);
        end.text
            .push_str(&format!("\n  {operations} operations: total time {duration_s:.3} s\n"));
    }
    let exit = exit_of(outcome, end.quality);
    Ok((end, exit))
}

/// Fills, if requested, then runs slices of the last part.
fn fill_then_slices(
    parts: &[KvPart],
    server_pid: Option<u32>,
    team: Option<Coordinator<KvRecord>>,
    input: &Input,
) -> Result<Exit, Error> {
    let Some((last, fills)) = parts.split_last() else {
        return Err(Error::User("there is nothing to run".into()));
    };
    let settings = &last.settings;
    let mut control = server::connect(&settings.endpoint, settings.protocol, settings.connect_timeout())?;
    let facts = server::check(&mut control, settings, true)?;
    crate::host::take_priority(settings.load.priority);
    for fill in fills {
        let outcome = dyno_loop::run::<KvSession>(&fill.settings, &input.interrupted, &mut |_| (), &mut NoObserver)?;
        if let Some(failure) = outcome.failure {
            return Err(Error::Server(format!("--fill: {failure}")));
        }
        if outcome.interrupted {
            return Err(Error::Interrupted("interrupted while filling".into()));
        }
    }
    let shown = output::settings(settings, &last.words);
    let target = KvTarget::new(Arc::clone(settings), control);
    run_slices(target, team, &settings.load, server_pid, shown, &facts, input)
}

/// Stores 0 under every counter.
fn set_counters(settings: &KvSettings) -> Result<(), Error> {
    let mut control = server::connect(&settings.endpoint, settings.protocol, settings.connect_timeout())?;
    let mut key = Vec::new();
    for number in 0..settings.workload.counters {
        key.clear();
        settings.workload.write_counter(number, &mut key);
        let item = dyno_kv::Item {
            key: &key,
            flags: 0,
            ttl_s: 0,
            value: b"0",
        };
        control
            .exchange(|connection| connection.store(dyno_kv::Store::Set, &item, false), |_| {})
            .map_err(|error| Error::Server(format!("counter {number} could not be stored: {error}")))?;
    }
    Ok(())
}
