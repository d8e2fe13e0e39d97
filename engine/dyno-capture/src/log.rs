//! The kinds of logs, how each is recognised, and one reader for all.

use std::io::{BufRead as _, BufReader, Read, Result};

use crate::assembler::Assembler;
use crate::general_log::GeneralLog;
use crate::slow_log::SlowLog;
use crate::source::Source;

/// How much of a log is read at once.
const BUFFER: usize = 1 << 20;

/// The log files that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// The general query log of MySQL or MariaDB, any version from 5.5 on.
    General,
    /// The slow query log of MySQL or MariaDB.
    Slow,
}

impl LogKind {
    /// What a log is, by the first of its lines that only one kind has; none where there is no such line.
    pub fn recognise(first_bytes: &[u8]) -> Option<LogKind> {
        first_bytes.split(|byte| *byte == b'\n').find_map(|line| {
            if SlowLog::is_its_own(line) {
                return Some(Self::Slow);
            }
            GeneralLog::is_its_own(line).then_some(Self::General)
        })
    }

    /// The first time that a log states; none where there is none among these bytes.
    pub fn first_time(self, first_bytes: &[u8]) -> Option<i64> {
        let time_of = match self {
            Self::General => GeneralLog::time_of,
            Self::Slow => SlowLog::time_of,
        };
        first_bytes.split(|byte| *byte == b'\n').find_map(time_of)
    }

    /// The source that captures of this kind have.
    pub fn source(self) -> Source {
        match self {
            Self::General => Source::GeneralLog,
            Self::Slow => Source::SlowLog,
        }
    }
}

/// Reads the files of one kind.
#[derive(Debug)]
pub enum LogReader {
    /// General logs.
    General(GeneralLog),
    /// Slow logs.
    Slow(SlowLog),
}

impl LogReader {
    /// A reader at the beginning of the first file.
    pub fn new(kind: LogKind) -> Self {
        match kind {
            LogKind::General => Self::General(GeneralLog::default()),
            LogKind::Slow => Self::Slow(SlowLog::default()),
        }
    }

    /// Reads a file; the next one may go on where it ends.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&mut self, file: impl Read, assembler: &mut Assembler) -> Result<()> {
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let mut line = Vec::new();
        let mut number = 0;
        let mut is_cut = false;
        while reader.read_until(b'\n', &mut line)? > 0 {
            number += 1;
            is_cut = line.last() != Some(&b'\n');
            let whole = line.strip_suffix(b"\n").unwrap_or(&line);
            match self {
                Self::General(log) => log.line(number, whole, assembler),
                Self::Slow(log) => log.line(number, whole, assembler),
            }
            line.clear();
        }
        match self {
            Self::General(log) => log.end(is_cut, assembler),
            Self::Slow(log) => log.end(is_cut, assembler),
        }
        Ok(())
    }
}
