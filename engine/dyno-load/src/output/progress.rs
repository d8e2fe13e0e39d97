//! One line a second on stderr while the load runs.

use std::io::{self, IsTerminal, Write};

use dyno_loop::recorder::Extra;
use dyno_loop::{Interval, Phase};

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
