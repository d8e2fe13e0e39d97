//! `dynoload replay`: sends the statements of a capture again, each session in its order and at its times.

pub mod compare;
mod outcome;
mod plan;
mod planner;
mod preflight;
mod results;
mod shown;
mod summary;
mod worker;

pub use outcome::{add_row, FirstError, NotSent, Outcome, Record, Replayed};
pub use plan::{LeftOut, Pace, ReplayPlan, ReplayRun, Selection};
pub use summary::Summary;

pub(crate) use preflight::unique_keys;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use dyno_capture::{fingerprint, Action, Capture, Fingerprint, UniqueKeys};
use dyno_core::clock::now_ns;
use dyno_mysql::CAPTURED_STATE;
use worker::{Shared, Worker, LEAD_NS};

use crate::error::{Error, Exit};
use crate::output::check_apart;
use crate::quality::RunQuality;
use crate::server::Facts;
use crate::sql::captured::unknown_charset;

/// Sessions for which one thread is enough.
const SESSIONS_PER_THREAD: u32 = 64;
/// Between the start of the threads and the first statement.
const START_DELAY_NS: u64 = LEAD_NS + 100_000_000;
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_millis(50);

/// Replays a capture.
///
/// # Errors
/// When the capture, the server or this host will not do; nothing was sent then.
pub fn run(run: &ReplayRun) -> Result<Exit, Error> {
    let outputs = [("--results", run.results.as_deref()), ("--json", run.json.as_deref())];
    check_apart(&[("CAPTURE", run.capture.as_path())], &outputs)?;
    let capture = crate::capture::read(&run.capture)?;
    if let Some(why) = capture.not_replayed() {
        return Err(Error::User(format!("'{}' {why}", run.capture.display())));
    }
    if capture.header.anonymised {
        dyno_core::tell!("dynoload: warning: the literals of this capture are pseudonyms: its statements find other rows than the captured ones");
    }
    let identity = identity(&capture);
    let plan = ReplayPlan::new(capture, &run.selection);
    if plan.statements.is_empty() {
        return Err(Error::User(format!(
            "no statement of '{}' is left to replay: {}",
            run.capture.display(),
            shown::left_out(&plan.left_out).unwrap_or_else(|| "it has none".into())
        )));
    }
    if plan.unknown_schema > 0 {
        return Err(Error::User(format!(
            "{} statements of '{}' name tables without a schema, and their sessions began before the log, so that their default \
             schema is unknown: name it with --database",
            plan.unknown_schema,
            run.capture.display()
        )));
    }
    if plan.unknown_charset > 0 {
        return Err(Error::User(unknown_charset(plan.unknown_charset, &run.capture)));
    }
    if let Some((event, schema)) = plan.writes_into_original(&run.selection) {
        return Err(Error::User(format!(
            "event {event} of '{}' does not only read, and names the schema {schema} itself, which --schema does not \
             change: it might write to {schema}. Replay with --read-only, or on a server where the copy is called {schema}",
            run.capture.display()
        )));
    }
    let server = preflight::check(run, &plan)?;
    // Both files are opened before any load.
    let results = run.results.as_deref().map(create).transpose()?;
    let json = run
        .json
        .as_deref()
        .filter(|path| *path != Path::new("-"))
        .map(create)
        .transpose()?;
    let replayed = replay(run, plan, server, identity)?;
    let summary = Summary::new(&replayed, &run.ignore_errors);
    if let Some(file) = results {
        results::write(&replayed, &summary.verdict, file)?;
    }
    shown::print(run, &replayed, &summary, json)?;
    Ok(match summary.verdict.verdict {
        _ if replayed.interrupted => Exit::Interrupted,
        RunQuality::Invalid => Exit::Invalid,
        _ => Exit::Done,
    })
}

fn create(path: &Path) -> Result<std::fs::File, Error> {
    std::fs::File::create(path).map_err(|error| Error::User(format!("'{}' cannot be written: {error}", path.display())))
}

/// A name for what the capture holds: replays are compared statement by statement only if it is equal.
fn identity(capture: &Capture) -> Fingerprint {
    let mut sum = [0; 8];
    for event in &capture.events {
        if let Action::Statement(statement) = &event.action {
            let mut bytes = sum.to_vec();
            bytes.extend_from_slice(&event.session.to_le_bytes());
            bytes.extend_from_slice(&statement.text);
            sum = fingerprint(&bytes).0.to_le_bytes();
        }
    }
    Fingerprint(u64::from_le_bytes(sum))
}

fn replay(
    run: &ReplayRun,
    plan: ReplayPlan,
    (server, unique_keys): (Facts, UniqueKeys),
    identity: Fingerprint,
) -> Result<Replayed, Error> {
    let most_open = run.most_open(&plan);
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let threads = run
        .threads
        .unwrap_or_else(|| plan.peak_sessions.div_ceil(SESSIONS_PER_THREAD).clamp(1, processors));
    let threads = threads.min(most_open);
    crate::host::allow_open_files(u64::from(most_open) + 64)?;
    let interrupted = crate::host::interruption()?;
    let shared = Shared {
        plan,
        pace: run.pace,
        checksums: run.results.is_some(),
        address: run.connection.address()?,
        options: run.connection.options(false, Some(CAPTURED_STATE))?,
        grace_ns: run.grace.as_nanos() as u64,
        done: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        interrupted: Arc::clone(&interrupted),
    };
    let begin_ns = now_ns() + START_DELAY_NS;
    let record = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for worker in 0..threads {
            let sessions = (worker as usize..shared.plan.sessions.len())
                .step_by(threads as usize)
                .collect();
            let share = (most_open + threads - 1 - worker) / threads;
            let shared = &shared;
            let work = move || Worker::new(shared, sessions, share as usize, begin_ns)?.run();
            workers.push(
                std::thread::Builder::new()
                    .name(format!("replay-{worker}"))
                    .spawn_scoped(scope, work)?,
            );
        }
        follow(&shared, run.quiet, || {
            workers.iter().all(std::thread::ScopedJoinHandle::is_finished)
        });
        let mut record = Record::default();
        for worker in workers {
            // A worker that panics has aborted the program.
            record.merge(
                worker
                    .join()
                    .unwrap_or_else(|_| Err(std::io::Error::other("a worker failed")))?,
            );
        }
        record.outcomes.sort_unstable_by_key(|outcome| outcome.statement);
        Ok::<Record, std::io::Error>(record)
    });
    let record = record.map_err(|error| Error::Host(format!("the replay cannot be done: {error}")))?;
    Ok(Replayed {
        duration_ns: now_ns().saturating_sub(begin_ns),
        interrupted: interrupted.load(Ordering::Relaxed),
        pace: run.pace,
        plan: shared.plan,
        record,
        server,
        unique_keys,
        identity,
        threads,
    })
}

/// One line a second until the workers have ended.
fn follow(shared: &Shared, quiet: bool, has_ended: impl Fn() -> bool) {
    let begin_ns = now_ns();
    let mut next_ns = begin_ns + PROGRESS_EVERY.as_nanos() as u64;
    while !has_ended() {
        std::thread::sleep(WAIT);
        if quiet || now_ns() < next_ns {
            continue;
        }
        next_ns += PROGRESS_EVERY.as_nanos() as u64;
        let (done, errors) = (
            shared.done.load(Ordering::Relaxed),
            shared.errors.load(Ordering::Relaxed),
        );
        let (seconds, all) = ((now_ns() - begin_ns) / 1_000_000_000, shared.plan.statements.len());
        dyno_core::tell!("  {seconds:>4} s  {done} of {all} statements  {errors} errors");
    }
}
