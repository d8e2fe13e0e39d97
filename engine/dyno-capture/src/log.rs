//! The kinds of files, how each is recognised, and one reader for all.

use std::io::{BufRead as _, BufReader, Read, Result};

use crate::assembler::Assembler;
use crate::event::{Capture, Source};
use crate::general_log::GeneralLog;
use crate::packets::{self, PacketReader};
use crate::slow_log::SlowLog;

/// How much of a log is read at once.
const BUFFER: usize = 1 << 20;

/// The files that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// The general query log of MySQL or MariaDB, any version from 5.5 on.
    General,
    /// The slow query log of MySQL or MariaDB.
    Slow,
    /// What tcpdump or Wireshark writes.
    Packets,
}

impl LogKind {
    /// What a file is, by how it begins or by the first of its lines that only one kind has; none where there is none.
    pub fn recognise(first_bytes: &[u8]) -> Option<LogKind> {
        if packets::is_its_own(first_bytes) {
            return Some(Self::Packets);
        }
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
            Self::Packets => return packets::first_time(first_bytes),
        };
        first_bytes.split(|byte| *byte == b'\n').find_map(time_of)
    }

    /// The source that captures of this kind have.
    pub fn source(self) -> Source {
        match self {
            Self::General => Source::GeneralLog,
            Self::Slow => Source::SlowLog,
            Self::Packets => Source::Packets,
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
    /// Packets.
    Packets(PacketReader),
}

impl LogReader {
    /// A reader at the beginning of the first file; `ports` are those of the servers, for packets.
    pub fn new(kind: LogKind, ports: &[u16]) -> Self {
        match kind {
            LogKind::General => Self::General(GeneralLog::default()),
            LogKind::Slow => Self::Slow(SlowLog::default()),
            LogKind::Packets => Self::Packets(PacketReader::new(ports)),
        }
    }

    /// Reads a file; the next one may go on where it ends.
    ///
    /// # Errors
    /// When it cannot be read, or its packets are damaged.
    pub fn read(&mut self, file: impl Read + Send, assembler: &mut Assembler) -> Result<()> {
        if let Self::Packets(packets) = self {
            return packets.read(file, assembler);
        }
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
                Self::Packets(_) => {}
            }
            line.clear();
        }
        match self {
            Self::General(log) => log.end(is_cut, assembler),
            Self::Slow(log) => log.end(is_cut, assembler),
            Self::Packets(_) => {}
        }
        Ok(())
    }

    /// All that the files had. Where that is no statement, the error says why if it can be said.
    ///
    /// # Errors
    /// When there are no packets of a server, or none that can be understood.
    pub fn finish(self, mut assembler: Assembler) -> std::result::Result<Capture, String> {
        let Self::Packets(mut packets) = self else {
            return Ok(assembler.finish());
        };
        packets.end(&mut assembler);
        let capture = assembler.finish();
        match packets.obstacle(&capture.header.problems) {
            Some(obstacle) if capture.header.statements == 0 => Err(obstacle),
            _ => Ok(capture),
        }
    }
}
