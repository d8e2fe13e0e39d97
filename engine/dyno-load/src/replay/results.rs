//! The result of each statement: JSON lines, format `dynoload-replay-results`, version 1.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write as _};
use std::path::Path;

use dyno_capture::{extent, has_order, Extent, Fingerprint, UniqueKeys};
use dyno_core::wire::{Format, LineWriter};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::summary::ReplayQuality;
use super::Replayed;
use crate::error::Error;
use crate::quality::RunQuality;

const NAME: &str = "dynoload-replay-results";
const VERSION: u32 = 1;
const FORMAT: Format = Format {
    format: NAME,
    format_version: VERSION,
    program: "dynoload",
    version: env!("CARGO_PKG_VERSION"),
};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Line {
    Digest { digest: Fingerprint, text: String },
    Statement(StatementResult),
}

/// What one statement came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementResult {
    /// The number of its event in the capture, from 1 on.
    pub event: u64,
    /// Its session.
    pub session: u32,
    /// Its digest.
    pub digest: Fingerprint,
    /// From sending it to the end of its answer, µs.
    pub service_us: f64,
    /// How late it was sent, µs.
    pub lag_us: f64,
    /// Rows returned.
    pub rows: u64,
    /// Rows changed.
    pub affected_rows: u64,
    /// Error code; 0 for none.
    pub error: u16,
    /// Sum of the rows' fingerprints, whatever their order.
    pub checksum: Fingerprint,
    /// The rows' fingerprints in their order, of statements with ORDER BY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Fingerprint>,
    /// What its values show of its rows.
    #[serde(default, flatten)]
    pub extent: Extent,
}

/// A file of results.
#[derive(Debug)]
pub struct Results {
    /// What was replayed.
    pub capture_identity: Fingerprint,
    /// Kind and version of the server.
    pub server: String,
    /// Why the replay was INVALID; none where it was not, or in results of earlier versions.
    pub invalid: Option<String>,
    /// The unique keys of the server's tables; none in results of earlier versions.
    pub unique_keys: UniqueKeys,
    /// Texts of the digests.
    pub digests: HashMap<Fingerprint, String>,
    /// Statements by their event.
    pub statements: Vec<StatementResult>,
}

/// Writes them.
///
/// # Errors
/// When the file cannot be written.
pub fn write(replayed: &Replayed, quality: &ReplayQuality, file: File) -> Result<(), Error> {
    let mut writer = BufWriter::new(file);
    let header = json!({
        "capture_identity": replayed.identity,
        "server": format!("{} {}", replayed.server.kind, replayed.server.version),
        "statements": replayed.record.outcomes.len(),
        "quality": quality,
        "unique_keys": replayed.unique_keys,
    });
    LineWriter::start(&mut writer, FORMAT, &header)?;
    let mut line = |line: &Line| -> Result<(), Error> {
        serde_json::to_writer(&mut writer, line).map_err(std::io::Error::from)?;
        writer.write_all(b"\n")?;
        Ok(())
    };
    for digest in &replayed.plan.digests {
        line(&Line::Digest {
            digest: digest.fingerprint,
            text: digest.text.clone(),
        })?;
    }
    for outcome in &replayed.record.outcomes {
        let statement = &replayed.plan.statements[outcome.statement as usize];
        line(&Line::Statement(StatementResult {
            event: statement.event,
            session: statement.session,
            digest: replayed.plan.digests[statement.digest as usize].fingerprint,
            service_us: outcome.service_ns as f64 / 1e3,
            lag_us: outcome.lag_ns as f64 / 1e3,
            rows: outcome.rows,
            affected_rows: outcome.affected_rows,
            error: outcome.error,
            checksum: Fingerprint(outcome.checksum),
            order: has_order(&statement.text).then_some(Fingerprint(outcome.order)),
            extent: extent(&statement.text),
        }))?;
    }
    writer.flush()?;
    Ok(())
}

/// Reads them.
///
/// # Errors
/// When the file is something else, damaged or incomplete.
pub fn read(path: &Path) -> Result<Results, Error> {
    let wrong = |problem: String| Error::User(format!("'{}' {problem}", path.display()));
    let file = File::open(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mut lines = BufReader::new(file).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    let header: serde_json::Value = serde_json::from_str(&first).unwrap_or_default();
    if header["format"] != NAME {
        return Err(wrong(
            "has no results of a replay; `dynoload replay CAPTURE --results FILE` writes them".into(),
        ));
    }
    if header["format_version"] != VERSION {
        let found = &header["format_version"];
        return Err(wrong(format!(
            "has version {found} of the format, this program reads version {VERSION}"
        )));
    }
    let identity = serde_json::from_value(header["capture_identity"].clone());
    let mut results = Results {
        capture_identity: identity.map_err(|error| wrong(format!("has a damaged header: {error}")))?,
        server: header["server"].as_str().unwrap_or("?").to_string(),
        invalid: invalid(&header["quality"]),
        unique_keys: serde_json::from_value(header["unique_keys"].clone()).unwrap_or_default(),
        digests: HashMap::new(),
        statements: Vec::new(),
    };
    for (index, line) in lines.enumerate() {
        let damaged = |error: &dyn std::fmt::Display| wrong(format!("is damaged in line {}: {error}", index + 2));
        let line = line.map_err(|error| damaged(&error))?;
        match serde_json::from_str(&line).map_err(|error| damaged(&error))? {
            Line::Digest { digest, text } => drop(results.digests.insert(digest, text)),
            Line::Statement(statement) => results.statements.push(statement),
        }
    }
    let expected = header["statements"].as_u64().unwrap_or(0);
    if results.statements.len() as u64 != expected {
        let found = results.statements.len();
        return Err(wrong(format!(
            "is incomplete: its header names {expected} statements, there are {found}"
        )));
    }
    Ok(results)
}

/// The reasons of a quality that is INVALID.
fn invalid(quality: &serde_json::Value) -> Option<String> {
    let word = RunQuality::Invalid.word();
    if quality["verdict"] != word {
        return None;
    }
    let findings = quality["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let of_level = findings.iter().filter(|finding| finding["level"] == word);
    let reasons: Vec<&str> = of_level.filter_map(|finding| finding["text"].as_str()).collect();
    Some(reasons.join("; "))
}
