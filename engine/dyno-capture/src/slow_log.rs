//! The slow query log, written with `long_query_time = 0`.
//!
//! Each entry has a heading of lines that begin with `#`, where the schema differs from that of the entry before
//! `use …;`, `SET timestamp=…;`, and the statement with a `;` at its end. Which lines a heading has depends on the server
//! and on its settings (log_slow_extra in MySQL, log_slow_verbosity in Percona Server and MariaDB): every line with `#` is
//! of the heading until `use`, `SET timestamp` or the statement; from then on it is a comment of the statement.
//!
//! The time is that of the entry's end. MariaDB, and MySQL before 5.7, write `# Time:` only where the second changes.
//! MariaDB writes the connection's number and schema in a line `# Thread_id:`, MySQL the number after the user. Neither
//! logs the beginning of a connection.

use crate::assembler::Assembler;
use crate::event::{Raw, RawAction, Statement};
use crate::general_log::{is_heading, version};
use crate::problems::Problem;
use crate::timeline::SECOND_US;
use crate::timestamp::{rfc3339, short, Micros};

/// An entry so far.
#[derive(Debug, Default)]
struct Entry {
    line: u64,
    connection_id: Option<u64>,
    /// The line with the user.
    user: Option<User>,
    /// The schema that the entry states; none within: it had none.
    schema: Option<Option<String>>,
    duration_us: Option<u64>,
    rows: Option<u64>,
    /// The log's own `SET timestamp`, s; what follows is the statement.
    timestamp_s: Option<Micros>,
    administrator: Option<String>,
    /// Whether MariaDB states that a procedure executed it; the CALL has an entry of its own. Percona Server, which logs
    /// no CALL then, writes `# Stored routine:`.
    is_of_routine: bool,
    text: Vec<u8>,
}

/// The account of an entry.
#[derive(Debug)]
struct User {
    name: String,
    is_whole: bool,
}

/// Reads a slow log.
#[derive(Debug, Default)]
pub struct SlowLog {
    at: Option<Micros>,
    is_shared_second: bool,
    /// Whether the last `# Time:` could not be read.
    is_time_lost: bool,
    /// The log's clock less that of `SET timestamp`, µs.
    offset: Micros,
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
        line.starts_with(USER) || line.starts_with(b"# Query_time: ")
    }

    /// The time that a line states.
    pub fn time_of(line: &[u8]) -> Option<Micros> {
        time(line.strip_prefix(TIME)?).map(|(at, _)| at)
    }

    /// The next line, without its end.
    pub fn line(&mut self, number: u64, line: &[u8], assembler: &mut Assembler) {
        let bare = line.strip_suffix(b"\r").unwrap_or(line);
        if begins_entry(bare) || version(bare).is_some() {
            self.is_converted = bare.len() < line.len();
        }
        let line = if self.is_converted { bare } else { line };
        if self.take_administrator(line) {
            self.in_heading = false;
        } else if begins_entry(line) || self.is_of_heading(line) {
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
                if entry.timestamp_s.is_none() {
                    if let Some(timestamp_s) = set_timestamp(line) {
                        entry.timestamp_s = Some(timestamp_s);
                        return;
                    }
                    if let Some(schema) = used(line) {
                        self.schema = Some(schema);
                        return;
                    }
                }
            } else {
                entry.text.push(b'\n');
            }
            entry.text.extend_from_slice(line);
        } else if !self.is_skipping && !is_heading(line) && !line.is_empty() {
            assembler.problems.count(Problem::BeforeFirstEntry, number);
        }
    }

    /// Whether a line that begins no entry belongs to a heading: to the one that is being read, or to one whose beginning
    /// is missing.
    fn is_of_heading(&self, line: &[u8]) -> bool {
        match &self.entry {
            Some(_) => self.in_heading && line.starts_with(b"#"),
            None => HEADS.iter().any(|head| line.starts_with(head)),
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
        // Within a heading, the beginning of another one: the first is cut.
        let has_user = |entry: &Entry| entry.user.is_some();
        if begins_entry(line) && self.in_heading && self.entry.as_ref().is_some_and(has_user) {
            self.in_heading = false;
        }
        self.enter_heading(assembler);
        if let Some(stamp) = line.strip_prefix(TIME) {
            let found = time(stamp);
            self.is_time_lost = found.is_none();
            match found {
                Some((at, is_shared)) => (self.at, self.is_shared_second) = (Some(at), is_shared),
                None => assembler.problems.count(Problem::UnreadableTime, number),
            }
            return;
        }
        let entry = self.entry.get_or_insert_with(Entry::default);
        if entry.line == 0 {
            entry.line = number;
        }
        if !read_fields(&String::from_utf8_lossy(line), entry) {
            assembler.problems.count(Problem::UnreadableLine, number);
        }
        if line.starts_with(SAMPLED) {
            assembler.problems.count(Problem::Sampled, number);
        }
    }

    /// The end of the file. The next one may go on where it ends: with its time and default schema.
    pub fn end(&mut self, is_cut: bool, assembler: &mut Assembler) {
        let is_whole = |entry: &Entry| entry.text.trim_ascii_end().ends_with(b";") || entry.administrator.is_some();
        if let Some(entry) = &self.entry {
            if is_cut && !is_whole(entry) {
                assembler.problems.count(Problem::CutAtEnd, entry.line);
                self.entry = None;
            }
        }
        self.complete(assembler);
        (self.in_heading, self.is_skipping, self.is_converted) = (false, false, false);
    }

    /// When the entry ended: by `SET timestamp` where its `# Time:` could not be read.
    fn time_of_entry(&mut self, timestamp_s: Option<Micros>) -> (Option<Micros>, bool) {
        let timestamp = timestamp_s.map(|seconds| seconds * SECOND_US as Micros);
        match (timestamp, self.at) {
            (Some(timestamp), _) if self.is_time_lost => return (Some(timestamp + self.offset), true),
            // Clocks differ by a time zone: by quarters of an hour.
            (Some(timestamp), Some(at)) => {
                self.offset = (at - timestamp + QUARTER_US / 2).div_euclid(QUARTER_US) * QUARTER_US
            }
            _ => {}
        }
        (self.at, self.is_shared_second)
    }

    fn complete(&mut self, assembler: &mut Assembler) {
        let Some(entry) = self.entry.take() else {
            return;
        };
        let Some(connection_id) = entry.connection_id else {
            let problem = if entry.user.is_some_and(|user| user.is_whole) {
                Problem::NoConnection
            } else {
                Problem::CutLine
            };
            assembler.problems.count(problem, entry.line);
            return;
        };
        if entry.is_of_routine {
            assembler.problems.count(Problem::Nested, entry.line);
            return;
        }
        let action = match entry.administrator.as_deref() {
            Some("Quit") => RawAction::Quit,
            Some("Change user") => RawAction::Reset {
                user: None,
                schema: entry.schema.flatten(),
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
                    schema: entry.schema.unwrap_or_else(|| self.schema.clone()),
                    text: text.to_vec(),
                    duration_us: entry.duration_us,
                    rows: entry.rows,
                    count: None,
                };
                RawAction::Statement {
                    statement,
                    is_execution: false,
                }
            }
        };
        let (at, is_shared_second) = self.time_of_entry(entry.timestamp_s);
        assembler.push(Raw {
            at,
            is_shared_second,
            connection_id,
            user: entry.user.map(|user| user.name),
            line: entry.line,
            action,
        });
    }
}

/// What begins an entry.
const TIME: &[u8] = b"# Time: ";
const USER: &[u8] = b"# User@Host: ";
/// Lines of a heading in every server's log, by which one without its beginning is recognised.
const HEADS: [&[u8]; 5] = [TIME, USER, b"# Thread_id: ", b"# Schema: ", b"# Query_time: "];
/// Percona Server: the log has one of so many statements or sessions (log_slow_rate_limit).
const SAMPLED: &[u8] = b"# Log_slow_rate_type: ";
const ADMINISTRATOR: &[u8] = b"# administrator command: ";
const QUARTER_US: Micros = 900_000_000;

/// Whether a line begins an entry; in a text it can hardly be told from one.
fn begins_entry(line: &[u8]) -> bool {
    let is_digit = |stamp: &[u8]| stamp.first().is_some_and(u8::is_ascii_digit);
    line.starts_with(USER) || line.strip_prefix(TIME).is_some_and(is_digit)
}

/// Whether the line is nothing but the beginning of one of them.
fn is_cut_head(line: &[u8]) -> bool {
    const SHORTEST: usize = 6;
    line.len() >= SHORTEST && HEADS.iter().any(|head| head.starts_with(line))
}

/// A time, and whether later entries of the same second have none of their own.
fn time(stamp: &[u8]) -> Option<(Micros, bool)> {
    let stamp = stamp.trim_ascii_end();
    rfc3339(stamp)
        .map(|at| (at, false))
        .or_else(|| short(stamp).map(|at| (at, true)))
}

/// The seconds of `SET [last_insert_id=…,][insert_id=…,]timestamp=…;`.
fn set_timestamp(line: &[u8]) -> Option<Micros> {
    let text = std::str::from_utf8(line)
        .ok()?
        .strip_prefix("SET ")?
        .strip_suffix(';')?;
    let mut timestamp_s = None;
    for assignment in text.split(',') {
        match assignment.split_once('=')? {
            ("timestamp", value) => timestamp_s = Some(value.split('.').next()?.parse().ok()?),
            ("last_insert_id" | "insert_id", _) => {}
            _ => return None,
        }
    }
    timestamp_s
}

/// Reads `Name: value` pairs of one line. Returns whether those that a capture needs can be read.
fn read_fields(line: &str, entry: &mut Entry) -> bool {
    let fields = line.trim_start_matches(['#', ' ']);
    if let Some(rest) = fields.strip_prefix("User@Host: ") {
        entry.user = Some(User {
            name: account(rest),
            is_whole: rest.ends_with(']'),
        });
        // `root[root] @ localhost []  Id:     8`, in MySQL.
        if let Some((_, id)) = rest.rsplit_once("Id:") {
            entry.connection_id = id.trim().parse().ok();
            return entry.connection_id.is_some();
        }
        return true;
    }
    if fields.starts_with("explain:") {
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
            ("Schema", value) => entry.schema = Some(value.map(str::to_string)),
            ("Query_time", value) => {
                entry.duration_us = value.and_then(seconds_us);
                is_readable &= entry.duration_us.is_some();
            }
            ("Stored_routine", value) => entry.is_of_routine = value.is_some(),
            ("Rows_sent", Some(value)) => entry.rows = value.parse().ok(),
            _ => {}
        }
    }
    is_readable
}

/// `root[root] @ localhost [127.0.0.1]`: user@host. Before the brackets is the account, within them who logged in.
fn account(text: &str) -> String {
    let (who, rest) = text.split_once('@').unwrap_or((text, ""));
    let (account, login) = who.split_once('[').unwrap_or((who, ""));
    let user = Some(account.trim()).filter(|user| !user.is_empty());
    let host = rest.split_once('[').map_or(rest, |(host, _)| host).trim();
    format!("{}@{host}", user.unwrap_or(login.trim().trim_end_matches(']')))
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
mod tests;
