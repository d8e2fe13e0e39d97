//! The kinds of logs, how each is recognised, and one reader for all.

use crate::assembler::Assembler;
use crate::general_log::GeneralLog;
use crate::slow_log::SlowLog;
use crate::source::Source;

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

/// Reads a log line by line.
#[derive(Debug)]
pub enum LogReader {
    /// A general log.
    General(GeneralLog),
    /// A slow log.
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

    /// The next line, without its end; `number` from 1 on.
    pub fn line(&mut self, number: u64, line: &[u8], assembler: &mut Assembler) {
        match self {
            Self::General(log) => log.line(number, line, assembler),
            Self::Slow(log) => log.line(number, line, assembler),
        }
    }

    /// The end of a file; `is_cut` if its last line had no end. The lines of the next file may follow.
    pub fn end(&mut self, is_cut: bool, assembler: &mut Assembler) {
        match self {
            Self::General(log) => log.end(is_cut, assembler),
            Self::Slow(log) => log.end(is_cut, assembler),
        }
    }
}
