//! What a run gives: JSON lines for programs, an HDR log for HDR tools, OpenMetrics for
//! monitors, a table for people, progress on stderr.

pub mod json;
pub mod kv;
pub mod openmetrics;
pub mod progress;
pub mod slice;
pub mod table;
pub mod tpcc;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Opens a file for output, or the standard output for `-`.
///
/// # Errors
/// When the file cannot be made.
pub fn open(path: &Path) -> io::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot write '{}': {error}", path.display())))?;
    Ok(Box::new(BufWriter::new(file)))
}
