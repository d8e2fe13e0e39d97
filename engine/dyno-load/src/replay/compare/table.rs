//! A comparison for a person.

use std::fmt::Write as _;

use super::{Comparison, Difference, DigestComparison};
use crate::capture::shortened;

const MOST_DIGESTS: usize = 20;
const DIGEST_WIDTH: usize = 56;

/// The answer, then the digests: those with differences first.
pub fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(&mut text, comparison);
    text
}

fn write_table(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    let (statements, differ) = (comparison.statements, comparison.differ);
    let varying = comparison.differ_nondeterministic;
    match (differ - varying, varying) {
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
        "  {:>8} {:>9} {:>9} {:>7} {:>7} {:>7} {:>8}  digest",
        "count", "A p50 µs", "B p50 µs", "B/A", "errors", "rows", "contents"
    )?;
    for digest in comparison.digests.iter().take(MOST_DIGESTS) {
        let time = |of: fn((f64, f64)) -> f64| digest.p50_us.map_or("-".into(), |times| format!("{:.0}", of(times)));
        let ratio = digest.latency_ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        writeln!(
            out,
            "  {:>8} {:>9} {:>9} {ratio:>7} {:>7} {:>7} {:>8}  {}",
            digest.count,
            time(|times| times.0),
            time(|times| times.1),
            digest.errors_differ,
            digest.rows_differ,
            digest.contents_differ,
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
        Difference::Rows => format!("{} rows in A, {} in B", example.rows.0, example.rows.1),
        Difference::Contents => format!("{} rows in both with other contents", example.rows.0),
    };
    let reason = digest.nondeterministic.as_ref();
    let reason = reason.map_or(String::new(), |reason| {
        format!("; may differ on the same data: {reason}")
    });
    writeln!(
        out,
        "  {:>64}first: event {}, session {}: {what}{reason}",
        "", example.event, example.session
    )
}
