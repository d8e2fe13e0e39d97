//! Waits for what comes first: the next sample's time, a command on standard input, a signal, the end of standard input.

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

/// The plan of one run, and how well it was kept.
#[derive(Debug)]
pub struct Schedule {
    interval_ns: u64,
    next_ns: u64,
    /// Samples that began later than a tenth of the interval.
    pub late: u64,
    /// Samples left out because the one before took too long.
    pub missed: u64,
    /// The greatest lateness.
    pub late_max_us: u64,
}

impl Schedule {
    /// The first sample is due at once; an interval of 0 plans none.
    pub fn new(now_ns: u64, interval_ns: u64) -> Self {
        Self {
            interval_ns,
            next_ns: now_ns,
            late: 0,
            missed: 0,
            late_max_us: 0,
        }
    }

    /// Time until the next sample; absent when none is planned.
    pub fn wait_ns(&self, now_ns: u64) -> Option<u64> {
        (self.interval_ns > 0).then(|| self.next_ns.saturating_sub(now_ns))
    }

    /// A sample begins at `now_ns`: gives its lateness in microseconds and plans the next one.
    pub fn begin(&mut self, now_ns: u64) -> u64 {
        if self.interval_ns == 0 {
            return 0;
        }
        let late_ns = now_ns.saturating_sub(self.next_ns);
        let missed = late_ns / self.interval_ns;
        self.missed += missed;
        self.late += u64::from(late_ns > self.interval_ns / 10);
        self.late_max_us = self.late_max_us.max(late_ns / 1000);
        self.next_ns = self.next_ns.saturating_add(self.interval_ns.saturating_mul(missed + 1));
        late_ns / 1000
    }

    /// How long a sample may wait for an answer: half the interval.
    pub fn half_interval_ns(&self) -> Option<u64> {
        (self.interval_ns > 0).then_some(self.interval_ns / 2)
    }
}

/// The longest line that is taken.
const LONGEST_LINE_BYTES: usize = 64 << 10;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Watch this load program, or none, under that name.
    Driver {
        /// The caller's name for it.
        id: String,
        /// Its number; none when it ended.
        pid: Option<u32>,
    },
    /// A mark in the stream.
    Mark(String),
    /// Tell what the speed meter has run so far, under this name.
    Speed(String),
    /// Take a sample now; with a number, at that time of the manual clock.
    Sample(Option<u64>),
    /// End.
    Stop,
}

impl Command {
    /// Understands a line.
    ///
    /// # Errors
    /// What is wrong with it and what is allowed.
    pub fn parse(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "driver" => parse_driver(rest),
            "mark" => Ok(Self::Mark(rest.to_owned())),
            "sample" if rest.is_empty() => Ok(Self::Sample(None)),
            "sample" => rest
                .parse()
                .map(|now| Self::Sample(Some(now)))
                .map_err(|_| format!("sample {rest}: not a number of nanoseconds")),
            "speed" if rest.is_empty() => Err("speed: expected 'speed ID'".into()),
            "speed" => Ok(Self::Speed(rest.to_owned())),
            "stop" => Ok(Self::Stop),
            _ => Err(format!(
                "unknown command '{word}'; known are driver, mark, sample, speed, stop"
            )),
        }
    }
}

fn parse_driver(rest: &str) -> Result<Command, String> {
    let wrong = || format!("driver {rest}: expected 'driver ID PID' or 'driver ID -'");
    let (id, pid) = rest.split_once(' ').ok_or_else(wrong)?;
    let pid = match pid.trim() {
        "-" => None,
        pid => Some(pid.parse().map_err(|_| wrong())?),
    };
    Ok(Command::Driver { id: id.to_owned(), pid })
}

/// Puts bytes together to lines.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Takes bytes as they come and gives the lines that they complete, without empty ones.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut complete = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // What is beyond the limit is cut off; the command then fails aloud or the mark is shortened.
            let room = LONGEST_LINE_BYTES.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&self.partial).trim().to_owned();
                self.partial.clear();
                if !line.is_empty() {
                    complete.push(line);
                }
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_to_whole_intervals_from_the_start() {
        let mut schedule = Schedule::new(5, 1_000_000);
        assert_eq!(schedule.begin(5), 0);
        assert_eq!(schedule.wait_ns(5), Some(1_000_000));
        assert_eq!(schedule.begin(1_000_005 + 50_000), 50);
        assert_eq!(schedule.wait_ns(1_050_005), Some(950_000));
        assert_eq!((schedule.late, schedule.missed), (0, 0));
    }

    #[test]
    fn a_sample_that_is_too_late_leaves_out_those_it_missed() {
        let mut schedule = Schedule::new(0, 1_000_000);
        assert_eq!(schedule.begin(3_200_000), 3200);
        assert_eq!((schedule.late, schedule.missed, schedule.late_max_us), (1, 3, 3200));
        assert_eq!(schedule.wait_ns(3_200_000), Some(800_000));
    }

    #[test]
    fn without_an_interval_nothing_is_planned() {
        let mut schedule = Schedule::new(0, 0);
        assert_eq!((schedule.wait_ns(9), schedule.begin(9)), (None, 0));
    }

    #[test]
    fn each_command_is_understood() {
        let driver = |id: &str, pid| Ok(Command::Driver { id: id.into(), pid });
        assert_eq!(Command::parse("driver 1 77"), driver("1", Some(77)));
        assert_eq!(Command::parse("driver load-2 -"), driver("load-2", None));
        assert_eq!(
            Command::parse("mark step 3 begins"),
            Ok(Command::Mark("step 3 begins".into()))
        );
        assert_eq!(Command::parse("sample"), Ok(Command::Sample(None)));
        assert_eq!(Command::parse("sample 5"), Ok(Command::Sample(Some(5))));
        assert_eq!(Command::parse("speed 12"), Ok(Command::Speed("12".into())));
        assert_eq!(Command::parse("stop"), Ok(Command::Stop));
    }

    #[test]
    fn a_mistake_says_what_is_allowed() {
        assert!(Command::parse("drive 1 2")
            .unwrap_err()
            .contains("driver, mark, sample, speed, stop"));
        assert!(Command::parse("speed").unwrap_err().contains("speed ID"));
        assert!(Command::parse("driver 1").unwrap_err().contains("driver ID PID"));
        assert!(Command::parse("driver 1 x").unwrap_err().contains("driver ID PID"));
        assert!(Command::parse("sample soon").unwrap_err().contains("nanoseconds"));
    }

    #[test]
    fn lines_come_together_from_pieces() {
        let mut lines = Lines::default();
        assert!(lines.take(b"mark o").is_empty());
        assert_eq!(lines.take(b"ne\n\nstop\ndri"), ["mark one", "stop"]);
        assert_eq!(lines.take(b"ver 1 -\n"), ["driver 1 -"]);
    }

    #[test]
    fn an_endless_line_does_not_grow_without_end() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            lines.take(&[b'x'; 4096]);
        }
        assert_eq!(lines.take(b"\n")[0].len(), LONGEST_LINE_BYTES);
        assert_eq!(lines.take(b"stop\n"), ["stop"]);
    }
}
