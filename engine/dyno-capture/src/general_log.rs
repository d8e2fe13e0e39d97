//! The general query log.
//!
//! MySQL from 5.7 on writes each entry as `TIME\t%5u COMMAND\tTEXT` with an RFC 3339 time in microseconds. MariaDB, and
//! MySQL before 5.7, write `YYMMDD HH:MM:SS\t` only where the second changes, and `\t\t` otherwise. A text may have several
//! lines; what does not begin as an entry continues the one before it. Prepared statements are logged when they are
//! prepared (with `?`) and when they are executed (with their values).

use crate::assembler::Assembler;
use crate::event::{Raw, RawAction, Statement};
use crate::problems::Problem;
use crate::timestamp::{rfc3339, short, Micros};

/// What is done with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Connect,
    Query,
    Execute,
    Schema,
    Change,
    Reset,
    Quit,
    /// Without an effect of its own on the data: PREPARE by the protocol, PING, …
    Skip,
    /// Not the work of a client that could be replayed.
    Administration,
}

/// The names of the protocol's commands in the log (`command_name` of the servers), in small letters.
const COMMANDS: &[(&str, Use)] = &[
    ("connect", Use::Connect),
    ("query", Use::Query),
    ("execute", Use::Execute),
    ("init db", Use::Schema),
    ("change user", Use::Change),
    ("reset connection", Use::Reset),
    ("quit", Use::Quit),
    ("prepare", Use::Skip),
    ("close stmt", Use::Skip),
    ("reset stmt", Use::Skip),
    ("long data", Use::Skip),
    ("fetch", Use::Skip),
    ("field list", Use::Skip),
    ("statistics", Use::Skip),
    ("ping", Use::Skip),
    ("set option", Use::Skip),
    ("time", Use::Skip),
    ("sleep", Use::Skip),
    ("error", Use::Skip),
    ("daemon", Use::Skip),
    ("processlist", Use::Administration),
    ("kill", Use::Administration),
    ("debug", Use::Administration),
    ("refresh", Use::Administration),
    ("shutdown", Use::Administration),
    ("create db", Use::Administration),
    ("drop db", Use::Administration),
    ("binlog dump", Use::Administration),
    ("binlog dump gtid", Use::Administration),
    ("table dump", Use::Administration),
    ("connect out", Use::Administration),
    ("register slave", Use::Administration),
    ("register replica", Use::Administration),
    ("delayed insert", Use::Administration),
    ("clone", Use::Administration),
    ("subscribe group replication stream", Use::Administration),
    ("slave_io", Use::Administration),
    ("slave_sql", Use::Administration),
    ("slave_worker", Use::Administration),
    ("bulk_execute", Use::Execute),
    ("stmt_execute", Use::Execute),
];

/// How a line begins.
#[derive(Debug, PartialEq, Eq)]
enum Start<'a> {
    Entry {
        time: Time,
        connection_id: u64,
        command: &'a [u8],
        text: &'a [u8],
    },
    /// It begins as an entry does, and is not one.
    Cut,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    /// The time of the entry before.
    Same,
    Seconds(Micros),
    Exact(Micros),
    Unreadable,
}

/// An entry whose text may continue.
#[derive(Debug)]
struct Entry {
    line: u64,
    connection_id: u64,
    what: Use,
    text: Vec<u8>,
}

/// Reads a general log.
#[derive(Debug, Default)]
pub struct GeneralLog {
    at: Option<Micros>,
    is_shared_second: bool,
    entry: Option<Entry>,
    /// Whether an entry was seen.
    has_begun: bool,
    /// Whether what follows belongs to an entry that is left out.
    is_skipping: bool,
    /// Whether the server writes exact times: then a line without one belongs to the text before it.
    is_exact: bool,
    /// Whether the log's heading ends with CR LF, so that the whole file was converted: CR is then no part of a text.
    is_converted: bool,
}

impl GeneralLog {
    /// Whether a line can only be an entry of a general log.
    pub fn is_its_own(line: &[u8]) -> bool {
        matches!(start(line), Start::Entry { command, .. } if known(command).is_some())
    }

    /// The time that a line states.
    pub fn time_of(line: &[u8]) -> Option<Micros> {
        match start(line) {
            Start::Entry {
                time: Time::Seconds(at) | Time::Exact(at),
                ..
            } => Some(at),
            _ => None,
        }
    }

    /// The next line, without its end.
    pub fn line(&mut self, number: u64, line: &[u8], assembler: &mut Assembler) {
        let bare = line.strip_suffix(b"\r").unwrap_or(line);
        if version(bare).is_some() {
            self.is_converted = bare.len() < line.len();
        }
        let line = if self.is_converted { bare } else { line };
        let start = match start(line) {
            Start::Entry {
                time: Time::Same | Time::Seconds(_),
                ..
            } if self.is_exact => Start::Other,
            start => start,
        };
        match start {
            Start::Entry {
                time,
                connection_id,
                command,
                text,
            } => {
                self.complete(assembler);
                self.has_begun = true;
                self.take_time(time, number, assembler);
                let Some(what) = known(command) else {
                    assembler.problems.count(Problem::UnknownCommand, number);
                    self.is_skipping = true;
                    return;
                };
                self.is_skipping = false;
                self.entry = Some(Entry {
                    line: number,
                    connection_id,
                    what,
                    text: text.to_vec(),
                });
            }
            Start::Cut => {
                self.complete(assembler);
                self.has_begun = true;
                self.is_skipping = true;
                assembler.problems.count(Problem::CutLine, number);
            }
            Start::Other => self.other(number, line, assembler),
        }
    }

    fn other(&mut self, number: u64, line: &[u8], assembler: &mut Assembler) {
        if let Some(version) = version(line) {
            self.complete(assembler);
            self.has_begun = true;
            self.is_skipping = true;
            self.is_exact = false;
            assembler.server.get_or_insert(version);
        } else if self.is_skipping && self.entry.is_none() && (is_heading(line) || self.has_begun) {
            // The heading's other lines, or the rest of an entry that was counted.
        } else if let Some(entry) = &mut self.entry {
            entry.text.push(b'\n');
            entry.text.extend_from_slice(line);
        } else if !is_heading(line) && !line.is_empty() {
            assembler.problems.count(Problem::BeforeFirstEntry, number);
        }
    }

    fn take_time(&mut self, time: Time, line: u64, assembler: &mut Assembler) {
        match time {
            Time::Same => {}
            Time::Seconds(at) => (self.at, self.is_shared_second) = (Some(at), true),
            Time::Exact(at) => {
                (self.at, self.is_shared_second) = (Some(at), false);
                self.is_exact = true;
            }
            Time::Unreadable => assembler.problems.count(Problem::UnreadableTime, line),
        }
    }

    /// The end of the file. The next one may go on where it ends, with its time.
    pub fn end(&mut self, is_cut: bool, assembler: &mut Assembler) {
        if let (true, Some(entry)) = (is_cut, &self.entry) {
            assembler.problems.count(Problem::CutAtEnd, entry.line);
            self.entry = None;
        }
        self.complete(assembler);
        (self.has_begun, self.is_skipping, self.is_converted) = (false, false, false);
    }

    fn complete(&mut self, assembler: &mut Assembler) {
        let Some(entry) = self.entry.take() else {
            return;
        };
        let text = String::from_utf8_lossy(&entry.text);
        let action = match entry.what {
            Use::Connect if text.starts_with("Access denied") => RawAction::Refused,
            Use::Connect => {
                let (user, schema) = account(&text);
                RawAction::Connect { user, schema }
            }
            Use::Change => {
                let (user, schema) = account(&text);
                RawAction::Reset { user, schema }
            }
            Use::Reset => RawAction::Reset {
                user: None,
                schema: None,
            },
            Use::Schema => RawAction::Schema(text.trim().to_string()),
            Use::Quit => RawAction::Quit,
            Use::Query | Use::Execute => RawAction::Statement {
                statement: Statement {
                    text: entry.text,
                    ..Statement::default()
                },
                is_execution: entry.what == Use::Execute,
            },
            Use::Skip => return,
            Use::Administration => {
                assembler.problems.count(Problem::Administration, entry.line);
                return;
            }
        };
        assembler.push(Raw {
            at: self.at,
            is_shared_second: self.is_shared_second,
            connection_id: entry.connection_id,
            user: None,
            line: entry.line,
            action,
        });
    }
}

fn known(command: &[u8]) -> Option<Use> {
    let find = |(name, _): &&(&str, Use)| command.eq_ignore_ascii_case(name.as_bytes());
    COMMANDS.iter().find(find).map(|(_, what)| *what)
}

/// Takes the beginning of a line apart.
fn start(line: &[u8]) -> Start<'_> {
    let Some((time, rest)) = time(line) else {
        return if is_cut_time(line) { Start::Cut } else { Start::Other };
    };
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let id = std::str::from_utf8(&rest[..digits])
        .ok()
        .and_then(|text| text.parse().ok());
    let has_time = time != Time::Same;
    let cut = || if has_time { Start::Cut } else { Start::Other };
    let (Some(connection_id), Some(rest)) = (id, rest[digits..].strip_prefix(b" ")) else {
        return cut();
    };
    match rest.iter().position(|byte| *byte == b'\t') {
        Some(end) if has_time || known(&rest[..end]).is_some() => Start::Entry {
            time,
            connection_id,
            command: &rest[..end],
            text: &rest[end + 1..],
        },
        // A number alone may as well be a part of a statement.
        None if !rest.is_empty() && is_begin_of_command(rest) => Start::Cut,
        _ => cut(),
    }
}

fn is_begin_of_command(bytes: &[u8]) -> bool {
    let begins = |name: &str| name.len() >= bytes.len() && name.as_bytes()[..bytes.len()].eq_ignore_ascii_case(bytes);
    COMMANDS.iter().any(|(name, _)| begins(name))
}

/// Whether the line is nothing but the beginning of a time.
fn is_cut_time(line: &[u8]) -> bool {
    const SHORTEST: usize = 9;
    let begins = |pattern: &[u8]| {
        (SHORTEST..=pattern.len()).contains(&line.len())
            && pattern.iter().zip(line).all(|(kind, byte)| match kind {
                b'9' => byte.is_ascii_digit() || *byte == b' ',
                other => other == byte,
            })
    };
    begins(b"999999 99:99:99") || begins(b"9999-99-99T99:99:99.999999Z")
}

/// The time at the beginning of a line, and what follows it.
fn time(line: &[u8]) -> Option<(Time, &[u8])> {
    if let Some(rest) = line.strip_prefix(b"\t\t") {
        return Some((Time::Same, rest));
    }
    let end = line.iter().take(40).position(|byte| *byte == b'\t')?;
    let (stamp, rest) = (&line[..end], &line[end + 1..]);
    // In a log of whole seconds a second tab may follow.
    let rest = rest.strip_prefix(b"\t").unwrap_or(rest);
    if let Some(at) = short(stamp) {
        return Some((Time::Seconds(at), rest));
    }
    if let Some(at) = rfc3339(stamp) {
        return Some((Time::Exact(at), rest));
    }
    let resembles = |pattern: &[u8]| {
        pattern.len() == stamp.len()
            && pattern.iter().zip(stamp).all(|(kind, byte)| match kind {
                b'9' => byte.is_ascii_digit() || *byte == b' ',
                other => other == byte,
            })
    };
    (resembles(b"999999 99:99:99") || resembles(b"9999-99-99T99:99:99.999999Z")).then_some((Time::Unreadable, rest))
}

/// `root@localhost on shop using TCP/IP`: user@host, and the schema where there is one.
fn account(text: &str) -> (Option<String>, Option<String>) {
    let (who, rest) = text.split_once(" on ").unwrap_or((text, ""));
    // MariaDB: `root@localhost as anonymous on shop`.
    let who = who.split_once(" as ").map_or(who, |(who, _)| who).trim();
    let schema = match rest.rsplit_once("using ") {
        Some((schema, _)) => schema,
        None => rest,
    };
    let some = |text: &str| Some(text.trim().to_string()).filter(|text| !text.is_empty());
    (some(who), some(schema))
}

/// The server's version in the first line of a log: `…/mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:`.
pub fn version(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).ok()?;
    let (_, rest) = text.split_once(", Version: ")?;
    Some(rest.strip_suffix(". started with:")?.trim().to_string())
}

/// Whether a line belongs to the heading that a server writes when it opens a log.
pub fn is_heading(line: &[u8]) -> bool {
    let starts = |prefix: &str| line.starts_with(prefix.as_bytes());
    (starts("Tcp port: ") || starts("TCP Port: ")) && line.windows(5).any(|part| part == b"ocket" || part == b" Pipe")
        || starts("Time ") && line.windows(7).any(|part| part == b"Command")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembler::Origin;
    use crate::event::{Action, Source};

    #[test]
    fn entries_are_told_from_lines_of_statements() {
        let is_entry = |line: &str| matches!(start(line.as_bytes()), Start::Entry { .. });
        for line in [
            "261123  9:41:03\t     3 Connect\troot@localhost on  using Socket",
            "\t\t     3 Query\tSELECT 1",
            "\t\t12345678 Quit\t",
            "2026-11-23T09:41:03.123456Z\t    8 Query\tSELECT 1",
            "2026-11-23T11:41:03.123456+02:00\t    8 Init DB\tshop",
            "261399 99:99:99\t     3 Query\tSELECT 1",
        ] {
            assert!(is_entry(line), "{line}");
        }
        for line in [
            "",
            "WHERE id = 2",
            "\t\t3 AS three,",
            "\t\t     3 AS\tthree",
            "261123 apples",
            "\t\t42",
        ] {
            assert_eq!(start(line.as_bytes()), Start::Other, "{line}");
        }
        for line in [
            "\t\t     3 Que",
            "\t\t     3 Query",
            "261123  9:41:03\t     3 Nothing",
            "261123  9:41:03\tx",
            "261123  9:41:0",
            "2026-11-23T09:41",
        ] {
            assert_eq!(start(line.as_bytes()), Start::Cut, "{line}");
        }
    }

    #[test]
    fn line_ends_within_a_statement_stay_unless_the_whole_log_was_converted() {
        let log = "/usr/sbin/mysqld, Version: 8.0.36 (Debian). started with:\n\
                   261123  9:41:03\t    3 Query\tSELECT 'a\r\nb'\n\t\t    3 Quit\t";
        let converted = log.replace("\r\n", "\n").replace('\n', "\r\n");
        for (log, expected) in [(log, "SELECT 'a\r\nb'"), (&converted, "SELECT 'a\nb'")] {
            let mut assembler = Assembler::new(Origin {
                source: Source::GeneralLog,
                time_is_end: false,
            });
            let mut reader = GeneralLog::default();
            for (number, line) in (1..).zip(log.split('\n')) {
                reader.line(number, line.as_bytes(), &mut assembler);
            }
            reader.end(false, &mut assembler);
            let capture = assembler.finish();
            assert_eq!(capture.header.server.as_deref(), Some("8.0.36 (Debian)"));
            let Action::Statement(statement) = &capture.events[0].action else {
                panic!("{:?}", capture.events);
            };
            assert_eq!(String::from_utf8_lossy(&statement.text), expected);
        }
    }

    #[test]
    fn accounts_have_users_and_schemas() {
        let both = |user: &str, schema: &str| (Some(user.to_string()), Some(schema.to_string()));
        assert_eq!(
            account("root@localhost on shop using TCP/IP"),
            both("root@localhost", "shop")
        );
        assert_eq!(account("root@localhost on shop"), both("root@localhost", "shop"));
        assert_eq!(account("a@h as b on shop using Socket"), both("a@h", "shop"));
        assert_eq!(
            account("root@localhost on  using Socket"),
            (Some("root@localhost".into()), None)
        );
        assert_eq!(account(""), (None, None));
    }

    #[test]
    fn a_log_becomes_sessions_with_their_statements_and_what_is_cut_is_counted() {
        let log = [
            "/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:",
            "Tcp port: 0  Unix socket: /run/mysqld/mysqld.sock",
            "Time\t\t    Id Command\tArgument",
            "261123  9:41:03\t     3 Connect\troot@localhost on shop using Socket",
            "\t\t     3 Query\tSELECT 'a",
            "\t\t-- no entry",
            "b'",
            "\t\t     3 Prepare\tSELECT ?",
            "\t\t     3 Execute\tSELECT 5",
            "\t\t     3 Quer",
            "\t\t     3 Query\tSELECT (1",
            "261123  9:41:04\t     3 Quit\t",
            "\t\t     4 Query\tSELECT 6",
        ];
        let mut assembler = Assembler::new(crate::assembler::Origin {
            source: crate::event::Source::GeneralLog,
            time_is_end: false,
        });
        let mut reader = GeneralLog::default();
        for (number, line) in (1..).zip(log) {
            reader.line(number, line.as_bytes(), &mut assembler);
        }
        reader.end(true, &mut assembler);
        let capture = assembler.finish();
        assert_eq!(
            capture.header.server.as_deref(),
            Some("10.11.6-MariaDB-log (Debian 12)")
        );
        let texts: Vec<_> = capture
            .events
            .iter()
            .filter_map(|event| match &event.action {
                crate::event::Action::Statement(statement) => Some(String::from_utf8_lossy(&statement.text)),
                _ => None,
            })
            .collect();
        assert_eq!(texts, ["SELECT 'a\n\t\t-- no entry\nb'", "SELECT 5"]);
        let problems: Vec<_> = capture
            .header
            .problems
            .iter()
            .map(|seen| (seen.problem, seen.count, seen.first[0].line))
            .collect();
        let expected = [
            (Problem::CutLine, 1, 10),
            (Problem::CutStatement, 1, 11),
            (Problem::CutAtEnd, 1, 13),
        ];
        assert_eq!(problems, expected);
    }
}
