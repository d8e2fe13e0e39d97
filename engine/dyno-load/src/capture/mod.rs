//! `dynoload capture`: reads logs, or the statements history of a server, into a capture.

mod files;
mod history;
mod shown;

pub use files::capture_files;
pub use history::capture_history;
pub use shown::{shortened, table};

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use dyno_capture::{has_ansi_quotes, Action, Anonymiser, Capture, KEY_BYTES};

use crate::error::Error;
use crate::sql::file::dump;

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
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
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
