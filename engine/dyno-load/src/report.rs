//! Where the intervals of a run go while it runs: JSON lines, HDR log, progress.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use dyno_core::hdr_log::{self, HdrLog};
use dyno_core::histogram::Histogram;
use dyno_core::wire::LineWriter;
use serde_json::{json, Value};

use crate::kv::Command;
use crate::output::json::{self as format, FORMAT};
use crate::output::openmetrics::OpenMetrics;
use crate::output::progress::Progress;
use crate::recorder::Part;
use crate::run::{Interval, Observer, Phase};
use crate::server::Facts;
use crate::workload::StatementKind;

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
    /// When a file cannot be written.
    pub fn start(paths: &Paths<'_>, progress: Progress, settings: &Value, server: &Facts) -> io::Result<Self> {
        let header = json!({ "settings": settings, "server": server, "unix_s": dyno_core::clock::wall_clock_s() });
        let json = match paths.json {
            Some(path) => Some(LineWriter::start(crate::output::open(path)?, FORMAT, &header)?),
            None => None,
        };
        let hdr_file = paths.hdr.map(crate::output::open).transpose()?;
        Ok(Self {
            json,
            hdr_file,
            hdr: None,
            openmetrics: paths
                .openmetrics
                .map(|path| OpenMetrics::start(path, settings))
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

    fn write_hdr(&mut self, interval: &Interval<'_>) -> io::Result<()> {
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
            log.record(&hdr_log::Interval {
                tag,
                start: Duration::from_secs_f64(interval.start_s.max(0.0)),
                length: Duration::from_secs_f64(interval.length_s.max(0.0)),
                histogram,
            })
        };
        write("response", &recorder.response)?;
        write("service", &recorder.service)?;
        write("lag", &recorder.lag)?;
        for kind in StatementKind::ALL {
            write(&format!("service.{}", kind.name()), &recorder.statements[kind as usize])?;
        }
        for part in Part::ALL {
            write(&format!("connecting.{}", part.name()), recorder.connecting.of(part))?;
        }
        for command in Command::ALL {
            if let Some(histogram) = recorder.kv.of(command) {
                write(&format!("service.{}", command.name()), histogram)?;
            }
        }
        Ok(())
    }
}

impl Observer for Sinks {
    fn interval(&mut self, interval: &Interval<'_>) -> io::Result<()> {
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
