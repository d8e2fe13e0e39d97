//! The result of a replay for people and programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use dyno_core::histogram;
use dyno_core::wire::{Format, LineWriter};
use serde_json::json;

use super::{LeftOut, Pace, ReplayRun, Replayed, Summary};
use crate::capture::shortened;
use crate::error::Error;

/// Name and version of the format.
const FORMAT: Format = Format {
    format: "dynoload-replay",
    format_version: 1,
    program: "dynoload",
    version: env!("CARGO_PKG_VERSION"),
};
/// Digests that the table lists; JSON has all.
const MOST_DIGESTS: usize = 20;
/// Errors that the table lists.
const MOST_ERRORS: usize = 10;
const DIGEST_WIDTH: usize = 60;

/// Writes the JSON and the table.
///
/// # Errors
/// When an output fails.
pub fn print(run: &ReplayRun, replayed: &Replayed, summary: &Summary, json: Option<File>) -> Result<(), Error> {
    let text = table(run, replayed, summary);
    if let Some(file) = json {
        write_json(run, replayed, summary, BufWriter::new(file))?;
    }
    if run.json.as_deref() == Some(Path::new("-")) {
        write_json(run, replayed, summary, dyno_core::streams::stdout())?;
        dyno_core::streams::stderr().write_all(text.as_bytes())?;
    } else {
        dyno_core::streams::stdout().write_all(text.as_bytes())?;
    }
    Ok(())
}

fn pace(pace: Pace) -> String {
    match pace {
        Pace::Max => "max".into(),
        Pace::Times(factor) => factor.to_string(),
    }
}

fn write_json(run: &ReplayRun, replayed: &Replayed, summary: &Summary, mut writer: impl Write) -> Result<(), Error> {
    let header = json!({
        "capture": run.capture.file_name().map(|name| name.to_string_lossy()),
        "capture_identity": replayed.identity,
        "server": replayed.server,
        "settings": {
            "endpoint": run.connection.socket.as_ref().map_or_else(
                || format!("{}:{}", run.connection.host, run.connection.port),
                |socket| socket.display().to_string(),
            ),
            "speed": pace(replayed.pace),
            "threads": replayed.threads,
            "connections": run.connections,
            "read_only": run.selection.read_only,
            "schemas": run.selection.schemas.iter().cloned().collect::<BTreeMap<_, _>>(),
            "checksums": run.results.is_some(),
        },
    });
    let mut lines = LineWriter::start(&mut writer, FORMAT, &header)?;
    let mut body = json!(summary);
    body["interrupted"] = json!(replayed.interrupted);
    lines.record("final", &body)?;
    writer.flush()?;
    Ok(())
}

/// What was not to be replayed, in words; none where all was.
pub fn left_out(left_out: &LeftOut) -> Option<String> {
    let parts = [
        (
            left_out.administration,
            "administer the server, accounts or other sessions (SET GLOBAL, GRANT, KILL, …)",
        ),
        (left_out.not_read_only, "do not only read (--read-only)"),
        (left_out.after_limit, "are after --limit-time"),
        (left_out.beyond_sessions, "are of sessions beyond --limit-sessions"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn table(run: &ReplayRun, replayed: &Replayed, summary: &Summary) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(&mut text, run, replayed, summary);
    text
}

fn write_table(out: &mut String, run: &ReplayRun, replayed: &Replayed, summary: &Summary) -> std::fmt::Result {
    let speed = match replayed.pace {
        Pace::Max => "as fast as possible".into(),
        Pace::Times(1.0) => "at the captured pace".into(),
        Pace::Times(factor) => format!("{factor} times as fast as captured"),
    };
    writeln!(
        out,
        "{}: {} of {} statements of '{}' in {:.1} s {speed} (captured in {:.1} s), {} failed",
        summary.verdict.verdict.word(),
        summary.sent,
        summary.planned,
        run.capture.display(),
        summary.duration_s,
        summary.captured_s,
        summary.errors
    )?;
    for finding in &summary.verdict.findings {
        writeln!(out, "  {}: {}", finding.level.word(), finding.reason)?;
    }
    writeln!(
        out,
        "  server {} {}, {} connections, {:.0} statements/s\n",
        replayed.server.kind, replayed.server.version, summary.connections, summary.qps
    )?;
    writeln!(
        out,
        "  {:<10}{:>10} {:>11} {:>11} {:>11} {:>11} {:>11}",
        "µs", "count", "mean", "p50", "p95", "p99", "max"
    )?;
    for (name, latency) in [
        ("response", &summary.response),
        ("service", &summary.service),
        ("lag", &summary.lag),
        ("own lag", &summary.own_lag),
    ] {
        if let Some(latency) = latency {
            writeln!(
                out,
                "  {name:<10}{:>10} {:>11.0} {:>11.0} {:>11.0} {:>11.0} {:>11.0}",
                latency.count, latency.mean_us, latency.p50_us, latency.p95_us, latency.p99_us, latency.max_us
            )?;
        }
    }
    write_digests(out, summary)?;
    write_errors(out, summary)?;
    let not_sent = summary.not_sent;
    if let Some(text) = left_out(&summary.left_out) {
        writeln!(out, "\n  left out: {text}")?;
    }
    if !replayed.plan.problems.is_empty() {
        writeln!(out, "\n  of the capture:")?;
    }
    for seen in &replayed.plan.problems {
        writeln!(out, "  {:>8}  {}", seen.count, seen.problem.describe())?;
    }
    if not_sent.not_connected + not_sent.at_end > 0 {
        writeln!(
            out,
            "\n  not sent: {} (their session could not connect), {} (the replay ended before)",
            not_sent.not_connected, not_sent.at_end
        )?;
    }
    Ok(())
}

fn write_digests(out: &mut String, summary: &Summary) -> std::fmt::Result {
    writeln!(
        out,
        "\n  {:>8} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}  service by digest, µs",
        "count", "errors", "rows", "mean", "p50", "p95", "p99"
    )?;
    for digest in summary.digests.iter().take(MOST_DIGESTS) {
        let figure = |of: fn(&histogram::Summary) -> f64| {
            digest
                .service
                .as_ref()
                .map_or("-".to_string(), |service| format!("{:.0}", of(service)))
        };
        writeln!(
            out,
            "  {:>8} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}  {}",
            digest.count,
            digest.errors,
            digest.rows,
            figure(|service| service.mean_us),
            figure(|service| service.p50_us),
            figure(|service| service.p95_us),
            figure(|service| service.p99_us),
            shortened(&digest.digest, DIGEST_WIDTH)
        )?;
    }
    if let Some(more) = summary.digests.len().checked_sub(MOST_DIGESTS).filter(|more| *more > 0) {
        writeln!(out, "  {more} more digests, with less total time: --json")?;
    }
    Ok(())
}

fn write_errors(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if !summary.errors_by_digest.is_empty() {
        writeln!(out, "\n  {:>8} {:>7}  errors", "count", "code")?;
    }
    for error in summary.errors_by_digest.iter().take(MOST_ERRORS) {
        let (count, code) = (error.count, error.code);
        writeln!(
            out,
            "  {count:>8} {code:>7}  {}",
            shortened(&error.digest, DIGEST_WIDTH)
        )?;
        writeln!(
            out,
            "  {:>8} {:>7}  first: event {}, session {}: {}",
            "", "", error.event, error.session, error.message
        )?;
    }
    if let Some(more) = summary
        .errors_by_digest
        .len()
        .checked_sub(MOST_ERRORS)
        .filter(|more| *more > 0)
    {
        writeln!(out, "  {more} more kinds of errors: --json")?;
    }
    Ok(())
}
