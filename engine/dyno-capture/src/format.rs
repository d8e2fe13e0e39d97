//! The capture format: JSON lines, version 1. docs/reference/capture.md describes it.

use std::io::{BufRead, Write};

use dyno_core::wire::{Format, LineWriter};
use serde::{Deserialize, Serialize};

use crate::event::{Action, Capture, Event, Header, Statement};
use crate::timeline::duration_us;

/// The name of the format.
pub const FORMAT: &str = "dynoload-capture";
/// Its version.
pub const FORMAT_VERSION: u32 = 1;

/// The latest time of an event, µs: 10,000 years, so that no time in a program that reads it overflows.
const LATEST_US: u64 = 10_000 * 366 * 86_400 * 1_000_000;

/// Why a file is not a capture that can be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is something else.
    #[error("is not a capture: {0}; `dynoload capture` makes one of a server's log")]
    NotACapture(String),
    /// It was written by another version of the program.
    #[error(
        "has version {0} of the format, this program reads version {FORMAT_VERSION}; use the program that wrote it"
    )]
    Version(u64),
    /// A line is damaged.
    #[error("is damaged in line {line}, or cut off there: {problem}")]
    Line {
        /// From 1 on.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// Lines are missing.
    #[error("is incomplete: its header names {expected} events, there are {found}")]
    Incomplete {
        /// By the header.
        expected: u64,
        /// By the lines.
        found: u64,
    },
}

/// How a text is written: absent for UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    /// Each character stands for the byte of its number.
    Bytes,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Line {
    Connect {
        at_us: u64,
        session: u32,
        connection_id: u64,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        user: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        schema: Option<String>,
    },
    Statement {
        at_us: u64,
        session: u32,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        schema: Option<String>,
        text: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        encoding: Option<Encoding>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        duration_us: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        rows: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        count: Option<u64>,
    },
    Schema {
        at_us: u64,
        session: u32,
        schema: String,
    },
    Reset {
        at_us: u64,
        session: u32,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        user: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        schema: Option<String>,
    },
    Quit {
        at_us: u64,
        session: u32,
    },
}

impl From<&Event> for Line {
    fn from(event: &Event) -> Self {
        let (at_us, session) = (event.at_us, event.session);
        match event.action.clone() {
            Action::Connect {
                connection_id,
                user,
                schema,
            } => Self::Connect {
                at_us,
                session,
                connection_id,
                user,
                schema,
            },
            Action::Statement(statement) => {
                let (text, encoding) = match String::from_utf8(statement.text) {
                    Ok(text) => (text, None),
                    Err(error) => {
                        let characters = error.into_bytes().into_iter().map(char::from).collect();
                        (characters, Some(Encoding::Bytes))
                    }
                };
                let Statement {
                    schema,
                    duration_us,
                    rows,
                    count,
                    ..
                } = Statement {
                    text: Vec::new(),
                    ..statement
                };
                Self::Statement {
                    at_us,
                    session,
                    schema,
                    text,
                    encoding,
                    duration_us,
                    rows,
                    count,
                }
            }
            Action::Schema(schema) => Self::Schema { at_us, session, schema },
            Action::Reset { user, schema } => Self::Reset {
                at_us,
                session,
                user,
                schema,
            },
            Action::Quit => Self::Quit { at_us, session },
        }
    }
}

impl Line {
    fn event(self) -> Result<Event, String> {
        let event = |at_us, session, action| Ok(Event { at_us, session, action });
        match self {
            Self::Connect {
                at_us,
                session,
                connection_id,
                user,
                schema,
            } => event(
                at_us,
                session,
                Action::Connect {
                    connection_id,
                    user,
                    schema,
                },
            ),
            Self::Statement {
                at_us,
                session,
                schema,
                text,
                encoding,
                duration_us,
                rows,
                count,
            } => {
                let text = match encoding {
                    None => text.into_bytes(),
                    Some(Encoding::Bytes) => text
                        .chars()
                        .map(u8::try_from)
                        .collect::<Result<_, _>>()
                        .map_err(|_| "a text of encoding \"bytes\" has a character above U+00FF".to_string())?,
                };
                event(
                    at_us,
                    session,
                    Action::Statement(Statement {
                        schema,
                        text,
                        duration_us,
                        rows,
                        count,
                    }),
                )
            }
            Self::Schema { at_us, session, schema } => event(at_us, session, Action::Schema(schema)),
            Self::Reset {
                at_us,
                session,
                user,
                schema,
            } => event(at_us, session, Action::Reset { user, schema }),
            Self::Quit { at_us, session } => event(at_us, session, Action::Quit),
        }
    }
}

/// Writes a capture.
///
/// # Errors
/// When the writer fails.
pub fn write(capture: &Capture, mut writer: impl Write) -> Result<(), FormatError> {
    let format = Format {
        format: FORMAT,
        format_version: FORMAT_VERSION,
        program: "dynoload",
        version: env!("CARGO_PKG_VERSION"),
    };
    LineWriter::start(&mut writer, format, &capture.header)?;
    for event in &capture.events {
        serde_json::to_writer(&mut writer, &Line::from(event)).map_err(std::io::Error::from)?;
        writer.write_all(b"\n")?;
    }
    writer.flush()?;
    Ok(())
}

/// Whether a file that begins with these bytes is meant to be a capture, of whatever version.
pub fn is_capture(first_bytes: &[u8]) -> bool {
    let first_line = first_bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let name = format!("\"{FORMAT}\"");
    first_line.starts_with(b"{") && first_line.windows(name.len()).any(|part| part == name.as_bytes())
}

/// Reads a capture.
///
/// # Errors
/// When it is something else, of another version, damaged or incomplete.
pub fn read(reader: impl BufRead) -> Result<Capture, FormatError> {
    let mut lines = reader.lines();
    let first = lines
        .next()
        .ok_or_else(|| FormatError::NotACapture("it is empty".into()))?;
    let first = match first {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Err(FormatError::NotACapture("its first line is not text".into()))
        }
        first => first?,
    };
    let header = read_header(&first)?;
    let mut events = Vec::with_capacity(header.events.min(1 << 24) as usize);
    let mut at_us = 0;
    for (index, line) in lines.enumerate() {
        let problem = |problem: String| FormatError::Line {
            line: index + 2,
            problem,
        };
        let line = line.map_err(|error| problem(error.to_string()))?;
        let event = serde_json::from_str::<Line>(&line)
            .map_err(|error| problem(error.to_string()))?
            .event()
            .map_err(problem)?;
        if event.at_us < at_us {
            return Err(problem(format!(
                "at_us {} is before that of the line above, {at_us}",
                event.at_us
            )));
        }
        let end_us = event.at_us.saturating_add(duration_us(&event));
        if end_us > LATEST_US {
            return Err(problem(format!(
                "it ends at {end_us} µs; at most {LATEST_US} is allowed"
            )));
        }
        if event.session == 0 || u64::from(event.session) > header.sessions {
            let sessions = header.sessions;
            return Err(problem(format!(
                "session {} is not one of the {sessions} of the header",
                event.session
            )));
        }
        at_us = event.at_us;
        events.push(event);
    }
    if events.len() as u64 != header.events {
        let found = events.len() as u64;
        return Err(FormatError::Incomplete {
            expected: header.events,
            found,
        });
    }
    if header.duration_us > LATEST_US {
        let duration_us = header.duration_us;
        return Err(FormatError::NotACapture(format!(
            "its header: duration_us is {duration_us}; at most {LATEST_US} is allowed"
        )));
    }
    Ok(Capture { header, events })
}

fn read_header(line: &str) -> Result<Header, FormatError> {
    let other = |problem: String| FormatError::NotACapture(problem);
    let value: serde_json::Value =
        serde_json::from_str(line).map_err(|_| other("its first line is not a JSON header".into()))?;
    if value["format"] != FORMAT {
        let found = value["format"]
            .as_str()
            .map_or("none".into(), |format| format!("\"{format}\""));
        return Err(other(format!("its format is {found}, not \"{FORMAT}\"")));
    }
    match value["format_version"].as_u64() {
        Some(version) if version == u64::from(FORMAT_VERSION) => {}
        version => return Err(FormatError::Version(version.unwrap_or(0))),
    }
    serde_json::from_value(value).map_err(|error| other(format!("its header: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"record":"header","format":"dynoload-capture","format_version":1,"source":"general_log","resolution_us":1,"spread":false,"anonymised":false,"duration_us":9,"sessions":1,"peak_sessions":1,"events":6,"statements":2}"#;

    fn written() -> String {
        let mut capture = read(HEADER.replace("\"events\":6", "\"events\":0").as_bytes()).unwrap();
        capture.header.events = 6;
        let schema = || Some("shop".to_string());
        let statement = |text: &[u8]| {
            Action::Statement(Statement {
                schema: schema(),
                text: text.to_vec(),
                duration_us: Some(7),
                rows: None,
                count: Some(3),
            })
        };
        let connect = Action::Connect {
            connection_id: 8,
            user: Some("a@b".into()),
            schema: schema(),
        };
        let reset = Action::Reset {
            user: None,
            schema: schema(),
        };
        let actions = [
            connect,
            statement("SELECT 'ü\n'".as_bytes()),
            statement(b"SELECT '\xff'"),
            Action::Schema("other".into()),
            reset,
            Action::Quit,
        ];
        let event = |(at_us, action)| Event {
            at_us,
            session: 1,
            action,
        };
        capture.events = (0..).zip(actions).map(event).collect();
        let mut bytes = Vec::new();
        write(&capture, &mut bytes).unwrap();
        assert_eq!(read(&bytes[..]).unwrap(), capture);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is() {
        let text = written();
        let error = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(error(&text.replacen("\"format_version\":1", "\"format_version\":2", 1)).contains("has version 2"));
        assert!(error(text.trim_end().rsplit_once('\n').unwrap().0).contains("names 6 events, there are 5"));
        assert!(error(&text[..text.len() - 9]).contains("is damaged in line 7, or cut off there"));
        assert!(error("").contains("it is empty"));
        assert!(error("root:x:0").contains("not a JSON header"));
        assert!(error(&text.replace("\"session\":1,", "\"session\":2,")).contains("session 2 is not one of the 1"));
        let late = |from: &str, to: &str| error(&text.replacen(from, to, 1));
        let last = u64::MAX.to_string();
        assert!(late("\"at_us\":5", &format!("\"at_us\":{last}")).contains("line 7, or cut off there: it ends at"));
        assert!(late("\"duration_us\":7", &format!("\"duration_us\":{last}")).contains("line 3, or cut off"));
        assert!(late("\"duration_us\":9", &format!("\"duration_us\":{last}")).contains("duration_us is 184467"));
        assert!(is_capture(text.as_bytes()) && !is_capture(b"SELECT 1;"));
    }
}
