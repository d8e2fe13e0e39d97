//! `dynoload capture`: reads logs, or the statements history of a server, into a capture.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Cursor, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use dyno_capture::{
    digest, has_ansi_quotes, Action, Anonymiser, Assembler, Assumed, Capture, LogKind, LogPosition, LogReader, Origin,
    Selection, Source, KEY_BYTES,
};

use crate::error::Error;
use crate::sql::file::dump::{self, decoded};

/// Standard output in the place of a file.
const STDOUT: &str = "-";
/// Characters of a statement in a message.
const MOST_SHOWN: usize = 80;

/// With the first 32 bytes of a file as its key, or random ones that nobody keeps. Values of ENUM and SET columns that a
/// dump defines stay.
///
/// # Errors
/// When a file cannot be read, or that of the key is too short.
pub fn anonymiser(key_file: Option<&Path>, definitions: Option<&Path>) -> Result<Anonymiser, Error> {
    let path = key_file.unwrap_or(Path::new("/dev/urandom"));
    let mut key = [0; KEY_BYTES];
    let read = File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut key));
    read.map_err(|error| {
        Error::User(format!(
            "--key-file '{}' does not give the {KEY_BYTES} bytes of a key: {error}; make one with `head -c {KEY_BYTES} \
             /dev/urandom > FILE`",
            path.display()
        ))
    })?;
    let mut anonymiser = Anonymiser::new(key);
    if let Some(path) = definitions {
        dump::statements(path, |statement| {
            anonymiser.keep_members(&statement.text);
            Ok(())
        })?;
    }
    Ok(anonymiser)
}

/// Refuses to anonymise a capture whose names would be taken for strings.
///
/// # Errors
/// With the first such statement.
pub fn refuse_ansi_quotes(capture: &Capture) -> Result<(), Error> {
    let found = capture.events.iter().find_map(|event| match &event.action {
        Action::Statement(statement) if has_ansi_quotes(&statement.text) => Some(&statement.text),
        _ => None,
    });
    found.map_or(Ok(()), |text| {
        Err(Error::User(format!(
            "--anonymise: \"{}\" is of a session with sql_mode ANSI_QUOTES, where double quotes are around names, and they \
             would become pseudonyms; capture other accounts or schemas (--user, --schema), or without --anonymise",
            shortened(&String::from_utf8_lossy(text), MOST_SHOWN)
        )))
    })
}

/// What a file that is written is called until it is complete.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

/// Writes a capture; a file is complete or absent, and for its owner alone: it has the literals of the log.
///
/// # Errors
/// When it cannot be written.
pub fn write(capture: &Capture, path: &Path) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::User(format!("--output '{}' cannot be written: {error}", path.display()))
    };
    if path == Path::new(STDOUT) {
        let stdout = BufWriter::new(std::io::stdout().lock());
        return dyno_capture::write(capture, stdout).map_err(|error| failed(&error));
    }
    let unfinished = unfinished(path);
    // One that a killed program has left may have other permissions.
    let _ = std::fs::remove_file(&unfinished);
    let mut private = File::options();
    let file = private.write(true).create_new(true).mode(0o600).open(&unfinished);
    let file = file.map_err(|error| failed(&error))?;
    let mut writer = BufWriter::new(file);
    let written = dyno_capture::write(capture, &mut writer).map_err(|error| failed(&error));
    let flushed = written.and_then(|()| writer.flush().map_err(|error| failed(&error)));
    let renamed = flushed.and_then(|()| std::fs::rename(&unfinished, path).map_err(|error| failed(&error)));
    if renamed.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&unfinished);
    }
    renamed
}

/// Reads a capture.
///
/// # Errors
/// When it is none, with what to do.
pub fn read(path: &Path) -> Result<Capture, Error> {
    let file = File::open(path)
        .map_err(|error| Error::User(format!("the capture '{}' cannot be read: {error}", path.display())))?;
    dyno_capture::read(BufReader::new(file)).map_err(|error| Error::User(format!("'{}' {error}", path.display())))
}

/// The most sessions at a time, by the first line of a capture; none where the file is none.
pub fn peak_sessions(path: &Path) -> Option<u32> {
    let mut first = String::new();
    BufReader::new(File::open(path).ok()?).read_line(&mut first).ok()?;
    let header: serde_json::Value = serde_json::from_str(&first).ok()?;
    u32::try_from(header["peak_sessions"].as_u64()?)
        .ok()
        .map(|most| most.max(1))
}

/// How much of a file is read to find out what it is.
const FIRST_BYTES: u64 = 256 * 1024;

/// Reads logs, or packets of servers with these ports, of one kind in the order of their times, whatever the order in which
/// they are named: shells list rotated logs with the newest first. What the selection does not have is counted.
///
/// # Errors
/// When a file cannot be read, is of no known kind or of another one than the first, or has packets of no use.
pub fn capture_files(
    paths: &[PathBuf],
    ports: &[u16],
    selection: Selection,
    assumed: Assumed,
) -> Result<Capture, Error> {
    let mut opened = Vec::new();
    for path in paths {
        let log = Log::open(path)?;
        if let Some(first) = opened.first().filter(|first: &&Log| first.kind != log.kind) {
            return Err(Error::User(format!(
                "'{}' is a {}, '{}' is a {}: one capture is made of files of one kind",
                first.path.display(),
                first.kind.source().name(),
                path.display(),
                log.kind.source().name()
            )));
        }
        opened.push(log);
    }
    let Some(kind) = opened.first().map(|first| first.kind) else {
        return Err(Error::User("no log is named".into()));
    };
    if opened.iter().all(|log| log.begin.is_some()) {
        opened.sort_by_key(|log| log.begin);
    }
    let mut assembler = Assembler::new(Origin {
        source: kind.source(),
        time_is_end: kind == LogKind::Slow,
    });
    assembler.select(selection);
    assembler.assumed = assumed;
    let mut reader = LogReader::new(kind, ports);
    for log in opened {
        let path = log.path.clone();
        assembler.enter(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
        log.whole()
            .and_then(|log| reader.read(log, &mut assembler))
            .map_err(|error| unreadable(&path, &error))?;
    }
    let names: Vec<String> = paths.iter().map(|path| format!("'{}'", path.display())).collect();
    reader
        .finish(assembler)
        .map_err(|why| Error::User(format!("{}: {why}", names.join(", "))))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::User(format!("'{}' cannot be read: {error}", path.display()))
}

/// A file whose kind is known by its first bytes.
struct Log {
    path: PathBuf,
    kind: LogKind,
    /// The first time in it.
    begin: Option<i64>,
    file: File,
    /// All of it, decompressed, where it is a pipe, which cannot be read again.
    piped: Option<Box<dyn BufRead + Send>>,
}

impl Log {
    fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error| unreadable(path, &error);
        let mut file = File::open(path).map_err(failed)?;
        let mut log = file.try_clone().and_then(decoded).map_err(failed)?;
        let mut first = Vec::new();
        log.by_ref().take(FIRST_BYTES).read_to_end(&mut first).map_err(failed)?;
        let kind = LogKind::recognise(&first).ok_or_else(|| {
            Error::User(format!(
                "'{}' is neither a general log nor a slow log of MySQL or MariaDB, and no packet capture of tcpdump: no line of \
                 its first {} KB begins an entry (audit logs and binary logs are not read). The server writes them with general_log = ON, or with slow_query_log = ON and long_query_time = 0",
                path.display(),
                FIRST_BYTES / 1024
            ))
        })?;
        Ok(Self {
            path: path.to_path_buf(),
            kind,
            begin: kind.first_time(&first),
            piped: match file.rewind() {
                Ok(()) => None,
                Err(_) => Some(Box::new(Cursor::new(first).chain(log))),
            },
            file,
        })
    }

    fn whole(mut self) -> std::io::Result<Box<dyn BufRead + Send>> {
        if let Some(piped) = self.piped {
            return Ok(piped);
        }
        self.file.rewind()?;
        decoded(self.file)
    }
}

/// Digests that are listed.
const MOST_FREQUENT: usize = 10;
/// Characters of a digest that are shown.
const WIDTH: usize = 90;

/// What was captured, what was not, and the most frequent statements.
pub fn table(capture: &Capture, output: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(&mut text, capture, output);
    text
}

fn write_table(out: &mut String, capture: &Capture, output: &str) -> std::fmt::Result {
    let header = &capture.header;
    match header.source {
        Source::StatementDigests => writeln!(out, "{output}: a statement of each digest, {}", header.statements)?,
        _ => writeln!(
            out,
            "{output}: {} statements of {} sessions in {:.1} s, at most {} sessions at a time",
            header.statements,
            header.sessions,
            header.duration_us as f64 / 1e6,
            header.peak_sessions
        )?,
    }
    let server = header
        .server
        .as_deref()
        .map_or(String::new(), |server| format!(" of {server}"));
    writeln!(out, "  source      {}{server}", header.source.name())?;
    if let Some(begin) = &header.begin {
        let clock = if header.source == Source::Packets {
            "UTC"
        } else {
            "the log's clock"
        };
        writeln!(out, "  begin       {begin} ({clock})")?;
    }
    if header.spread {
        writeln!(
            out,
            "  times       whole seconds; events of the same second are spread evenly over it, in the order of the log"
        )?;
    }
    if header.anonymised {
        writeln!(out, "  literals    pseudonyms")?;
    }
    if !header.problems.is_empty() {
        writeln!(out, "\n  remarks")?;
    }
    for seen in &header.problems {
        let places: Vec<String> = seen.first.iter().map(LogPosition::to_string).collect();
        let more = if seen.count > places.len() as u64 { ", …" } else { "" };
        let places = match places[..] {
            [] => String::new(),
            _ => format!(": {}{more}", places.join(", ")),
        };
        writeln!(out, "  {:>9}  {}{places}", seen.count, seen.problem.describe())?;
    }
    let frequent = most_frequent(capture);
    if !frequent.is_empty() {
        writeln!(out, "\n  most frequent statements")?;
    }
    for (count, digest) in frequent {
        writeln!(out, "  {count:>9}  {}", shortened(&digest, WIDTH))?;
    }
    Ok(())
}

fn most_frequent(capture: &Capture) -> Vec<(u64, String)> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for event in &capture.events {
        if let Action::Statement(statement) = &event.action {
            *counts.entry(digest(&statement.text)).or_default() += statement.count.unwrap_or(1);
        }
    }
    let mut counts: Vec<(u64, String)> = counts.into_iter().map(|(digest, count)| (count, digest)).collect();
    counts.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    counts.truncate(MOST_FREQUENT);
    counts
}

/// At most `width` characters; what is cut off is shown by an ellipsis.
pub fn shortened(text: &str, width: usize) -> String {
    let flat: String = text
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if flat.chars().count() <= width {
        return flat;
    }
    flat.chars().take(width - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use dyno_capture::Action;
    use flate2::write::GzEncoder;
    use flate2::Compression;

    use super::*;

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
            if name == "slow.log.2" {
                let mut encoder = GzEncoder::new(File::create(folder.join(name)).unwrap(), Compression::fast());
                encoder.write_all(text.as_bytes()).unwrap();
                encoder.finish().unwrap();
            } else {
                std::fs::write(folder.join(name), text).unwrap();
            }
        }
        let paths = ["slow.log", "slow.log.1", "slow.log.2"].map(|name| folder.join(name));
        let capture = capture_files(&paths, &[], Selection::default(), Assumed::default()).unwrap();
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

    #[test]
    fn a_log_is_read_from_a_pipe() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer
            .write_all(b"# Time: 2026-11-23T09:41:03.000000Z\n# User@Host: app[app] @ web []  Id:     8\n# Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\nSET timestamp=1;\nSELECT 1;\n")
            .unwrap();
        drop(writer);
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let capture = capture_files(&[path], &[], Selection::default(), Assumed::default()).unwrap();
        assert_eq!(capture.header.statements, 1);
    }
}
