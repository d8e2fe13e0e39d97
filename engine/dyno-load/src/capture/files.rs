//! Log files.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use dyno_capture::{Assembler, Capture, LogKind, LogReader, Origin};

use crate::error::Error;

/// How much of a file is read to find out what it is.
const FIRST_BYTES: u64 = 256 * 1024;

/// Reads log files of one kind, the oldest first.
///
/// # Errors
/// When a file cannot be read, is no log that is known, or is of another kind than the first.
pub fn capture_files(paths: &[PathBuf]) -> Result<Capture, Error> {
    let mut opened = Vec::new();
    for path in paths {
        let (file, kind) = open(path)?;
        if let Some((first, _, first_kind)) = opened.first() {
            if kind != *first_kind {
                let first: &PathBuf = first;
                return Err(Error::User(format!(
                    "'{}' is a {}, '{}' is a {}: one capture is made of files of one kind",
                    first.display(),
                    first_kind.source().name(),
                    path.display(),
                    kind.source().name()
                )));
            }
        }
        opened.push((path.clone(), file, kind));
    }
    let Some(kind) = opened.first().map(|(_, _, kind)| *kind) else {
        return Err(Error::User("no log is named".into()));
    };
    let mut assembler = Assembler::new(Origin {
        source: kind.source(),
        time_is_end: kind == LogKind::Slow,
    });
    for (path, file, kind) in opened {
        assembler.enter(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
        read(file, kind, &mut assembler).map_err(|error| unreadable(&path, &error))?;
    }
    Ok(assembler.finish())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::User(format!("'{}' cannot be read: {error}", path.display()))
}

fn open(path: &Path) -> Result<(File, LogKind), Error> {
    let failed = |error| unreadable(path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut first = Vec::new();
    file.by_ref()
        .take(FIRST_BYTES)
        .read_to_end(&mut first)
        .map_err(failed)?;
    file.rewind().map_err(failed)?;
    if first.starts_with(&[0x1f, 0x8b]) {
        let path = path.display();
        return Err(Error::User(format!(
            "'{path}' is compressed; decompress it first (gunzip)"
        )));
    }
    let kind = LogKind::recognise(&first).ok_or_else(|| {
        Error::User(format!(
            "'{}' is neither a general log nor a slow log of MySQL or MariaDB: no line of its first {} KB begins an entry. \
             The server writes them with general_log = ON, or with slow_query_log = ON and long_query_time = 0",
            path.display(),
            FIRST_BYTES / 1024
        ))
    })?;
    Ok((file, kind))
}

fn read(file: File, kind: LogKind, assembler: &mut Assembler) -> std::io::Result<()> {
    let mut log = LogReader::new(kind);
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    let mut number = 0;
    let mut is_cut = false;
    while reader.read_until(b'\n', &mut line)? > 0 {
        number += 1;
        is_cut = line.last() != Some(&b'\n');
        log.line(number, line.strip_suffix(b"\n").unwrap_or(&line), assembler);
        line.clear();
    }
    log.end(is_cut, assembler);
    Ok(())
}
