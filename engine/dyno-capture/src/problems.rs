//! What in a log could not be captured: counted by kind, with the places of the first ones.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How many places of each kind are kept.
pub const FIRST_PLACES: usize = 5;

/// Why something in a log is not in the capture, or is in it with a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// Lines before the first entry: the log begins within a statement.
    BeforeFirstEntry,
    /// A line that begins as an entry does and is cut off.
    CutLine,
    /// A statement that ends within a string, a comment or a parenthesis; it is left out.
    CutStatement,
    /// The last line has no end; its statement is left out.
    CutAtEnd,
    /// An entry with a command that is not known.
    UnknownCommand,
    /// A line of the log's own (such as `# Time:`) that cannot be read.
    UnreadableLine,
    /// An entry whose time cannot be read; it has that of `SET timestamp`, or of the entry before it.
    UnreadableTime,
    /// An entry without a statement.
    NoStatement,
    /// A statement that is not valid UTF-8. It is kept byte by byte.
    NotUtf8,
    /// The log's clock was set back by more than a second; the times after it continue from those before it.
    ClockSetBack,
    /// A connection that the server refused.
    RefusedConnection,
    /// A text that the source had cut off; its statement is left out.
    TruncatedText,
    /// A CALL in a log that also has the statements of the routine: these are executed twice in a replay.
    CallWithItsStatements,
    /// Commands of replication and administration, which are not replayed.
    Administration,
    /// Statements that the server itself executed within another one, and that are left out.
    Nested,
    /// Entries that do not state which connection they are of.
    NoConnection,
    /// Executions of prepared statements without their values.
    NoValues,
    /// Entries of a log that has only one of so many statements or sessions.
    Sampled,
    /// Sessions that began before the log.
    BegunBefore,
    /// Statements of them whose default schema is unknown, and that need one.
    UnknownSchema,
    /// Sessions of them that were in a transaction, or without autocommit.
    InTransaction,
    /// Sessions that do not show whether autocommit was on, where that of others was off.
    UnknownAutocommit,
    /// Bytes that are not among the packets.
    LostPackets,
    /// Packets that were not captured to their end.
    CutPacket,
    /// Connections with TLS.
    Encrypted,
    /// Connections, or their ends, in which no command was found.
    NotUnderstood,
    /// Executions of statements whose text or values are not among the packets.
    PreparedBefore,
    /// Connections whose packets were captured with two addresses.
    SeenTwice,
    /// Statements of the provider's own accounts, such as rdsadmin.
    OfThePlatform,
    /// Statements of accounts that were not selected.
    OtherUser,
    /// Statements in schemas that were not selected.
    OtherSchema,
}

impl Problem {
    /// One line for a person.
    pub fn describe(self) -> &'static str {
        match self {
            Self::BeforeFirstEntry => "lines before the first entry (the log begins within a statement), left out",
            Self::CutLine => "cut lines, left out",
            Self::CutStatement => {
                "statements that end within a string, a comment or a parenthesis (cut lines), left out"
            }
            Self::CutAtEnd => "statement without an end at the end of the file, left out",
            Self::UnknownCommand => "entries with an unknown command, left out",
            Self::UnreadableLine => "lines that cannot be read, left out",
            Self::UnreadableTime => "entries with a time that cannot be read; they have that of SET timestamp, or of the entry before",
            Self::NoStatement => "entries without a statement, left out",
            Self::NotUtf8 => "statements that are not valid UTF-8, kept byte by byte",
            Self::ClockSetBack => {
                "times before those of earlier entries (the clock was set back); later ones continue from there"
            }
            Self::RefusedConnection => "connections that the server refused, left out",
            Self::TruncatedText => "statements whose text the server had cut off, left out",
            Self::CallWithItsStatements => {
                "CALL statements; if the log also has the statements of the routine, a replay executes them twice"
            }
            Self::Administration => "commands of replication and administration, left out",
            Self::NoConnection => {
                "entries without the number of their connection, left out (MySQL before 5.6): capture the general log"
            }
            Self::NoValues => {
                "executions of prepared statements, left out: the history does not have their values, the general log does"
            }
            Self::Sampled => "entries of a sample (log_slow_rate_limit): the others are not in the log",
            Self::BegunBefore => {
                "sessions that began before the log: what they had set is unknown (variables, temporary tables, prepared \
                 statements)"
            }
            Self::UnknownSchema => {
                "statements of these sessions that name tables without a schema: a replay needs --database"
            }
            Self::InTransaction => {
                "sessions with --autocommit off, or whose COMMIT or ROLLBACK ends changes that they had not begun in the log: \
                 the capture begins them with SET autocommit = 0, or with BEGIN"
            }
            Self::UnknownAutocommit => {
                "sessions that do not show whether autocommit was on, while others show that theirs was off: it is on in a \
                 replay, unless --autocommit off is given for all"
            }
            Self::LostPackets => {
                "gaps where packets were not captured (dropped by tcpdump): statements in them are left out, durations and \
                 rows of those before are unknown"
            }
            Self::CutPacket => {
                "packets that are cut off (tcpdump without -s 0, the end of the file): what they had of statements is left out"
            }
            Self::Encrypted => {
                "encrypted connections (TLS), left out: without TLS (--ssl-mode=DISABLED) they can be captured, or by the \
                 general log"
            }
            Self::NotUnderstood => "connections in which no command was found, left out from there on",
            Self::PreparedBefore => {
                "executions of statements that were prepared before the capture, or in a gap, left out: their text is unknown"
            }
            Self::SeenTwice => "connections captured a second time with another address (address translation), left out",
            Self::OfThePlatform => "statements of the provider's own accounts (rdsadmin and the like), left out",
            Self::OtherUser => "statements of other accounts, or of unknown ones (--user), left out",
            Self::OtherSchema => "statements in other schemas (--schema), left out",
            Self::Nested => "statements of routines and triggers, left out: the statement that called them is there",
        }
    }
}

/// A line of a file, or a packet; both from 1 on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPosition {
    /// The file, without its folder.
    pub file: String,
    /// The line, or the packet's number.
    pub line: u64,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)
    }
}

/// One kind of problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemCount {
    /// Its kind.
    pub problem: Problem,
    /// The same for a person; none in captures of earlier versions.
    #[serde(default)]
    pub text: String,
    /// How often.
    pub count: u64,
    /// Where the first ones are; at most [`FIRST_PLACES`].
    pub first: Vec<LogPosition>,
}

/// All problems of a capture.
#[derive(Debug, Default)]
pub struct Problems {
    file: String,
    seen: BTreeMap<Problem, ProblemCount>,
}

impl Problems {
    /// What follows is in this file.
    pub fn enter(&mut self, file: &str) {
        self.file = file.into();
    }

    /// Counts one.
    pub fn count(&mut self, problem: Problem, line: u64) {
        self.count_many(problem, 1, line);
    }

    /// Counts several at one place.
    pub fn count_many(&mut self, problem: Problem, count: u64, line: u64) {
        let place = self.place(line);
        self.count_at(problem, count, Some(place));
    }

    /// A line of the present file.
    pub fn place(&self, line: u64) -> LogPosition {
        LogPosition {
            file: self.file.clone(),
            line,
        }
    }

    /// Counts several at a place of any file, if it is known.
    pub fn count_at(&mut self, problem: Problem, count: u64, place: Option<LogPosition>) {
        let seen = self.seen.entry(problem).or_insert_with(|| ProblemCount {
            problem,
            text: problem.describe().into(),
            count: 0,
            first: Vec::new(),
        });
        seen.count += count;
        if seen.first.len() < FIRST_PLACES {
            seen.first.extend(place);
        }
    }

    /// The kinds that occurred.
    pub fn into_counts(self) -> Vec<ProblemCount> {
        self.seen.into_values().collect()
    }
}
