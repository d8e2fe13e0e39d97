//! Makes a capture of what the readers find: numbers sessions, follows default schemas, spreads whole seconds, sorts by
//! time.

use std::collections::{HashMap, HashSet};

use crate::class::{self, Named};
use crate::event::{Action, Capture, Event, Header, Statement};
use crate::lexer;
use crate::problems::{Problem, Problems};
use crate::source::Source;
use crate::timeline::{end_us, keep_order_of_sessions, number_by_first_event, peak_sessions, spread, Timed, SECOND_US};
use crate::timestamp::{show, Micros};

/// The time of an event before the log's first time.
const UNKNOWN: Micros = Micros::MIN;
/// A clock that goes back by less is the disorder between threads; the events are sorted.
const DISORDER_US: Micros = 1_000_000;

/// A clock that was set back by more comes back slowly: one that is suddenly where it was had not been set back.
const SUDDEN_US: Micros = 60_000_000;

/// What the times of a source mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The source.
    pub source: Source,
    /// Whether the time is that of the statement's end.
    pub time_is_end: bool,
}

/// What a reader has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// When; none where the log had no time so far.
    pub at: Option<Micros>,
    /// Whether later entries of the same second have this time too.
    pub is_shared_second: bool,
    /// The server's number of the connection.
    pub connection_id: u64,
    /// user@host, where each entry states it.
    pub user: Option<String>,
    /// Its line.
    pub line: u64,
    /// What.
    pub action: RawAction,
}

/// What a connection did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawAction {
    /// Began.
    Connect {
        /// user@host.
        user: Option<String>,
        /// Default schema.
        schema: Option<String>,
    },
    /// Sent a statement, or executed a prepared one.
    Statement {
        /// Text, duration and rows. A schema that is none is that of the session.
        statement: Statement,
        /// Whether it is an execution of a prepared statement.
        is_execution: bool,
    },
    /// Selected a default schema.
    Schema(String),
    /// Began anew.
    Reset {
        /// user@host, where it changed.
        user: Option<String>,
        /// Default schema.
        schema: Option<String>,
    },
    /// Ended.
    Quit,
    /// Was refused.
    Refused,
}

/// A session that has not ended.
#[derive(Debug)]
struct Open {
    session: u32,
    schema: Option<String>,
    /// Whether its last statement was EXECUTE: the log has the executed statement too.
    has_executed: bool,
    /// Names of prepared statements whose texts the log does not have: their executions are captured instead.
    without_text: HashSet<String>,
}

/// Collects what the readers find.
#[derive(Debug)]
pub struct Assembler {
    /// What could not be captured.
    pub problems: Problems,
    /// The server's version, once a log has stated it.
    pub server: Option<String>,
    origin: Origin,
    files: Vec<String>,
    open: HashMap<u64, Open>,
    sessions: u32,
    events: Vec<Timed>,
    /// The last time.
    latest: Option<Micros>,
    /// What is added to the log's times since its clock was set back.
    correction: Micros,
    /// The log's last time, as it is in the log.
    written: Micros,
    /// The log's time before its clock was set back last.
    before: Option<Micros>,
}

impl Assembler {
    /// For one source.
    pub fn new(origin: Origin) -> Self {
        Self {
            problems: Problems::default(),
            server: None,
            origin,
            files: Vec::new(),
            open: HashMap::new(),
            sessions: 0,
            events: Vec::new(),
            latest: None,
            correction: 0,
            written: 0,
            before: None,
        }
    }

    /// What follows is from this file.
    pub fn enter(&mut self, file: &str) {
        self.files.push(file.into());
        self.problems.enter(file);
    }

    /// Takes what a reader has found.
    pub fn push(&mut self, raw: Raw) {
        let line = raw.line;
        let at = self.time(raw.at, line);
        let id = raw.connection_id;
        let is_shared_second = raw.is_shared_second;
        let action = match raw.action {
            RawAction::Connect { user, schema } => {
                // The server has started again, and counts its connections anew.
                if self.open.contains_key(&id) {
                    self.add(at, is_shared_second, id, Action::Quit);
                    self.open.remove(&id);
                }
                self.session(id).schema = schema.clone();
                Action::Connect {
                    connection_id: id,
                    user,
                    schema,
                }
            }
            RawAction::Refused => {
                self.problems.count(Problem::RefusedConnection, line);
                self.forget(id);
                return;
            }
            RawAction::Schema(schema) => {
                self.session(id).schema = Some(schema.clone());
                Action::Schema(schema)
            }
            RawAction::Reset { user, schema } => {
                let open = self.session(id);
                // A connection that is reset without another user keeps its schema.
                if user.is_some() || schema.is_some() {
                    open.schema = schema.clone();
                }
                let schema = open.schema.clone();
                Action::Reset { user, schema }
            }
            RawAction::Quit => Action::Quit,
            RawAction::Statement {
                statement,
                is_execution,
            } => match self.statement(id, statement, is_execution, line) {
                Some(action) => action,
                None => return,
            },
        };
        let is_quit = action == Action::Quit;
        if is_quit && !self.open.contains_key(&id) {
            return;
        }
        self.add(at, is_shared_second, id, action);
        if is_quit {
            self.open.remove(&id);
        }
    }

    fn statement(&mut self, id: u64, mut statement: Statement, is_execution: bool, line: u64) -> Option<Action> {
        if statement.text.trim_ascii().is_empty() {
            self.problems.count(Problem::NoStatement, line);
            return None;
        }
        if lexer::is_cut(&statement.text) {
            self.problems.count(Problem::CutStatement, line);
            return None;
        }
        if std::str::from_utf8(&statement.text).is_err() {
            self.problems.count(Problem::NotUtf8, line);
        }
        if class::is_call(&statement.text) && self.origin.source == Source::GeneralLog {
            self.problems.count(Problem::CallWithItsStatements, line);
        }
        let open = self.session(id);
        if is_execution && std::mem::take(&mut open.has_executed) {
            return None;
        }
        open.has_executed = class::is_execute(&statement.text);
        match class::named(&statement.text) {
            Some(Named::PrepareWithoutText(name)) => {
                open.without_text.insert(name);
                return None;
            }
            Some(Named::Execute(name)) if open.without_text.contains(&name) => {
                open.has_executed = false;
                return None;
            }
            Some(Named::Deallocate(name)) if open.without_text.remove(&name) => return None,
            Some(Named::Prepare(name)) => {
                open.without_text.remove(&name);
            }
            _ => {}
        }
        if let Some(schema) = class::used_schema(&statement.text) {
            open.schema = Some(schema.clone());
            return Some(Action::Schema(schema));
        }
        match &statement.schema {
            Some(schema) => open.schema = Some(schema.clone()),
            None => statement.schema.clone_from(&open.schema),
        }
        Some(Action::Statement(statement))
    }

    fn session(&mut self, id: u64) -> &mut Open {
        let sessions = &mut self.sessions;
        self.open.entry(id).or_insert_with(|| {
            *sessions += 1;
            Open {
                session: *sessions,
                schema: None,
                has_executed: false,
                without_text: HashSet::new(),
            }
        })
    }

    /// Takes back a session that has only begun.
    fn forget(&mut self, id: u64) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        let is_its = |timed: &Timed| timed.event.session == open.session;
        // Its line is near the end: a refusal follows at once.
        if let Some(position) = self.events.iter().rposition(is_its) {
            self.events.remove(position);
        }
    }

    fn add(&mut self, at: Micros, is_shared_second: bool, id: u64, action: Action) {
        let session = self.session(id).session;
        self.events.push(Timed {
            at,
            is_shared_second,
            event: Event {
                at_us: 0,
                session,
                action,
            },
        });
    }

    fn time(&mut self, at: Option<Micros>, line: u64) -> Micros {
        let Some(written) = at else {
            // Before the log's first time: set when that is known.
            return self.latest.unwrap_or(UNKNOWN);
        };
        let last = std::mem::replace(&mut self.written, written);
        if self
            .before
            .is_some_and(|before| last < before - SUDDEN_US && written >= before - DISORDER_US)
        {
            // Nobody set the clock: a line within a text looked like an entry.
            self.correction = 0;
            self.before = None;
        }
        let at = written.saturating_add(self.correction);
        let Some(latest) = self.latest else {
            self.latest = Some(at);
            return at;
        };
        if at < latest - DISORDER_US {
            self.problems.count(Problem::ClockSetBack, line);
            self.correction += latest - at;
            self.before = Some(last);
            return latest;
        }
        self.latest = Some(latest.max(at));
        at
    }

    /// What came before the log's first time happened just then.
    fn date_first_events(&mut self) {
        let first = self.events.iter().find(|timed| timed.at != UNKNOWN);
        let (at, is_shared_second) = first.map_or((0, true), |timed| (timed.at, timed.is_shared_second));
        for timed in self.events.iter_mut().take_while(|timed| timed.at == UNKNOWN) {
            (timed.at, timed.is_shared_second) = (at, is_shared_second);
        }
    }

    /// All that was found, in the order of time.
    pub fn finish(mut self) -> Capture {
        self.date_first_events();
        let is_spread = spread(&mut self.events);
        if self.origin.time_is_end {
            for timed in &mut self.events {
                if let Action::Statement(statement) = &timed.event.action {
                    timed.at -= statement.duration_us.unwrap_or(0) as Micros;
                }
            }
        }
        keep_order_of_sessions(&mut self.events);
        self.events.sort_by_key(|timed| timed.at);
        let begin = self.events.first().map_or(0, |timed| timed.at);
        let mut events: Vec<Event> = Vec::with_capacity(self.events.len());
        for timed in self.events {
            let at_us = (timed.at - begin) as u64;
            events.push(Event { at_us, ..timed.event });
        }
        let sessions = number_by_first_event(&mut events);
        let header = Header {
            source: self.origin.source,
            server: self.server,
            files: self.files,
            begin: self.latest.and_then(|_| show(begin)),
            resolution_us: if is_spread { SECOND_US } else { 1 },
            spread: is_spread,
            anonymised: false,
            duration_us: events.iter().map(end_us).max().unwrap_or(0),
            sessions,
            peak_sessions: peak_sessions(&events),
            events: events.len() as u64,
            statements: events
                .iter()
                .filter(|event| matches!(event.action, Action::Statement(_)))
                .count() as u64,
            writing: Some(events.iter().filter(|event| writes(event)).count() as u64),
            problems: self.problems.into_counts(),
        };
        Capture { header, events }
    }
}

fn writes(event: &Event) -> bool {
    matches!(&event.action, Action::Statement(statement)
        if !class::is_administration(&statement.text) && !class::is_read_only(&statement.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERAL: Origin = Origin {
        source: Source::GeneralLog,
        time_is_end: false,
    };

    fn statement(at: Micros, connection_id: u64, text: &str) -> Raw {
        let statement = Statement {
            text: text.into(),
            ..Statement::default()
        };
        Raw {
            at: Some(at),
            is_shared_second: at % 1_000_000 == 0,
            connection_id,
            user: None,
            line: 1,
            action: RawAction::Statement {
                statement,
                is_execution: false,
            },
        }
    }

    fn times(capture: &Capture) -> Vec<(u32, u64)> {
        capture
            .events
            .iter()
            .map(|event| (event.session, event.at_us))
            .collect()
    }

    #[test]
    fn whole_seconds_are_spread_by_order() {
        let mut assembler = Assembler::new(GENERAL);
        for (second, connection) in [(5, 8), (5, 9), (5, 8), (5, 9), (7, 8)] {
            assembler.push(statement(second * 1_000_000, connection, "SELECT 1"));
        }
        let capture = assembler.finish();
        assert_eq!(
            times(&capture),
            [(1, 0), (2, 250_000), (1, 500_000), (2, 750_000), (1, 2_000_000)]
        );
        assert!(capture.header.spread && capture.header.resolution_us == 1_000_000);
        assert_eq!(capture.header.peak_sessions, 2);
    }

    #[test]
    fn times_of_ends_become_times_of_begins_and_a_session_keeps_its_order() {
        let origin = Origin {
            source: Source::SlowLog,
            time_is_end: true,
        };
        let mut assembler = Assembler::new(origin);
        for (at, connection, duration_us) in [(1_000_300, 1, 100), (1_000_500, 2, 400), (1_000_600, 1, 500)] {
            let mut raw = statement(at, connection, "SELECT 1");
            if let RawAction::Statement { statement, .. } = &mut raw.action {
                statement.duration_us = Some(duration_us);
            }
            assembler.push(raw);
        }
        let capture = assembler.finish();
        // They began at 200, at 100, and at 100; the last one of session 1 cannot have begun before its first one.
        assert_eq!(times(&capture), [(1, 0), (2, 100), (2, 100)]);
    }

    #[test]
    fn a_clock_that_is_set_back_is_counted_and_time_goes_on() {
        let mut assembler = Assembler::new(GENERAL);
        for second in [7200, 3600, 3605] {
            assembler.push(statement(second * 1_000_000, 1, "SELECT 1"));
        }
        let capture = assembler.finish();
        assert_eq!(capture.events.last().unwrap().at_us, 5_000_000);
        assert_eq!(capture.header.problems[0].problem, Problem::ClockSetBack);
    }

    #[test]
    fn events_before_the_first_time_of_a_log_have_that_time() {
        let mut assembler = Assembler::new(GENERAL);
        let mut first = statement(0, 1, "SELECT 1");
        first.at = None;
        assembler.push(first);
        assembler.push(statement(1_700_000_000_000_000, 1, "SELECT 2"));
        assert_eq!(times(&assembler.finish()), [(1, 0), (1, 500_000)]);
    }

    #[test]
    fn the_default_schema_follows_the_session() {
        let mut assembler = Assembler::new(GENERAL);
        for (at, text) in [(1, "SELECT 1"), (2, "use `shop`"), (3, "SELECT 2")] {
            assembler.push(statement(at, 1, text));
        }
        let capture = assembler.finish();
        let schemas: Vec<_> = capture
            .events
            .iter()
            .map(|event| match &event.action {
                Action::Statement(statement) => statement.schema.clone(),
                Action::Schema(schema) => Some(format!("USE {schema}")),
                _ => None,
            })
            .collect();
        assert_eq!(schemas, [None, Some("USE shop".into()), Some("shop".into())]);
    }
}
