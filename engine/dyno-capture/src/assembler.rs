//! Makes a capture of what the readers find: numbers sessions, follows default schemas, spreads whole seconds, sorts by
//! time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::class::{self, Named};
use crate::event::{Action, Capture, Event, Header, Raw, RawAction, Source, Statement};
use crate::implicit::{begin_transactions, begin_with_charset};
use crate::lexer;
use crate::problems::{LogPosition, Problem, Problems};
use crate::selection::{needs_default_schema, Selection, Selector};
use crate::timeline::{
    date_first_events, end_us, keep_order_of_sessions, number_by_first_event, peak_sessions, spread, Clock, Timed,
    SECOND_US,
};
use crate::timestamp::{show, Micros};

/// What the times of a source mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The source.
    pub source: Source,
    /// Whether the time is that of the statement's end.
    pub time_is_end: bool,
}

/// What sessions have that do not set it, where it is given.
#[derive(Debug, Clone, Default)]
pub struct Assumed {
    /// Their autocommit.
    pub autocommit: Option<bool>,
    /// Their character set; that of a login is among packets.
    pub charset: Option<String>,
}

/// A session that has not ended.
#[derive(Debug)]
struct Open {
    session: u32,
    /// Whether it has done anything yet.
    has_events: bool,
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
    /// What sessions have that do not set it.
    pub assumed: Assumed,
    origin: Origin,
    selector: Selector,
    /// Sessions of the provider that are recognised by a later statement.
    of_the_platform: BTreeSet<u32>,
    files: Vec<String>,
    open: HashMap<u64, Open>,
    /// Where the sessions without a beginning are first seen.
    begun_before: BTreeMap<u32, LogPosition>,
    sessions: u32,
    events: Vec<Timed>,
    clock: Clock,
}

impl Assembler {
    /// For one source.
    pub fn new(origin: Origin) -> Self {
        Self {
            problems: Problems::default(),
            server: None,
            assumed: Assumed::default(),
            origin,
            selector: Selector::default(),
            of_the_platform: BTreeSet::new(),
            files: Vec::new(),
            open: HashMap::new(),
            begun_before: BTreeMap::new(),
            sessions: 0,
            events: Vec::new(),
            clock: Clock::default(),
        }
    }

    /// Captures what a selection has.
    pub fn select(&mut self, selection: Selection) {
        self.selector = Selector::new(selection);
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
        if let Some(problem) = self.selector.left_out(&raw) {
            self.leave_out(&raw, problem);
            return;
        }
        let action = match raw.action {
            RawAction::Connect { user, schema } => {
                // The server has started again, and counts its connections anew.
                if self.open.contains_key(&id) {
                    self.add(at, is_shared_second, id, Action::Quit);
                    self.open.remove(&id);
                }
                self.session(id).schema = schema.clone();
                let schema = schema.filter(|schema| self.selector.has_schema(schema));
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
                if !self.selector.has_schema(&schema) {
                    return;
                }
                Action::Schema(schema)
            }
            RawAction::Reset { user, schema } => {
                let open = self.session(id);
                // A connection that is reset without another user keeps its schema.
                if user.is_some() || schema.is_some() {
                    open.schema = schema.clone();
                }
                let schema = open.schema.clone().filter(|schema| self.selector.has_schema(schema));
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
        let has_begun = matches!(action, Action::Connect { .. });
        let is_quit = action == Action::Quit;
        if is_quit && !self.open.contains_key(&id) {
            return;
        }
        let is_first = self.open.get(&id).is_some_and(|open| !open.has_events);
        if is_first && !has_begun {
            self.note_begun_before(id, line);
        }
        self.add(at, is_shared_second, id, action);
        if is_quit {
            self.open.remove(&id);
        }
    }

    fn leave_out(&mut self, raw: &Raw, problem: Problem) {
        if matches!(raw.action, RawAction::Statement { .. }) {
            self.problems.count(problem, raw.line);
        }
        // The account of a session that began before the log is known late.
        if let Some(open) = self.open.remove(&raw.connection_id) {
            if problem == Problem::OfThePlatform && self.begun_before.contains_key(&open.session) {
                self.of_the_platform.insert(open.session);
            }
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
        let is_logged_when_executed = self.origin.source != Source::Packets;
        let open = self.session(id);
        if is_execution && std::mem::take(&mut open.has_executed) {
            return None;
        }
        open.has_executed = class::is_execute(&statement.text);
        match class::named(&statement.text) {
            Some(Named::PrepareWithoutText(name)) if is_logged_when_executed => {
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
            return self.selector.has_schema(&schema).then_some(Action::Schema(schema));
        }
        match &statement.schema {
            Some(schema) => open.schema = Some(schema.clone()),
            None => statement.schema.clone_from(&open.schema),
        }
        let (session, has_events) = (open.session, open.has_events);
        let place = self.problems.place(line);
        if !self.selector.has_statement(session, &mut statement, place) {
            self.problems.count(Problem::OtherSchema, line);
            return None;
        }
        let has_no_begin = !has_events || self.begun_before.contains_key(&session);
        if statement.schema.is_none() && has_no_begin && needs_default_schema(&statement.text) {
            self.problems.count(Problem::UnknownSchema, line);
        }
        Some(Action::Statement(statement))
    }

    fn session(&mut self, id: u64) -> &mut Open {
        let sessions = &mut self.sessions;
        self.open.entry(id).or_insert_with(|| {
            *sessions += 1;
            Open {
                session: *sessions,
                has_events: false,
                schema: None,
                has_executed: false,
                without_text: HashSet::new(),
            }
        })
    }

    /// Notes a session without its beginning; slow logs and the statements history never have it.
    fn note_begun_before(&mut self, id: u64, line: u64) {
        let session = self.session(id).session;
        let place = self.problems.place(line);
        if matches!(self.origin.source, Source::GeneralLog | Source::Packets) {
            self.problems.count(Problem::BegunBefore, line);
        }
        self.begun_before.insert(session, place);
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
        let open = self.session(id);
        open.has_events = true;
        let session = open.session;
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
        if self.origin.source == Source::Packets {
            // In the order of the replies' ends.
            return self.clock.time(at);
        }
        let (at, is_set_back) = self.clock.corrected(at);
        if is_set_back {
            self.problems.count(Problem::ClockSetBack, line);
        }
        at
    }

    fn remove_other_sessions(&mut self) {
        let is_its = |timed: &Timed| self.of_the_platform.contains(&timed.event.session);
        for timed in self.events.iter().filter(|timed| is_its(timed)) {
            if let (Action::Statement(_), Some(place)) =
                (&timed.event.action, self.begun_before.get(&timed.event.session))
            {
                self.problems.count_at(Problem::OfThePlatform, 1, Some(place.clone()));
            }
        }
        let not_chosen = self.selector.not_chosen();
        self.events.retain(|Timed { event, .. }| {
            !self.of_the_platform.contains(&event.session) && !not_chosen.contains_key(&event.session)
        });
        for (session, (count, place)) in not_chosen {
            if !self.of_the_platform.contains(&session) {
                self.problems.count_at(Problem::OtherSchema, count, Some(place));
            }
        }
    }

    /// All that was found, in the order of time.
    pub fn finish(mut self) -> Capture {
        self.remove_other_sessions();
        date_first_events(&mut self.events);
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
        let begun_before = self.begun_before.keys().copied().collect();
        if let Some(charset) = &self.assumed.charset {
            let has_logins = self.origin.source == Source::Packets;
            begin_with_charset(&mut events, charset, has_logins.then_some(&begun_before));
        }
        let begun = begin_transactions(&mut events, &begun_before, self.assumed.autocommit);
        begun.count(&mut self.problems, &self.begun_before);
        let sessions = number_by_first_event(&mut events);
        let header = Header {
            source: self.origin.source,
            server: self.server,
            files: self.files,
            begin: self.clock.latest.and_then(|_| show(begin)),
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
mod tests;
