//! The slow query log, written with `long_query_time = 0`.
//!
//! Each entry has lines that begin with `#`, in MySQL `SET timestamp=…;`, where the schema differs from that of the entry
//! before `use …;`, and the statement with a `;` at its end. The time is that of the entry's end. MariaDB, and MySQL before
//! 5.7, write `# Time:` only where the second changes. MariaDB writes the connection's number and schema in a line
//! `# Thread_id:`, MySQL the number after the user. Neither logs the beginning of a connection.

use crate::assembler::{Assembler, Raw, RawAction};
use crate::event::Statement;
use crate::heading::{is_heading, version};
use crate::problems::Problem;
use crate::timestamp::{rfc3339, short, Micros};

/// An entry so far.
#[derive(Debug, Default)]
struct Entry {
    line: u64,
    connection_id: Option<u64>,
    /// Whether the line with the user was whole.
    has_user: bool,
    schema: Option<String>,
    duration_us: Option<u64>,
    rows: Option<u64>,
    /// Whether `SET timestamp` was seen; it is the log's own line, once.
    has_timestamp: bool,
    administrator: Option<String>,
    text: Vec<u8>,
}

/// Reads a slow log.
#[derive(Debug, Default)]
pub struct SlowLog {
    at: Option<Micros>,
    is_whole_second: bool,
    /// The schema that the log has named last (`use …;`), for sources without a schema in each entry.
    schema: Option<String>,
    entry: Option<Entry>,
    /// Whether the heading of an entry is being read.
    in_heading: bool,
    is_skipping: bool,
    /// Whether the log's own lines end with CR LF, so that the whole file was converted: CR is then no part of a text.
    is_converted: bool,
}

impl SlowLog {
    /// Whether a line can only be of a slow log.
    pub fn is_its_own(line: &[u8]) -> bool {
        line.starts_with(b"# User@Host: ") || line.starts_with(b"# Query_time: ")
    }

    /// The next line, without its end.
    pub fn line(&mut self, number: u64, line: &[u8], assembler: &mut Assembler) {
        let bare = line.strip_suffix(b"\r").unwrap_or(line);
        if is_head(bare) || version(bare).is_some() {
            self.is_converted = bare.len() < line.len();
        }
        let line = if self.is_converted { bare } else { line };
        if self.take_administrator(line) {
            self.in_heading = false;
        } else if is_head(line) {
            self.head(number, line, assembler);
        } else if is_cut_head(line) {
            self.enter_heading(assembler);
            self.entry.get_or_insert_with(Entry::default);
            assembler.problems.count(Problem::CutLine, number);
        } else if let Some(version) = version(line) {
            self.complete(assembler);
            self.is_skipping = true;
            assembler.server.get_or_insert(version);
        } else if let Some(entry) = &mut self.entry {
            self.in_heading = false;
            if entry.text.is_empty() {
                if !entry.has_timestamp && line.starts_with(b"SET timestamp=") && line.ends_with(b";") {
                    entry.has_timestamp = true;
                    return;
                }
                if let (false, Some(schema)) = (entry.has_timestamp, used(line)) {
                    self.schema = Some(schema);
                    return;
                }
            } else {
                entry.text.push(b'\n');
            }
            entry.text.extend_from_slice(line);
        } else if !self.is_skipping && !is_heading(line) && !line.is_empty() {
            assembler.problems.count(Problem::BeforeFirstEntry, number);
        }
    }

    /// Takes a protocol's command in the place of a statement: MySQL writes it after `SET timestamp`.
    fn take_administrator(&mut self, line: &[u8]) -> bool {
        let (Some(entry), Some(command)) = (&mut self.entry, line.strip_prefix(ADMINISTRATOR)) else {
            return false;
        };
        if !entry.text.is_empty() {
            return false;
        }
        let command = String::from_utf8_lossy(command);
        entry.administrator = Some(command.trim_end_matches(';').to_string());
        true
    }

    fn enter_heading(&mut self, assembler: &mut Assembler) {
        if !self.in_heading {
            self.complete(assembler);
            self.in_heading = true;
        }
        self.is_skipping = false;
    }

    fn head(&mut self, number: u64, line: &[u8], assembler: &mut Assembler) {
        self.enter_heading(assembler);
        let text = String::from_utf8_lossy(line);
        if let Some(time) = text.strip_prefix("# Time: ") {
            let stamp = time.trim_end().as_bytes();
            if let Some(at) = rfc3339(stamp) {
                (self.at, self.is_whole_second) = (Some(at), false);
            } else if let Some(at) = short(stamp) {
                (self.at, self.is_whole_second) = (Some(at), true);
            } else {
                assembler.problems.count(Problem::UnreadableTime, number);
            }
            return;
        }
        let entry = self.entry.get_or_insert_with(Entry::default);
        if entry.line == 0 {
            entry.line = number;
        }
        if !read_fields(&text, entry) {
            assembler.problems.count(Problem::UnreadableLine, number);
        }
    }

    /// The end of the file.
    pub fn end(mut self, is_cut: bool, assembler: &mut Assembler) {
        let is_whole = |entry: &Entry| entry.text.trim_ascii_end().ends_with(b";") || entry.administrator.is_some();
        if let Some(entry) = &self.entry {
            if is_cut && !is_whole(entry) {
                assembler.problems.count(Problem::CutAtEnd, entry.line);
                self.entry = None;
            }
        }
        self.complete(assembler);
    }

    fn complete(&mut self, assembler: &mut Assembler) {
        let Some(entry) = self.entry.take() else {
            return;
        };
        let Some(connection_id) = entry.connection_id else {
            let problem = if entry.has_user {
                Problem::NoConnection
            } else {
                Problem::CutLine
            };
            assembler.problems.count(problem, entry.line);
            return;
        };
        let action = match entry.administrator.as_deref() {
            Some("Quit") => RawAction::Quit,
            Some("Change user") => RawAction::Reset {
                user: None,
                schema: entry.schema,
            },
            Some("Reset connection" | "Reset Connection") => RawAction::Reset {
                user: None,
                schema: None,
            },
            // The text of an execution stands in its entry; the rest has no effect on the data.
            Some(_) => return,
            None => {
                let text = entry.text.trim_ascii_end();
                let Some(text) = text.strip_suffix(b";") else {
                    let problem = if text.is_empty() {
                        Problem::NoStatement
                    } else {
                        Problem::CutLine
                    };
                    assembler.problems.count(problem, entry.line);
                    return;
                };
                let statement = Statement {
                    schema: entry.schema.or_else(|| self.schema.clone()),
                    text: text.to_vec(),
                    duration_us: entry.duration_us,
                    rows: entry.rows,
                };
                RawAction::Statement {
                    statement,
                    is_execution: false,
                }
            }
        };
        assembler.push(Raw {
            at: self.at,
            is_whole_second: self.is_whole_second,
            connection_id,
            line: entry.line,
            action,
        });
    }
}

/// The lines that the log itself puts before a statement. Others with `#` are comments of the statement.
const HEADS: [&[u8]; 12] = [
    b"# Time: ",
    b"# User@Host: ",
    b"# Thread_id: ",
    b"# Query_time: ",
    b"# Rows_affected: ",
    b"# Full_scan: ",
    b"# Filesort: ",
    b"# Tmp_tables: ",
    b"# Pages_accessed: ",
    b"# Schema: ",
    b"# Stored_routine: ",
    ADMINISTRATOR,
];

fn is_head(line: &[u8]) -> bool {
    HEADS.iter().any(|head| line.starts_with(head))
}

const ADMINISTRATOR: &[u8] = b"# administrator command: ";

/// Whether the line is nothing but the beginning of one of them.
fn is_cut_head(line: &[u8]) -> bool {
    const SHORTEST: usize = 6;
    line.len() >= SHORTEST && HEADS.iter().any(|head| head.starts_with(line))
}

/// Reads `Name: value` pairs of one line. Returns whether those that a capture needs can be read.
fn read_fields(line: &str, entry: &mut Entry) -> bool {
    let fields = line.trim_start_matches("# ");
    if let Some(rest) = fields.strip_prefix("User@Host: ") {
        // `root[root] @ localhost []  Id:     8`, in MySQL.
        if let Some((_, id)) = rest.rsplit_once("Id:") {
            entry.connection_id = id.trim().parse().ok();
            return entry.connection_id.is_some();
        }
        entry.has_user = rest.ends_with(']');
        return true;
    }
    let mut is_readable = true;
    let mut words = fields.split_ascii_whitespace().peekable();
    while let Some(name) = words.next() {
        let Some(name) = name.strip_suffix(':') else {
            continue;
        };
        // A value that is empty is followed by the next name.
        let value = words.next_if(|word| !word.ends_with(':'));
        match (name, value) {
            ("Thread_id" | "Id", value) => {
                entry.connection_id = value.and_then(|value| value.parse().ok());
                is_readable &= entry.connection_id.is_some();
            }
            ("Schema", value) => entry.schema = value.map(str::to_string),
            ("Query_time", value) => {
                entry.duration_us = value.and_then(seconds_us);
                is_readable &= entry.duration_us.is_some();
            }
            ("Rows_sent", Some(value)) => entry.rows = value.parse().ok(),
            _ => {}
        }
    }
    is_readable
}

fn seconds_us(text: &str) -> Option<u64> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..1e9).contains(&seconds).then_some((seconds * 1e6).round() as u64)
}

/// `use shop;`
fn used(line: &[u8]) -> Option<String> {
    line.ends_with(b";").then(|| crate::class::used_schema(line)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembler::Origin;
    use crate::event::{Action, Capture};
    use crate::source::Source;

    const HEAD: &str = "# User@Host: root[root] @ localhost []\n# Thread_id: 7  Schema: shop  QC_hit: No\n\
                        # Query_time: 0.000250  Lock_time: 0.000010  Rows_sent: 1  Rows_examined: 1\nSET timestamp=1;\n";

    fn capture(text: &str, is_cut: bool) -> Capture {
        let mut assembler = Assembler::new(Origin {
            source: Source::SlowLog,
            time_is_end: true,
        });
        let mut log = SlowLog::default();
        for (number, line) in (1..).zip(text.lines()) {
            log.line(number, line.as_bytes(), &mut assembler);
        }
        log.end(is_cut, &mut assembler);
        assembler.finish()
    }

    fn texts(capture: &Capture) -> Vec<String> {
        let text = |action: &Action| match action {
            Action::Statement(statement) => Some(String::from_utf8_lossy(&statement.text).into_owned()),
            _ => None,
        };
        capture.events.iter().filter_map(|event| text(&event.action)).collect()
    }

    #[test]
    fn an_entry_has_its_schema_duration_rows_and_text_of_several_lines() {
        let found = capture(
            &format!("# Time: 261123  9:41:03\n{HEAD}SELECT 1\n# a comment\nFROM t;\n"),
            false,
        );
        let Action::Statement(statement) = &found.events[0].action else {
            panic!("{:?}", found.events);
        };
        assert_eq!(statement.text, b"SELECT 1\n# a comment\nFROM t");
        let fields = (statement.schema.as_deref(), statement.duration_us, statement.rows);
        assert_eq!(fields, (Some("shop"), Some(250), Some(1)));
        assert!(found.header.problems.is_empty());
    }

    #[test]
    fn cut_lines_are_counted_with_their_places_and_the_rest_is_used() {
        let log = format!("left over;\n{HEAD}SELECT 1;\n# User@\n{HEAD}SELECT 2;\n{HEAD}SELECT 'a;\n{HEAD}SELECT 4");
        let found = capture(&log, true);
        assert_eq!(texts(&found), ["SELECT 1", "SELECT 2"]);
        let problems: Vec<_> = found
            .header
            .problems
            .iter()
            .map(|seen| (seen.problem, seen.first[0].line))
            .collect();
        assert_eq!(
            problems,
            [
                (Problem::BeforeFirstEntry, 1),
                (Problem::CutLine, 7),
                (Problem::CutStatement, 13),
                (Problem::CutAtEnd, 18)
            ]
        );
    }

    #[test]
    fn line_ends_within_a_statement_stay_unless_the_whole_log_was_converted() {
        let log = format!("# Time: 261123  9:41:03\n{HEAD}SELECT 'a\r\nb';\n");
        let converted = log.replace("\r\n", "\n").replace('\n', "\r\n");
        for (log, expected) in [(log, "SELECT 'a\r\nb'"), (converted, "SELECT 'a\nb'")] {
            let mut assembler = Assembler::new(Origin {
                source: Source::SlowLog,
                time_is_end: true,
            });
            let mut reader = SlowLog::default();
            for (number, line) in (1..).zip(log.trim_end_matches('\n').split('\n')) {
                reader.line(number, line.as_bytes(), &mut assembler);
            }
            reader.end(false, &mut assembler);
            assert_eq!(texts(&assembler.finish()), [expected]);
        }
    }
}
