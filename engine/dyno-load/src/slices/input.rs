//! The commands of a load that runs slices: one a line, words separated by spaces; and where they come from: the
//! standard input, read on a separate thread, and signals.

use std::io::BufRead as _;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_loop::SliceTimes;

use crate::error::Error;

/// Longest washout or measurement of a slice: a day.
const LONGEST_MS: u64 = 24 * 3600 * 1000;
/// Highest rate of a slice, operations per second.
const HIGHEST_RATE: f64 = 1e8;
const FORM: &str = "write `go ID STREAM WASHOUT_MS MEASURE_MS [RATE|connections=N]`, as in `go a-1 7 500 3000`, or \
                    `end`";

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Run a slice.
    Go(Go),
    /// Close the connections and end.
    End,
    /// An empty line.
    Nothing,
}

/// A request for one slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Go {
    /// Its name, repeated in its record.
    pub id: String,
    /// Its stream and lengths.
    pub times: SliceTimes,
}

impl Command {
    /// Reads a line.
    ///
    /// # Errors
    /// A sentence with the word that is wrong, and the form.
    pub fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            [] => Ok(Self::Nothing),
            ["end"] => Ok(Self::End),
            ["go", id, stream, washout, measure, ref level @ ..] if level.len() <= 1 => {
                let washout_ms = milliseconds("WASHOUT_MS", washout)?;
                let measure_ms = milliseconds("MEASURE_MS", measure)?;
                let word = level.first();
                let connections = word.and_then(|word| word.strip_prefix("connections="));
                let rate = word.filter(|_| connections.is_none());
                if measure_ms == 0 {
                    return Err(format!("a MEASURE_MS of 0 counts nothing; {FORM}"));
                }
                Ok(Self::Go(Go {
                    id: id.to_string(),
                    times: SliceTimes {
                        stream: stream
                            .parse()
                            .map_err(|_| format!("STREAM '{stream}' is not a number up to {}; {FORM}", u32::MAX))?,
                        washout_ns: washout_ms * 1_000_000,
                        measure_ns: measure_ms * 1_000_000,
                        rate_per_ks: rate.map(|word| rate_per_ks(word)).transpose()?,
                        connections: connections.map(loaded).transpose()?,
                    },
                }))
            }
            ["go", ..] => Err(format!(
                "`go` has {} words after it, not 4 or 5; {FORM}",
                words.len() - 1
            )),
            [word, ..] => Err(format!("'{word}' is not a command; {FORM}")),
        }
    }
}

fn milliseconds(name: &str, word: &str) -> Result<u64, String> {
    word.parse()
        .ok()
        .filter(|value| *value <= LONGEST_MS)
        .ok_or_else(|| format!("{name} '{word}' is not a whole number of milliseconds up to {LONGEST_MS}; {FORM}"))
}

fn rate_per_ks(word: &str) -> Result<u64, String> {
    word.parse::<f64>()
        .ok()
        .filter(|rate| (0.001..=HIGHEST_RATE).contains(rate))
        .map(|rate| (rate * 1e3).round() as u64)
        .ok_or_else(|| format!("RATE '{word}' is not a number of operations per second up to {HIGHEST_RATE}; {FORM}"))
}

fn loaded(word: &str) -> Result<u32, String> {
    word.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| format!("connections={word} is not a number of connections from 1 on; {FORM}"))
}

/// What may come while the load is on hold.
#[derive(Debug)]
pub enum Event {
    /// A line, and when it was read.
    Line(String, u64),
    /// The end of the input.
    EndOfInput,
    /// SIGINT or SIGTERM.
    Interrupted,
}

/// The events, in their order.
#[derive(Debug)]
pub struct Input {
    /// Set by the first SIGINT or SIGTERM.
    pub interrupted: Arc<AtomicBool>,
    pub(super) events: Receiver<Event>,
}

impl Input {
    /// Takes the signals and the standard input; to be called before any other thread is started.
    ///
    /// # Errors
    /// When the signals cannot be taken, or there is no thread.
    pub fn open() -> Result<Self, Error> {
        let (sender, events) = channel();
        let signals = sender.clone();
        let interrupted = crate::host::interruption_with(move || {
            // The receiver is gone when the program ends anyway.
            let _ = signals.send(Event::Interrupted);
        })?;
        std::thread::Builder::new().name("input".into()).spawn(move || {
            for line in std::io::stdin().lock().split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                if sender.send(Event::Line(line, now_ns())).is_err() {
                    return;
                }
            }
            let _ = sender.send(Event::EndOfInput);
        })?;
        Ok(Self { interrupted, events })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_or_refused_with_the_wrong_word_and_the_form() {
        let go = Command::parse(" go a-1  7 500 3000 ").unwrap();
        let expected = Go {
            id: "a-1".into(),
            times: SliceTimes {
                stream: 7,
                washout_ns: 500_000_000,
                measure_ns: 3_000_000_000,
                rate_per_ks: None,
                connections: None,
            },
        };
        assert_eq!(go, Command::Go(expected));
        let Ok(Command::Go(at_rate)) = Command::parse("go a 7 500 3000 1234.5") else {
            panic!("a rate is refused");
        };
        assert_eq!(at_rate.times.rate_per_ks, Some(1_234_500));
        let Ok(Command::Go(at_level)) = Command::parse("go a 7 500 3000 connections=12") else {
            panic!("a number of connections is refused");
        };
        assert_eq!(
            (at_level.times.connections, at_level.times.rate_per_ks),
            (Some(12), None)
        );
        assert_eq!(Command::parse("end"), Ok(Command::End));
        assert_eq!(Command::parse(" "), Ok(Command::Nothing));
        for (line, word) in [
            ("go", "0 words"),
            ("go a 7 500", "3 words"),
            ("go a -7 500 3000", "-7"),
            ("go a 4294967296 500 3000", "4294967296"),
            ("go a 7 0.5 3000", "0.5"),
            ("go a 7 500 0", "MEASURE_MS of 0"),
            ("go a 7 500 3000 0", "RATE '0'"),
            ("go a 7 500 3000 fast", "RATE 'fast'"),
            ("go a 7 500 3000 5 5", "6 words"),
            ("go a 7 500 3000 connections=0", "connections=0"),
            ("go a 7 500 3000 connections=x", "connections=x"),
            ("go a 7 500 99999999999999999999", "99999999999999999999"),
            ("stop", "'stop'"),
            ("end now", "'end'"),
        ] {
            let message = Command::parse(line).unwrap_err();
            assert!(
                message.contains(word) && message.contains("go ID STREAM"),
                "{line}: {message}"
            );
        }
    }
}
