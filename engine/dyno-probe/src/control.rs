//! Commands on standard input, one a line:
//!
//! ```text
//! driver ID PID      a load program began: watch it (in place of the one with that ID before)
//! driver ID -        it ended: stop watching
//! mark TEXT          write a record with this text and the time
//! speed ID           write a record with what the speed meter has run so far
//! sample [NS]        with --interval-ms 0: take a sample; NS sets the clock, in nanoseconds
//! stop               end as after SIGTERM
//! ```

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
