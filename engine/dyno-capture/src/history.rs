//! From the performance_schema of a running server: the last statements of all sessions (events_statements_history_long),
//! or one of each digest with its number of executions (events_statements_summary_by_digest).

use crate::assembler::{Assembler, Origin};
use crate::compound::first_end;
use crate::event::{Capture, Raw, RawAction, Source, Statement};
use crate::lexer::Kind;
use crate::problems::Problem;

/// What is selected, in the order of [`HistoryRow`]'s fields.
pub const HISTORY_COLUMNS: &str =
    "THREAD_ID, TIMER_START, TIMER_WAIT, CURRENT_SCHEMA, SQL_TEXT, ROWS_SENT, IF(NESTING_EVENT_TYPE = 'STATEMENT', 1, NULL), \
     EVENT_NAME";

/// The same of digests.
pub const DIGEST_COLUMNS: &str =
    "0, 0, AVG_TIMER_WAIT, SCHEMA_NAME, QUERY_SAMPLE_TEXT, SUM_ROWS_SENT DIV COUNT_STAR, NULL, \
                                  'statement/sql', COUNT_STAR";

const PICOSECONDS_PER_US: u64 = 1_000_000;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryRow {
    /// The thread, which stands for the session.
    pub thread_id: u64,
    /// Begin, ps on the server's own clock; 0 where statements are not timed.
    pub start_ps: u64,
    /// Duration, ps.
    pub wait_ps: u64,
    /// Default schema.
    pub schema: Option<String>,
    /// Text; none for commands of the protocol.
    pub text: Option<Vec<u8>>,
    /// Rows sent.
    pub rows: u64,
    /// Whether it was executed within another statement.
    pub is_nested: bool,
    /// The instrument, such as `statement/com/Quit`.
    pub event_name: String,
    /// How often it was executed, of a digest.
    pub count: Option<u64>,
}

/// Makes a capture of rows.
#[derive(Debug)]
pub struct History {
    assembler: Assembler,
    longest_text: usize,
    rows: Vec<HistoryRow>,
}

impl History {
    /// `longest_text` is performance_schema_max_sql_text_length: texts are cut off there.
    pub fn new(server: &str, longest_text: usize, source: Source) -> Self {
        let origin = Origin {
            source,
            time_is_end: false,
        };
        let mut assembler = Assembler::new(origin);
        assembler.server = Some(server.to_string());
        assembler.problems.enter("performance_schema");
        Self {
            assembler,
            longest_text,
            rows: Vec::new(),
        }
    }

    /// Sessions have this autocommit until they set it.
    pub fn assume_autocommit(&mut self, is_on: Option<bool>) {
        self.assembler.assumed.autocommit = is_on;
    }

    /// Takes a row.
    pub fn push(&mut self, row: HistoryRow) {
        self.rows.push(row);
    }

    /// All rows, in the order of time.
    pub fn finish(mut self) -> Capture {
        self.rows.sort_by_key(|row| row.start_ps);
        for (index, row) in self.rows.into_iter().enumerate() {
            let line = index as u64 + 1;
            let problems = &mut self.assembler.problems;
            if row.is_nested {
                problems.count(Problem::Nested, line);
                continue;
            }
            let action = match row.text {
                _ if row.event_name.ends_with("/com/Quit") => RawAction::Quit,
                text if is_without_values(&row.event_name, text.as_deref())
                    || row.count.is_some() && text.as_deref().is_some_and(has_placeholders) =>
                {
                    problems.count(Problem::NoValues, line);
                    continue;
                }
                _ if row.event_name.ends_with("/com/Reset Connection") => RawAction::Reset {
                    user: None,
                    schema: None,
                },
                _ if is_of_the_protocol(&row.event_name) => continue,
                Some(text) if is_rewritten(&row.event_name, &text) => continue,
                None => continue,
                Some(text) if text.len() >= self.longest_text || text.ends_with(b"...") => {
                    problems.count(Problem::TruncatedText, line);
                    continue;
                }
                Some(text) => RawAction::Statement {
                    statement: Statement {
                        schema: row.schema,
                        text: first_statement(text),
                        duration_us: Some(row.wait_ps / PICOSECONDS_PER_US),
                        rows: Some(row.rows),
                        count: row.count,
                    },
                    is_execution: false,
                },
            };
            self.assembler.push(Raw {
                at: Some((row.start_ps / PICOSECONDS_PER_US) as i64),
                is_shared_second: false,
                connection_id: row.thread_id,
                user: None,
                line,
                action,
            });
        }
        let mut capture = self.assembler.finish();
        // The server's clock begins with its start.
        capture.header.begin = None;
        capture
    }
}

/// Of a packet with several statements, the row of each has the text of all that follow.
fn first_statement(mut text: Vec<u8>) -> Vec<u8> {
    text.truncate(first_end(&text));
    text
}

/// Whether the row is an execution, and its text that of the prepared statement: by the protocol, and since MySQL 8 also
/// by name.
fn is_without_values(event_name: &str, text: Option<&[u8]>) -> bool {
    let is_named = || text.is_some_and(crate::class::is_execute);
    event_name.ends_with("/com/Execute") || event_name.ends_with("/sql/execute_sql") && !is_named()
}

/// Whether the text is that of a prepared statement, as digests of executions by the protocol have it.
fn has_placeholders(text: &[u8]) -> bool {
    crate::lexer::tokens(text).any(|token| token.kind == Kind::Placeholder)
}

/// Whether the row is a command of the protocol without an effect of its own: preparing, closing, a ping. Some have the
/// text of the prepared statement.
fn is_of_the_protocol(event_name: &str) -> bool {
    event_name.contains("/com/") && !event_name.ends_with("/com/Query")
}

/// Whether the row prepares or forgets a statement, and has the text of that.
fn is_rewritten(event_name: &str, text: &[u8]) -> bool {
    let begins = |words| {
        crate::lexer::tokens(text)
            .next()
            .is_some_and(|token| token.is_any(words))
    };
    event_name.ends_with("/sql/prepare_sql") && !begins(&["PREPARE"])
        || event_name.ends_with("/sql/dealloc_sql") && !begins(&["DEALLOCATE", "DROP"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_events_and_what_was_cut_off_or_nested_is_counted() {
        let row = |thread_id, start_us: u64, text: &str| HistoryRow {
            thread_id,
            start_ps: start_us * PICOSECONDS_PER_US,
            wait_ps: 7 * PICOSECONDS_PER_US,
            text: Some(text.into()),
            ..HistoryRow::default()
        };
        let mut history = History::new("9.7.0", 20, Source::StatementsHistory);
        history.push(row(5, 300, "SELECT 2"));
        history.push(row(4, 100, "SELECT 1"));
        history.push(row(4, 200, "SELECT 'more than the limit'"));
        history.push(HistoryRow {
            is_nested: true,
            ..row(4, 250, "SELECT 3")
        });
        let capture = history.finish();
        let seen: Vec<_> = capture
            .events
            .iter()
            .map(|event| (event.session, event.at_us))
            .collect();
        assert_eq!(seen, [(1, 0), (2, 200)]);
        let problems: Vec<_> = capture
            .header
            .problems
            .iter()
            .map(|seen| (seen.problem, seen.count))
            .collect();
        assert_eq!(problems, [(Problem::TruncatedText, 1), (Problem::Nested, 1)]);
        assert_eq!(capture.header.duration_us, 207);
    }
    #[test]
    fn a_digest_has_one_statement_with_its_number_of_executions() {
        let mut digests = History::new("8.4.3", 1024, Source::StatementDigests);
        digests.push(HistoryRow {
            schema: Some("shop".into()),
            text: Some("SELECT 1".into()),
            event_name: "statement/sql".into(),
            count: Some(70_000),
            ..HistoryRow::default()
        });
        digests.push(HistoryRow {
            text: Some("SELECT a FROM t WHERE b = ?".into()),
            event_name: "statement/sql".into(),
            count: Some(9),
            ..HistoryRow::default()
        });
        let capture = digests.finish();
        assert!(capture.not_replayed().is_some());
        assert_eq!(capture.header.problems[0].problem, Problem::NoValues);
        let [event] = &capture.events[..] else {
            panic!("{:?}", capture.events);
        };
        let crate::event::Action::Statement(statement) = &event.action else {
            panic!("{event:?}");
        };
        assert_eq!((statement.count, &statement.text[..]), (Some(70_000), &b"SELECT 1"[..]));
    }

    #[test]
    fn executions_without_values_are_counted_and_commands_of_the_protocol_are_no_statements() {
        let mut history = History::new("9.7.0", 1024, Source::StatementsHistory);
        let rows = [
            ("sql/select", "SELECT 1"),
            ("com/Prepare", "SELECT ?"),
            ("com/Execute", "SELECT ?"),
            ("com/Close stmt", "SELECT ?"),
            ("sql/prepare_sql", "SELECT a FROM t WHERE b = ?"),
            ("sql/execute_sql", "SELECT a FROM t WHERE b = ?"),
            ("sql/dealloc_sql", "SELECT a FROM t WHERE b = ?"),
            ("sql/prepare_sql", "PREPARE p FROM 'SELECT 1'"),
            ("sql/execute_sql", "EXECUTE p"),
            ("sql/dealloc_sql", "DEALLOCATE PREPARE p"),
            ("com/Reset Connection", ""),
        ];
        for (start_ps, (name, text)) in (0..).zip(rows) {
            history.push(HistoryRow {
                thread_id: 5,
                start_ps,
                event_name: format!("statement/{name}"),
                text: Some(text.into()),
                ..HistoryRow::default()
            });
        }
        let capture = history.finish();
        let texts: Vec<&[u8]> = capture
            .events
            .iter()
            .filter_map(|event| match &event.action {
                crate::event::Action::Statement(statement) => Some(&statement.text[..]),
                _ => None,
            })
            .collect();
        let expected = [
            "SELECT 1",
            "PREPARE p FROM 'SELECT 1'",
            "EXECUTE p",
            "DEALLOCATE PREPARE p",
        ];
        assert_eq!(texts, expected.map(str::as_bytes));
        assert_eq!(capture.header.problems.len(), 1);
        let seen = &capture.header.problems[0];
        assert_eq!((seen.problem, seen.count), (Problem::NoValues, 2));
        assert!(matches!(
            capture.events.last().map(|event| &event.action),
            Some(crate::event::Action::Reset { .. })
        ));
    }
}
