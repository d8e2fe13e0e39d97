//! Where the intervals of a run go while it runs: JSON lines, HDR log, progress on stderr.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use dyno_core::histogram::hdr::{self, HdrLog};
use dyno_core::histogram::Histogram;
use dyno_core::wire::LineWriter;
use dyno_loop::recorder::{Extra, Part};
use dyno_loop::{Interval, Observer, Phase};
use serde_json::{json, Value};

use super::json::{self as format, FORMAT};
use super::openmetrics::OpenMetrics;
use super::Shown;
use crate::error::Error;
use crate::server::Facts;

/// Prints intervals for a person; on a terminal each line replaces the last.
#[derive(Debug)]
pub struct Progress {
    quiet: bool,
    terminal: bool,
}

impl Progress {
    /// Progress on stderr, or none.
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            terminal: io::stderr().is_terminal(),
        }
    }

    /// Says something once.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            dyno_core::tell!("{text}");
        }
    }

    /// Shows one interval.
    pub fn interval<E: Extra>(&self, interval: &Interval<'_, E>) {
        if self.quiet || interval.length_s <= 0.0 || interval.phase == Phase::Drain {
            return;
        }
        let recorder = interval.recorder;
        let phase = if interval.phase == Phase::Warmup {
            "warm-up"
        } else {
            "measure"
        };
        let line = format!(
            "{phase} {:>5.0} s  {:>9.0} q/s  {:>8.0} t/s  response p99 {:>9.2} ms  errors {}",
            interval.start_s + interval.length_s,
            recorder.counts.queries() as f64 / interval.length_s,
            recorder.counts.transactions as f64 / interval.length_s,
            recorder.response.percentile_ns(99.0) as f64 / 1e6,
            recorder.counts.errors + recorder.counts.ignored_errors,
        );
        if self.terminal {
            // Progress that cannot be shown must not end a run.
            let _ = write!(dyno_core::streams::stderr(), "\r\x1b[2K{line}");
        } else {
            dyno_core::tell!("{line}");
        }
    }

    /// Ends the line that was being replaced.
    pub fn finish(&self) {
        if !self.quiet && self.terminal {
            dyno_core::tell!("");
        }
    }
}

/// Where a run writes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Paths<'a> {
    /// JSON lines; `-` for stdout.
    pub json: Option<&'a Path>,
    /// HDR log.
    pub hdr: Option<&'a Path>,
    /// OpenMetrics text, renewed every interval.
    pub openmetrics: Option<&'a Path>,
}

/// Opens a file that an option names.
fn open(option: &str, path: &Path) -> Result<Box<dyn Write>, Error> {
    super::open(path).map_err(|error| unwritable(option, path, &error))
}

fn unwritable(option: &str, path: &Path, error: &io::Error) -> Error {
    Error::User(format!("{option} '{}' cannot be written: {error}", path.display()))
}

/// All outputs of one run.
pub struct Sinks {
    json: Option<LineWriter<Box<dyn Write>>>,
    /// The file, until the measurement begins: its header holds that time.
    hdr_file: Option<Box<dyn Write>>,
    hdr: Option<HdrLog<Box<dyn Write>>>,
    openmetrics: Option<OpenMetrics>,
    progress: Progress,
}

impl Sinks {
    /// Opens the files and writes their headers.
    ///
    /// # Errors
    /// With the option, when a file cannot be written.
    pub fn start(paths: &Paths<'_>, progress: Progress, settings: &Value, server: &Facts) -> Result<Self, Error> {
        let header = json!({ "settings": settings, "server": server, "unix_s": dyno_core::clock::wall_clock_s() });
        let json = match paths.json {
            Some(path) => Some(LineWriter::start(open("--json", path)?, FORMAT, &header)?),
            None => None,
        };
        let hdr_file = paths.hdr.map(|path| open("--hdr", path)).transpose()?;
        Ok(Self {
            json,
            hdr_file,
            hdr: None,
            openmetrics: paths
                .openmetrics
                .map(|path| {
                    OpenMetrics::start(path, settings).map_err(|error| unwritable("--openmetrics", path, &error))
                })
                .transpose()?,
            progress,
        })
    }

    /// The progress on stderr.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Writes the final record.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self, record: &Value) -> io::Result<()> {
        match &mut self.json {
            Some(json) => json.record("final", record),
            None => Ok(()),
        }
    }

    /// Writes a record of a part of the run that stands for itself.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn record(&mut self, name: &str, record: &Value) -> io::Result<()> {
        match &mut self.json {
            Some(json) => json.record(name, record),
            None => Ok(()),
        }
    }

    fn write_hdr<E: Shown>(&mut self, interval: &Interval<'_, E>) -> io::Result<()> {
        if let Some(file) = self.hdr_file.take() {
            let into_measure = Duration::from_secs_f64((interval.start_s + interval.length_s).max(0.0));
            let start = SystemTime::now()
                .checked_sub(into_measure)
                .unwrap_or(SystemTime::UNIX_EPOCH);
            let made_by = format!("dynoload {}", FORMAT.version);
            self.hdr = Some(HdrLog::start(file, start, &[&made_by])?);
        }
        let Some(log) = &mut self.hdr else { return Ok(()) };
        let recorder = interval.recorder;
        let mut write = |tag: &str, histogram: &Histogram| {
            if histogram.count() == 0 {
                return Ok(());
            }
            log.record(&hdr::Interval {
                tag,
                start: Duration::from_secs_f64(interval.start_s.max(0.0)),
                length: Duration::from_secs_f64(interval.length_s.max(0.0)),
                histogram,
            })
        };
        write("response", &recorder.response)?;
        write("service", &recorder.service)?;
        write("lag", &recorder.lag)?;
        for part in Part::ALL {
            write(&format!("connecting.{}", part.name()), recorder.connecting.of(part))?;
        }
        for (tag, histogram) in recorder.extra.tagged() {
            write(&tag, histogram)?;
        }
        Ok(())
    }
}

impl<E: Shown> Observer<E> for Sinks {
    fn interval(&mut self, interval: &Interval<'_, E>) -> io::Result<()> {
        self.progress.interval(interval);
        if let Some(json) = &mut self.json {
            json.record("interval", &format::interval(interval))?;
        }
        if let Some(openmetrics) = &mut self.openmetrics {
            openmetrics.interval(interval)?;
        }
        if interval.phase == Phase::Warmup {
            return Ok(());
        }
        self.write_hdr(interval)
    }
}
