//! The transactions of a capture, apart from its sessions: a load that any number of connections can share.

use std::collections::{BTreeMap, BTreeSet};

use crate::class;
use crate::event::{Action, Capture, Statement};

/// One transaction, or one statement outside of any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// When it began, since the capture's begin, µs.
    pub at_us: u64,
    /// Index of its connection in [`Transactions::connections`].
    pub connection: usize,
    /// What it sends, in its order, with its BEGIN and COMMIT or ROLLBACK where it has more than one statement.
    pub statements: Vec<Statement>,
}

/// From the beginning of a captured connection to its end; a session that is reset has one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// When it was opened, or else its first statement, µs.
    pub open_us: u64,
    /// When it was closed, or else its last statement, µs.
    pub close_us: u64,
}

/// What is taken from a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Only statements that read.
    pub read_only: bool,
    /// Also statements that use what only their session has: each connection then is one captured session at a time.
    pub of_the_session: bool,
}

/// The transactions in the order of their begins, and what is not in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transactions {
    /// The transactions.
    pub all: Vec<Transaction>,
    /// The connections that sent them.
    pub connections: Vec<Span>,
    /// The default schemas of their statements.
    pub schemas: BTreeSet<String>,
    /// Statements that administer the server, its accounts or other sessions; left out.
    pub administration: u64,
    /// Statements that use what only their session has: its variables, temporary tables, prepared statements or locks;
    /// left out. Where they are wanted, those that hold tables or select a schema.
    pub of_the_session: u64,
    /// Statements that do not only read, left out because only those that do were wanted.
    pub not_read_only: u64,
    /// The character sets of the sessions of statements that are not ASCII.
    pub charsets: BTreeSet<String>,
    /// Statements that are not UTF-8, of sessions that do not set their character set.
    pub unknown_charset: u64,
}

/// A session so far.
#[derive(Debug, Default)]
struct Open {
    /// Index of its connection; none before it is open.
    connection: Option<usize>,
    transaction: Option<Transaction>,
    /// After SET autocommit = 0: any statement begins a transaction.
    is_implicit: bool,
    /// The character set that it has set.
    charset: Option<String>,
}

impl Transactions {
    /// The transactions of a capture.
    pub fn of(capture: Capture, wanted: Wanted) -> Self {
        let mut found = Self::default();
        // In the order of their numbers: what never ended is in the same order in each program that reads the capture.
        let mut open: BTreeMap<u32, Open> = BTreeMap::new();
        for event in capture.events {
            let session = open.entry(event.session).or_default();
            let connection = *session.connection.get_or_insert_with(|| {
                found.connections.push(Span {
                    open_us: event.at_us,
                    close_us: event.at_us,
                });
                found.connections.len() - 1
            });
            found.connections[connection].close_us = event.at_us;
            match event.action {
                Action::Statement(statement) => found.statement(session, event.at_us, statement, wanted),
                Action::Quit | Action::Reset { .. } => {
                    found.end(session, of_text(b"ROLLBACK"));
                    *session = Open::default();
                }
                Action::Connect { .. } | Action::Schema(_) => {}
            }
        }
        for session in open.values_mut() {
            found.end(session, of_text(b"ROLLBACK"));
        }
        found.all.sort_by_key(|transaction| transaction.at_us);
        found
    }

    fn statement(&mut self, session: &mut Open, at_us: u64, statement: Statement, wanted: Wanted) {
        let text = &statement.text;
        let connection = session.connection.unwrap_or_default();
        let begun = |statement| Transaction {
            at_us,
            connection,
            statements: vec![statement],
        };
        if let Some(set) = class::autocommit(text) {
            if set.is_on {
                self.end(session, of_text(b"COMMIT"));
            }
            // What else it sets begins no transaction.
            session.is_implicit = false;
            if !set.others.is_empty() {
                let text = set.others;
                self.statement(session, at_us, Statement { text, ..statement }, wanted);
            }
            session.is_implicit = !set.is_on;
            return;
        }
        session.charset = class::charset(text).or(session.charset.take());
        match class::boundary(text) {
            Some(class::Boundary::Begin) => {
                self.end(session, of_text(b"COMMIT"));
                session.transaction = Some(begun(statement));
                return;
            }
            Some(class::Boundary::End) => return self.end(session, statement),
            None => {}
        }
        if class::is_administration(text) {
            self.administration += 1;
        } else if is_left_out(text, wanted) {
            self.of_the_session += 1;
        } else if wanted.read_only && !class::is_read_only(text) {
            self.not_read_only += 1;
        } else {
            self.schemas.extend(statement.schema.clone());
            self.note_charset(text, session.charset.as_deref());
            if session.is_implicit && session.transaction.is_none() {
                session.transaction = Some(begun(of_text(b"BEGIN")));
            }
            match &mut session.transaction {
                Some(transaction) => transaction.statements.push(statement),
                None => self.all.push(begun(statement)),
            }
        }
    }

    fn note_charset(&mut self, text: &[u8], charset: Option<&str>) {
        if text.is_ascii() {
            return;
        }
        if charset.is_none() && !class::is_utf8(text) {
            self.unknown_charset += 1;
            return;
        }
        let charset = charset.filter(|charset| !matches!(*charset, "utf8" | "utf8mb3"));
        self.charsets.insert(charset.unwrap_or("utf8mb4").into());
    }

    /// Ends the session's transaction, if there is one; without any statement it is none.
    fn end(&mut self, session: &mut Open, last: Statement) {
        if let Some(mut transaction) = session.transaction.take() {
            if transaction.statements.len() > 1 {
                transaction.statements.push(last);
                self.all.push(transaction);
            }
        }
    }
}

/// A statement that the capture does not have.
fn of_text(text: &[u8]) -> Statement {
    Statement {
        text: text.to_vec(),
        ..Statement::default()
    }
}

fn is_left_out(text: &[u8], wanted: Wanted) -> bool {
    if wanted.of_the_session {
        class::holds_tables(text) || class::used_schema(text).is_some()
    } else {
        class::is_of_the_session(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Header, Source};

    fn capture(statements: &[(u32, &str)]) -> Capture {
        let event = |(at_us, (session, text)): (usize, &(u32, &str))| Event {
            at_us: at_us as u64,
            session: *session,
            action: match *text {
                "quit" => Action::Quit,
                text => Action::Statement(Statement {
                    schema: Some("shop".into()),
                    text: text.into(),
                    ..Statement::default()
                }),
            },
        };
        Capture {
            header: Header {
                source: Source::GeneralLog,
                server: None,
                files: Vec::new(),
                begin: None,
                resolution_us: 1,
                spread: false,
                anonymised: false,
                duration_us: 0,
                sessions: 2,
                peak_sessions: 2,
                events: 0,
                statements: 0,
                writing: None,
                problems: Vec::new(),
            },
            events: statements.iter().enumerate().map(event).collect(),
        }
    }

    fn texts(found: &Transactions) -> Vec<String> {
        let text = |one: &Statement| String::from_utf8(one.text.clone()).unwrap();
        let texts = |transaction: &Transaction| transaction.statements.iter().map(text).collect::<Vec<_>>().join("; ");
        found.all.iter().map(texts).collect()
    }

    #[test]
    fn transactions_of_sessions_that_overlap_stay_whole() {
        let found = Transactions::of(
            capture(&[
                (1, "BEGIN"),
                (2, "SELECT 1"),
                (1, "DELETE FROM t"),
                (2, "START TRANSACTION"),
                (1, "COMMIT"),
                (2, "COMMIT"),
                (2, "SET autocommit=0"),
                (2, "DELETE FROM u"),
                (2, "ROLLBACK"),
                (1, "BEGIN"),
                (1, "DELETE FROM v"),
                (1, "quit"),
            ]),
            Wanted::default(),
        );
        let expected = [
            "BEGIN; DELETE FROM t; COMMIT",
            "SELECT 1",
            "BEGIN; DELETE FROM u; ROLLBACK",
            "BEGIN; DELETE FROM v; ROLLBACK",
        ];
        assert_eq!(texts(&found), expected);
        assert_eq!(found.schemas, ["shop".to_string()].into());
    }

    #[test]
    fn autocommit_is_found_among_other_variables_that_the_session_keeps() {
        let statements = [
            (1, "SET autocommit=0, sql_mode=''"),
            (1, "SELECT 1"),
            (1, "COMMIT"),
            (1, "SET sql_mode='ANSI', autocommit=1"),
            (1, "SELECT 2"),
        ];
        let of = |of_the_session| {
            let read_only = false;
            Transactions::of(
                capture(&statements),
                Wanted {
                    read_only,
                    of_the_session,
                },
            )
        };
        let expected = [
            "SET sql_mode=''",
            "BEGIN; SELECT 1; COMMIT",
            "SET sql_mode='ANSI'",
            "SELECT 2",
        ];
        assert_eq!(texts(&of(true)), expected);
        assert_eq!(texts(&of(false)), ["BEGIN; SELECT 1; COMMIT", "SELECT 2"]);
        assert_eq!(of(false).of_the_session, 2);
    }

    #[test]
    fn statements_beyond_ascii_have_the_character_sets_of_their_sessions() {
        let of = |statements: &[(u32, &str)]| Transactions::of(capture(statements), Wanted::default());
        let found = of(&[
            (1, "SET NAMES latin1"),
            (1, "SELECT 1"),
            (2, "SELECT 'é'"),
            (3, "SET NAMES utf8"),
            (3, "SELECT 'é'"),
        ]);
        assert_eq!(found.charsets, ["utf8mb4".to_string()].into());
        let found = of(&[(1, "SET autocommit = 1, NAMES latin1"), (1, "SELECT 'é'"), (1, "quit")]);
        assert_eq!(found.charsets, ["latin1".to_string()].into());
        let mut bytes = capture(&[(1, "SELECT 1")]);
        let Action::Statement(statement) = &mut bytes.events[0].action else {
            panic!("a statement");
        };
        statement.text = b"SELECT '\xe9'".to_vec();
        assert_eq!(Transactions::of(bytes.clone(), Wanted::default()).unknown_charset, 1);
        let Action::Statement(statement) = &mut bytes.events[0].action else {
            panic!("a statement");
        };
        statement.text = b"INSERT INTO f VALUES (_binary'\xff\xd8', _BINARY \"\xe9\", '\xc3\xa9')".to_vec();
        assert_eq!(Transactions::of(bytes, Wanted::default()).unknown_charset, 0);
    }

    #[test]
    fn what_cannot_be_shared_is_left_out_and_counted() {
        let statements = [
            (1, "SET NAMES utf8mb4"),
            (1, "SET @a = 1"),
            (1, "SELECT @a"),
            (1, "PREPARE p FROM 'SELECT 1'"),
            (1, "CREATE TEMPORARY TABLE x (a INT)"),
            (1, "KILL 4"),
            (1, "BEGIN"),
            (1, "DELETE FROM t"),
            (1, "COMMIT"),
            (1, "SELECT '@a'"),
        ];
        let found = Transactions::of(
            capture(&statements),
            Wanted {
                read_only: true,
                ..Wanted::default()
            },
        );
        assert_eq!(texts(&found), ["SELECT '@a'"]);
        let counts = (found.of_the_session, found.administration, found.not_read_only);
        assert_eq!(counts, (5, 1, 1));
    }
    #[test]
    fn with_whole_sessions_only_what_holds_tables_is_left_out() {
        let statements = [
            (1, "SET @a = 1"),
            (2, "LOCK TABLES t WRITE"),
            (1, "SELECT @a"),
            (1, "quit"),
            (1, "SELECT 2"),
            (2, "UNLOCK TABLES"),
        ];
        let wanted = Wanted {
            of_the_session: true,
            ..Wanted::default()
        };
        let found = Transactions::of(capture(&statements), wanted);
        assert_eq!(texts(&found), ["SET @a = 1", "SELECT @a", "SELECT 2"]);
        assert_eq!(found.of_the_session, 2);
        let connections: Vec<usize> = found.all.iter().map(|transaction| transaction.connection).collect();
        assert_eq!(connections, [0, 0, 2], "after its end the session is another");
        let spans: Vec<(u64, u64)> = found
            .connections
            .iter()
            .map(|span| (span.open_us, span.close_us))
            .collect();
        assert_eq!(spans, [(0, 3), (1, 5), (4, 4)]);
    }

    #[test]
    fn transactions_that_never_ended_are_in_the_order_of_their_sessions() {
        let begun: Vec<(u32, String)> = (1..=40)
            .flat_map(|session| {
                [
                    (session, "BEGIN".to_string()),
                    (session, format!("DELETE FROM t{session}")),
                ]
            })
            .collect();
        let statements: Vec<(u32, &str)> = begun.iter().map(|(session, text)| (*session, text.as_str())).collect();
        let mut capture = capture(&statements);
        capture.events.iter_mut().for_each(|event| event.at_us = 7);
        let found = Transactions::of(capture, Wanted::default());
        let connections: Vec<usize> = found.all.iter().map(|transaction| transaction.connection).collect();
        assert_eq!(connections, (0..40).collect::<Vec<_>>());
    }
}
