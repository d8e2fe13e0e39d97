//! Log files.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use dyno_capture::{Assembler, Capture, LogKind, LogReader, Origin, Selection};

use crate::error::Error;

/// How much of a file is read to find out what it is.
const FIRST_BYTES: u64 = 256 * 1024;

/// Reads log files of one kind in the order of their times, whatever the order in which they are named: shells list rotated
/// logs with the newest first. What the selection does not have is counted.
///
/// # Errors
/// When a file cannot be read, is no log that is known, or is of another kind than the first.
pub fn capture_files(paths: &[PathBuf], selection: Selection, autocommit: Option<bool>) -> Result<Capture, Error> {
    let mut opened = Vec::new();
    for path in paths {
        let (file, kind, begin) = open(path)?;
        if let Some((first, _, first_kind, _)) = opened.first() {
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
        opened.push((path.clone(), file, kind, begin));
    }
    let Some(kind) = opened.first().map(|(_, _, kind, _)| *kind) else {
        return Err(Error::User("no log is named".into()));
    };
    if opened.iter().all(|(_, _, _, begin)| begin.is_some()) {
        opened.sort_by_key(|(_, _, _, begin)| *begin);
    }
    let mut assembler = Assembler::new(Origin {
        source: kind.source(),
        time_is_end: kind == LogKind::Slow,
    });
    assembler.select(selection);
    assembler.autocommit = autocommit;
    let mut log = LogReader::new(kind);
    for (path, file, _, _) in opened {
        assembler.enter(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
        read(file, &mut log, &mut assembler).map_err(|error| unreadable(&path, &error))?;
    }
    Ok(assembler.finish())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::User(format!("'{}' cannot be read: {error}", path.display()))
}

fn open(path: &Path) -> Result<(File, LogKind, Option<i64>), Error> {
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
            "'{}' is neither a general log nor a slow log of MySQL or MariaDB: no line of its first {} KB begins an entry \
             (audit logs and binary logs are not read). The server writes them with general_log = ON, or with slow_query_log = ON and long_query_time = 0",
            path.display(),
            FIRST_BYTES / 1024
        ))
    })?;
    Ok((file, kind, kind.first_time(&first)))
}

fn read(file: File, log: &mut LogReader, assembler: &mut Assembler) -> std::io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_capture::Action;

    #[test]
    fn rotated_logs_are_read_in_the_order_of_their_times_and_sessions_go_on() {
        let folder = std::env::temp_dir().join(format!("dyno-rotated-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let heading = "# User@Host: app[app] @ web []  Id:     8\n# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\n";
        for (name, day, rest) in [
            ("slow.log", "25", "SET timestamp=3;\nSELECT 3;\n"),
            ("slow.log.1", "24", "SET timestamp=2;\nSELECT 2;\n"),
            ("slow.log.2", "23", "use shop;\nSET timestamp=1;\nSELECT 1;\n"),
        ] {
            let text = format!("# Time: 2026-11-{day}T09:41:03.000000Z\n{heading}{rest}");
            std::fs::write(folder.join(name), text).unwrap();
        }
        let paths = ["slow.log", "slow.log.1", "slow.log.2"].map(|name| folder.join(name));
        let capture = capture_files(&paths, Selection::default(), None).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(capture.header.files, ["slow.log.2", "slow.log.1", "slow.log"]);
        assert_eq!(capture.header.sessions, 1);
        for (event, text) in capture.events.iter().zip(["SELECT 1", "SELECT 2", "SELECT 3"]) {
            let Action::Statement(statement) = &event.action else {
                panic!("{event:?}");
            };
            assert_eq!(statement.text, text.as_bytes());
            assert_eq!(statement.schema.as_deref(), Some("shop"), "carried from file to file");
        }
    }
}
