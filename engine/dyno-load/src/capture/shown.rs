//! A capture for a person.

use std::collections::HashMap;
use std::fmt::Write as _;

use dyno_capture::{digest, Action, Capture, LogPosition};

/// Digests that are listed.
const MOST_FREQUENT: usize = 10;
/// Characters of a digest that are shown.
const WIDTH: usize = 90;

/// What was captured, what was not, and the most frequent statements.
pub fn table(capture: &Capture, output: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(&mut text, capture, output);
    text
}

fn write_table(out: &mut String, capture: &Capture, output: &str) -> std::fmt::Result {
    let header = &capture.header;
    writeln!(
        out,
        "{output}: {} statements of {} sessions in {:.1} s, at most {} sessions at a time",
        header.statements,
        header.sessions,
        header.duration_us as f64 / 1e6,
        header.peak_sessions
    )?;
    let server = header
        .server
        .as_deref()
        .map_or(String::new(), |server| format!(" of {server}"));
    writeln!(out, "  source      {}{server}", header.source.name())?;
    if let Some(begin) = &header.begin {
        writeln!(out, "  begin       {begin} (the log's clock)")?;
    }
    if header.spread {
        writeln!(
            out,
            "  times       whole seconds; events of the same second are spread evenly over it, in the order of the log"
        )?;
    }
    if header.anonymised {
        writeln!(out, "  literals    pseudonyms")?;
    }
    if !header.problems.is_empty() {
        writeln!(out, "\n  remarks")?;
    }
    for seen in &header.problems {
        let places: Vec<String> = seen.first.iter().map(LogPosition::to_string).collect();
        let more = if seen.count > places.len() as u64 { ", …" } else { "" };
        let places = match places[..] {
            [] => String::new(),
            _ => format!(": {}{more}", places.join(", ")),
        };
        writeln!(out, "  {:>9}  {}{places}", seen.count, seen.problem.describe())?;
    }
    let frequent = most_frequent(capture);
    if !frequent.is_empty() {
        writeln!(out, "\n  most frequent statements")?;
    }
    for (count, digest) in frequent {
        writeln!(out, "  {count:>9}  {}", shortened(&digest, WIDTH))?;
    }
    Ok(())
}

fn most_frequent(capture: &Capture) -> Vec<(u64, String)> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for event in &capture.events {
        if let Action::Statement(statement) = &event.action {
            *counts.entry(digest(&statement.text)).or_default() += 1;
        }
    }
    let mut counts: Vec<(u64, String)> = counts.into_iter().map(|(digest, count)| (count, digest)).collect();
    counts.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    counts.truncate(MOST_FREQUENT);
    counts
}

/// At most `width` characters; what is cut off is shown by an ellipsis.
pub fn shortened(text: &str, width: usize) -> String {
    let flat: String = text
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if flat.chars().count() <= width {
        return flat;
    }
    flat.chars().take(width - 1).chain(['…']).collect()
}
