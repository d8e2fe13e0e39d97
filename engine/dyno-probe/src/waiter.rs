//! Waits for what comes first: the next sample's time, a command, a signal, the end of standard input.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use nix::poll::{ppoll, PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

use crate::control::{Command, Lines};

/// What came first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// The time.
    Time,
    /// A command, or why a line is none.
    Command(Result<Command, String>),
    /// An end: by signal, or by standard input; with the words for the footer.
    End(String),
}

/// Watches the signals and standard input.
pub struct Waiter {
    signals: SignalFd,
    input: Option<File>,
    /// Whether the end of standard input ends the run: not when it is a file or /dev/null, which nobody holds open.
    lifeline: bool,
    lines: Lines,
    pending: VecDeque<Result<Command, String>>,
}

impl Waiter {
    /// Takes SIGTERM and SIGINT and standard input. Call before any thread is started, for threads inherit which
    /// signals are blocked.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> io::Result<Self> {
        let mut ending = SigSet::empty();
        ending.add(Signal::SIGTERM);
        ending.add(Signal::SIGINT);
        ending.thread_block()?;
        let signals = SignalFd::with_flags(&ending, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let input = io::stdin().as_fd().try_clone_to_owned().ok().map(File::from);
        let kind = input
            .as_ref()
            .and_then(|input| input.metadata().ok())
            .map(|metadata| metadata.file_type());
        let lifeline =
            kind.is_some_and(|kind| kind.is_fifo() || kind.is_socket() || (kind.is_char_device() && is_terminal()));
        Ok(Self {
            signals,
            input,
            lifeline,
            lines: Lines::default(),
            pending: VecDeque::new(),
        })
    }

    /// Waits at most `patience`; without it, until something comes.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn wait(&mut self, patience: Option<Duration>) -> io::Result<Wake> {
        if let Some(command) = self.pending.pop_front() {
            return Ok(Wake::Command(command));
        }
        let mut watched = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        watched.extend(
            self.input
                .as_ref()
                .map(|input| PollFd::new(input.as_fd(), PollFlags::POLLIN)),
        );
        match ppoll(&mut watched, patience.map(TimeSpec::from), None) {
            Ok(0) => return Ok(Wake::Time),
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => return Ok(Wake::Time),
            Err(error) => return Err(error.into()),
        }
        let ready = |index: usize| watched.get(index).is_some_and(|fd| fd.any().unwrap_or(false));
        let (signal, input) = (ready(0), ready(1));
        if signal {
            if let Some(signal) = self.signals.read_signal()? {
                let signal = i32::try_from(signal.ssi_signo)
                    .ok()
                    .and_then(|number| Signal::try_from(number).ok());
                return Ok(Wake::End(signal.map_or("signal", Signal::as_str).to_owned()));
            }
        }
        if input {
            return self.read_input();
        }
        Ok(Wake::Time)
    }

    fn read_input(&mut self) -> io::Result<Wake> {
        let mut bytes = [0; 4096];
        let count = match &mut self.input {
            None => return Ok(Wake::Time),
            Some(input) => match input.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Wake::Time),
                // An input that cannot be read is as good as closed.
                other => other.unwrap_or(0),
            },
        };
        if count == 0 {
            self.input = None;
            return Ok(if self.lifeline {
                Wake::End("standard input closed".into())
            } else {
                Wake::Time
            });
        }
        self.pending
            .extend(self.lines.take(&bytes[..count]).iter().map(|line| Command::parse(line)));
        Ok(self.pending.pop_front().map_or(Wake::Time, Wake::Command))
    }
}

fn is_terminal() -> bool {
    use std::io::IsTerminal;
    io::stdin().is_terminal()
}
