//! The results of a run: JSON lines for programs, an HDR log for HDR tools, OpenMetrics for
//! monitors, a table for people, progress on stderr.

pub mod json;
pub mod kv;
pub mod openmetrics;
pub mod progress;
pub mod sinks;
pub mod sql;
pub mod table;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::Extra;
use dyno_loop::{Interval, Totals};
use serde_json::{Map, Value};

use json::Final;

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
