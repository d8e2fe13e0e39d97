//! A comparison for people and programs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use dyno_core::wire::{Format, LineWriter};

use super::{compare, Comparison, Difference, DigestComparison};
use crate::capture::shortened;
use crate::error::{Error, Exit};
use crate::output::check_apart;
use crate::replay::results::{read, Results};

const FORMAT: Format = Format {
    format: "dynoload-replay-comparison",
    format_version: 1,
    program: "dynoload",
    version: env!("CARGO_PKG_VERSION"),
};

const MOST_DIGESTS: usize = 20;
const DIGEST_WIDTH: usize = 56;

/// Compares two files of results and prints the comparison.
///
/// # Errors
/// When a file is none, when they are of different captures, or when a replay is INVALID or most of its statements failed.
pub fn run(a: &Path, b: &Path, json: Option<&Path>) -> Result<Exit, Error> {
    check_apart(&[("A", a), ("B", b)], &[("--json", json)])?;
    let (first, second) = (read(a)?, read(b)?);
    if first.capture_identity != second.capture_identity {
        return Err(Error::User(format!(
            "'{}' and '{}' are replays of different captures; replay the same capture on both servers",
            a.display(),
            b.display()
        )));
    }
    for (path, results) in [(a, &first), (b, &second)] {
        check(path, results)?;
    }
    let comparison = compare(&first, &second);
    let text = table(&comparison);
    match json {
        Some(path) if path == Path::new("-") => {
            write_json(&comparison, dyno_core::streams::stdout())?;
            dyno_core::streams::stderr().write_all(dyno_core::streams::visible(&text).as_bytes())?;
        }
        Some(path) => {
            let file = std::fs::File::create(path)
                .map_err(|error| Error::User(format!("--json '{}' cannot be written: {error}", path.display())))?;
            write_json(&comparison, file)?;
            dyno_core::streams::stdout().write_all(dyno_core::streams::visible(&text).as_bytes())?;
        }
        None => dyno_core::streams::stdout().write_all(dyno_core::streams::visible(&text).as_bytes())?,
    }
    Ok(
        match comparison.differ - comparison.differ_nondeterministic + comparison.only.0 + comparison.only.1 {
            0 => Exit::Done,
            _ => Exit::Invalid,
        },
    )
}

/// Two replays that failed alike have equal results, of which nothing follows.
fn check(path: &Path, results: &Results) -> Result<(), Error> {
    let (all, failed) = (results.statements.len(), results.statements.iter());
    let failed = failed.filter(|statement| statement.error != 0).count();
    let reason = match &results.invalid {
        Some(reasons) => format!("was INVALID: {reasons}"),
        None if failed * 2 > all => format!("failed in {failed} of {all} statements"),
        None => return Ok(()),
    };
    Err(Error::User(format!(
        "the replay of '{}' {reason}. Its results are not compared: replay again; errors that the captured load had too are \
         named with `dynoload replay --ignore-errors`",
        path.display()
    )))
}

fn write_json(comparison: &Comparison, writer: impl std::io::Write) -> Result<(), Error> {
    let header = serde_json::json!({ "servers": comparison.servers });
    Ok(LineWriter::start(writer, FORMAT, &header)?.record("final", comparison)?)
}

/// The answer, then the digests: those with differences first.
fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(&mut text, comparison);
    text
}

fn write_table(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    let (statements, differ) = (comparison.statements, comparison.differ);
    let varying = comparison.differ_nondeterministic;
    match (differ - varying, varying) {
        (0, 0) if comparison.failed_in_both > 0 => writeln!(out, "No results of {statements} statements differ.")?,
        (0, 0) => writeln!(out, "The results of all {statements} statements are equal in errors, rows and contents.")?,
        (0, _) => writeln!(
            out,
            "{varying} of {statements} statements have different results, all of kinds that may differ on the same data."
        )?,
        (real, 0) => writeln!(out, "{real} of {statements} statements have different results.")?,
        (real, _) => writeln!(
            out,
            "{real} of {statements} statements have different results, and {varying} of kinds that may differ on the same \
             data."
        )?,
    }
    if comparison.failed_in_both > 0 {
        writeln!(
            out,
            "{} statements failed in both with the same error: their results are unknown.",
            comparison.failed_in_both
        )?;
    }
    if comparison.only != (0, 0) {
        let (a, b) = comparison.only;
        writeln!(out, "{a} statements were sent in A alone, {b} in B alone.")?;
    }
    if let Some(ratio) = comparison.latency_ratio {
        writeln!(
            out,
            "Service times in B are {ratio:.3} times those in A (geometric mean over statements; one replay each, so chance \
             and drift are in it: a study shows whether a difference is real)."
        )?;
    }
    writeln!(out, "  A {}\n  B {}\n", comparison.servers.0, comparison.servers.1)?;
    writeln!(
        out,
        "  {:>8} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7} {:>8} {:>7}  digest",
        "count", "A p50 µs", "B p50 µs", "B/A", "errors", "changed", "rows", "contents", "order"
    )?;
    for digest in comparison.digests.iter().take(MOST_DIGESTS) {
        let time = |of: fn((f64, f64)) -> f64| digest.p50_us.map_or("-".into(), |times| format!("{:.0}", of(times)));
        let ratio = digest.latency_ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        writeln!(
            out,
            "  {:>8} {:>9} {:>9} {ratio:>7} {:>7} {:>7} {:>7} {:>8} {:>7}  {}",
            digest.count,
            time(|times| times.0),
            time(|times| times.1),
            digest.errors_differ,
            digest.changed_differ,
            digest.rows_differ,
            digest.contents_differ,
            digest.order_differ,
            shortened(&digest.digest, DIGEST_WIDTH)
        )?;
        write_example(out, digest)?;
    }
    if let Some(more) = comparison
        .digests
        .len()
        .checked_sub(MOST_DIGESTS)
        .filter(|more| *more > 0)
    {
        writeln!(out, "  {more} more digests: --json")?;
    }
    Ok(())
}

fn write_example(out: &mut String, digest: &DigestComparison) -> std::fmt::Result {
    let Some(example) = &digest.first_difference else {
        return Ok(());
    };
    let what = match example.difference {
        Difference::Error => format!("error {} in A, {} in B", example.errors.0, example.errors.1),
        Difference::Changed => format!("{} rows changed in A, {} in B", example.rows.0, example.rows.1),
        Difference::Rows => format!("{} rows in A, {} in B", example.rows.0, example.rows.1),
        Difference::Contents => format!("{} rows in both with other contents", example.rows.0),
        Difference::Order => format!("{} rows in another order", example.rows.0),
    };
    // Of a difference that counts, it explains nothing.
    let reason = digest.nondeterministic.as_ref().filter(|_| digest.unexplained() == 0);
    let reason = reason.map_or(String::new(), |reason| {
        format!("; may differ on the same data: {reason}")
    });
    writeln!(
        out,
        "  {:>80}first: event {}, session {}: {what}{reason}",
        "", example.event, example.session
    )
}
