//! A file of /proc or /sys, held open and read from its start each time.
//!
//! One `pread` to the end instead of open, read, close; and an open file of /proc/PID belongs to that process for good:
//! when it ends, reading gives ESRCH, even if its number is used again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::collector::Failure;

/// No file of /proc that is read here comes near this; a longer one is a mistake.
const LARGEST_BYTES: usize = 64 << 20;

const ESRCH: i32 = 3;

/// One open file.
#[derive(Debug)]
pub struct PseudoFile {
    path: PathBuf,
    file: File,
}

impl PseudoFile {
    /// Opens for reading.
    ///
    /// # Errors
    /// [`Failure::Gone`] when it is not there, [`Failure::Unreadable`] when it may not be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Failure> {
        let path = path.as_ref().to_path_buf();
        match File::open(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(failure(&path, &error)),
        }
    }

    /// Reads the whole file into `buffer`, which is overwritten and grows as needed.
    ///
    /// # Errors
    /// [`Failure::Gone`] when its process has ended, [`Failure::Unreadable`] otherwise.
    pub fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Failure> {
        if buffer.len() < 16 << 10 {
            buffer.resize(16 << 10, 0);
        }
        let mut end = 0;
        loop {
            if end == buffer.len() {
                if end >= LARGEST_BYTES {
                    return Err(self.malformed("is longer than 64 MiB"));
                }
                buffer.resize(end * 2, 0);
            }
            // A file of many records is given in pieces of a page, so only an empty answer is the end (seq_file).
            match self.file.read_at(&mut buffer[end..], end as u64) {
                Ok(0) => return Ok(&buffer[..end]),
                Ok(count) => end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failure(&self.path, &error)),
            }
        }
    }

    /// A failure that says which file is not as it should be.
    pub fn malformed(&self, what: &str) -> Failure {
        Failure::Unreadable(format!("{} {what}", self.path.display()))
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) {
        return Failure::Gone(format!("{}: {error}", path.display()));
    }
    Failure::Unreadable(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_longer_than_the_buffer_is_read_whole_and_again_from_its_start() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; 100_000]).unwrap();
        let pseudo = PseudoFile::open(file.path()).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(pseudo.read(&mut buffer).unwrap().len(), 100_000);
        assert_eq!(pseudo.read(&mut buffer).unwrap().len(), 100_000);
    }

    #[test]
    fn a_missing_file_is_gone_and_says_which() {
        let failure = PseudoFile::open("/nowhere/at/all").unwrap_err();
        assert!(matches!(&failure, Failure::Gone(text) if text.contains("/nowhere/at/all")));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_unreadable_and_says_which() {
        let folder = tempfile::tempdir().unwrap();
        let pseudo = PseudoFile::open(folder.path()).unwrap();
        let failure = pseudo.read(&mut Vec::new()).unwrap_err();
        assert!(
            matches!(&failure, Failure::Unreadable(text) if text.contains("directory")),
            "{failure}"
        );
    }

    #[test]
    fn a_process_that_ended_is_gone_even_with_its_file_still_open() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pseudo = PseudoFile::open(format!("/proc/{}/stat", child.id())).unwrap();
        let mut buffer = Vec::new();
        assert!(pseudo.read(&mut buffer).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(pseudo.read(&mut buffer), Err(Failure::Gone(_))));
    }
}
