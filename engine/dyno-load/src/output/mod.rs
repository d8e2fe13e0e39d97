//! The results of a run: JSON lines for programs, an HDR log for HDR tools, OpenMetrics for
//! monitors, a table for people, progress on stderr.

pub mod json;
pub mod kv;
pub mod openmetrics;
pub mod sinks;
pub mod sql;
pub mod table;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::Extra;
use dyno_loop::{Interval, Outcome, Totals};
use serde_json::{Map, Value};

use crate::agents::AgentFacts;
use crate::error::Error;
use crate::quality::{Finding, RunQuality};
use crate::server::{CounterCheck, Facts};

/// What a family of workloads adds to the outputs that all have.
pub trait Shown: Extra + Sized {
    /// Its histograms, each with its tag in the HDR log.
    fn tagged(&self) -> Vec<(String, &Histogram)>;

    /// Adds its part to the record of an interval.
    fn describe_interval(interval: &Interval<'_, Self>, body: &mut Map<String, Value>);

    /// Adds its part to the final record.
    fn describe_totals(result: &Final<'_, Self>, totals: &Totals<Self>, body: &mut Map<String, Value>);

    /// Writes its counts into the table.
    ///
    /// # Errors
    /// When the text cannot be written.
    fn write_counts(_text: &mut String, _result: &Final<'_, Self>, _totals: &Totals<Self>) -> std::fmt::Result {
        Ok(())
    }

    /// Writes its latencies into the table.
    ///
    /// # Errors
    /// When the text cannot be written.
    fn write_latencies(&self, _text: &mut String) -> std::fmt::Result {
        Ok(())
    }
}

/// Everything that the final record is made of.
#[derive(Debug)]
pub struct Final<'a, E: Shown> {
    /// The settings, as they are shown.
    pub settings: &'a Value,
    /// The server.
    pub server: &'a Facts,
    /// How the run went.
    pub outcome: &'a Outcome<E>,
    /// The agents that loaded; empty where this program did it itself.
    pub agents: &'a [AgentFacts],
    /// The server's counters against ours.
    pub counters: &'a [CounterCheck],
    /// How far the figures can be believed.
    pub quality: RunQuality,
    /// What the rules found.
    pub findings: &'a [Finding],
    /// Length of the measurement, as it was.
    pub duration_s: f64,
}

impl<E: Shown> Final<'_, E> {
    /// Whether operations are due at times of their own: by a rate, terminals or captured times.
    pub fn is_planned(&self) -> bool {
        self.settings["mode"] != "closed_loop"
    }
}

/// Refuses an output that is an input, or another output: writing it would destroy that one. Each has the name of its
/// option.
///
/// # Errors
/// With both names.
pub fn check_apart(inputs: &[(&str, &Path)], outputs: &[(&str, Option<&Path>)]) -> Result<(), Error> {
    let mut taken = inputs.to_vec();
    for (option, path) in outputs {
        let Some(path) = *path else { continue };
        if let Some((other, _)) = taken.iter().find(|(_, other)| is_same_file(path, other)) {
            return Err(Error::User(format!(
                "{option} '{}' is the same file as {other}, and would overwrite it; name another file",
                path.display()
            )));
        }
        taken.push((*option, path));
    }
    Ok(())
}

/// Of files that do not exist yet, their paths decide. Pipes and devices are no files.
fn is_same_file(one: &Path, other: &Path) -> bool {
    if one == Path::new("-") {
        return false;
    }
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => std::path::absolute(one).ok() == std::path::absolute(other).ok(),
        _ => false,
    }
}

/// Opens a file for output, or the standard output for `-`.
///
/// # Errors
/// When the file cannot be made.
pub fn open(path: &Path) -> io::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(dyno_core::streams::stdout()));
    }
    Ok(Box::new(BufWriter::new(File::create(path)?)))
}
