//! Standard output and standard error, whose reader may go away. What nobody reads is dropped, and the work goes on.
//! Also a panic's end.

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

/// The text with each control character but tabulator and ends of lines (a carriage return elsewhere lets a terminal
/// write over the line), and each one of the direction of writing, as its escape: a server's message may hold any. As
/// `visible` of the Python program.
#[must_use]
pub fn visible(text: &str) -> String {
    use std::fmt::Write as _;

    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\t' | '\n' => out.push(character),
            '\r' if characters.peek() == Some(&'\n') => out.push(character),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ if character.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out
}

/// Writes a line to standard error, as `eprintln!` does, but without an end of the program where it cannot be written.
#[macro_export]
macro_rules! tell {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        // Progress and messages are best effort.
        let text = $crate::streams::visible(&format!($($argument)*));
        let _ = writeln!($crate::streams::stderr(), "{text}");
    }};
}

/// From now on a panic prints its message as usual, then aborts the program (SIGABRT).
///
/// This stands in for `panic = "abort"`, under which LuaJIT cannot throw: an error of Lua is a foreign exception, and the
/// unwinder refuses to take it through a function that was compiled not to unwind. LuaJIT then ends the program with
/// exit code 1 and without a message.
pub fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[test]
    fn what_a_server_sends_reaches_no_terminal() {
        let text = "a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}txt\u{2066}\tb\n\u{e9}\u{4e2d}\r\nwrong\rright";
        assert_eq!(
            visible(text),
            "a\\x1b]0;x\\x07\\x9b2J\\u202etxt\\u2066\tb\n\u{e9}\u{4e2d}\r\nwrong\\x0dright"
        );
    }

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

    const CHILD: &str = "PANIC_IN_A_CHILD";

    #[test]
    fn a_panic_of_any_thread_ends_the_program_with_its_message() {
        if std::env::var_os(CHILD).is_some() {
            abort_on_panic();
            // Without the abort the program would go on, and end with 0.
            let _ = std::thread::spawn(|| panic!("a bug in a thread")).join();
            std::process::exit(0);
        }
        let own = "streams::tests::a_panic_of_any_thread_ends_the_program_with_its_message";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", own, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{said}");
        assert!(said.contains("a bug in a thread"), "{said}");
    }
}
