//! Standard output and standard error, whose reader may go away. What nobody reads is dropped, and the work goes on.

use std::io::{ErrorKind, Result, Write};

const BAD_DESCRIPTOR: i32 = 9;

/// A stream that takes everything once its reader is gone.
pub struct BestEffort<W>(W);

/// Standard output.
pub fn stdout() -> BestEffort<std::io::Stdout> {
    BestEffort(std::io::stdout())
}

/// Standard error.
pub fn stderr() -> BestEffort<std::io::Stderr> {
    BestEffort(std::io::stderr())
}

impl<W: Write> Write for BestEffort<W> {
    fn write(&mut self, buffer: &[u8]) -> Result<usize> {
        unless_gone(self.0.write(buffer), buffer.len())
    }

    fn flush(&mut self) -> Result<()> {
        unless_gone(self.0.flush(), ())
    }
}

fn unless_gone<T>(result: Result<T>, instead: T) -> Result<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe || error.raw_os_error() == Some(BAD_DESCRIPTOR) => {
            Ok(instead)
        }
        other => other,
    }
}

/// Writes a line to standard error, as `eprintln!` does, but without an end of the program where it cannot be written.
#[macro_export]
macro_rules! tell {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        // Progress and messages are best effort.
        let _ = writeln!($crate::streams::stderr(), $($argument)*);
    }};
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    struct Failing(Error);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> Result<usize> {
            Err(self.0.kind().into())
        }

        fn flush(&mut self) -> Result<()> {
            Err(self.0.kind().into())
        }
    }

    #[test]
    fn a_reader_that_is_gone_ends_nothing_and_a_full_disk_does() {
        let mut gone = BestEffort(Failing(ErrorKind::BrokenPipe.into()));
        assert!(gone.write_all(b"text").is_ok() && gone.flush().is_ok());
        let mut full = BestEffort(Failing(ErrorKind::StorageFull.into()));
        assert!(full.write_all(b"text").is_err() && full.flush().is_err());
        assert!(unless_gone(Err(Error::from_raw_os_error(BAD_DESCRIPTOR)), 3).is_ok());
    }
}
