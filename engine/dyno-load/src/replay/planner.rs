//! Makes a plan of a capture.

use std::collections::{BTreeSet, HashMap};

use dyno_capture::reach::named_schemas;
use dyno_capture::{class, digest, fingerprint, lexer, needs_default_schema, Action, Capture};

use super::plan::{Act, Digest, ReplayPlan, Selection, Session, Statement, Step};

impl ReplayPlan {
    /// Plans a capture.
    pub fn new(capture: Capture, selection: &Selection) -> Self {
        let mut planner = Planner::new(selection);
        planner.plan.problems = capture.header.problems;
        let limit_us = selection.limit_time.map(|limit| limit.as_micros() as u64);
        for (index, event) in capture.events.into_iter().enumerate() {
            if selection.limit_sessions.is_some_and(|limit| event.session > limit) {
                if matches!(event.action, Action::Statement(_)) {
                    planner.plan.left_out.beyond_sessions += 1;
                }
                continue;
            }
            if limit_us.is_some_and(|limit_us| event.at_us >= limit_us) {
                if matches!(event.action, Action::Statement(_)) {
                    planner.plan.left_out.after_limit += 1;
                }
                continue;
            }
            planner.plan.end_us = event.at_us;
            planner.event(index as u64 + 1, event);
        }
        planner.finish()
    }

    /// The number of the first statement that writes and names a schema that is to have another name, with that schema:
    /// names within statements stay.
    pub fn writes_into_original(&self, selection: &Selection) -> Option<(u64, String)> {
        let is_original = |name: &String| {
            let mut names = selection.schemas.iter();
            names.any(|(from, to)| from != to && from.eq_ignore_ascii_case(name))
        };
        let mut writing = self.statements.iter().filter(|one| !class::is_read_only(&one.text));
        writing.find_map(|one| {
            let named = named_schemas(&one.text).into_iter().map(|schema| schema.name);
            Some((one.event, named.into_iter().find(is_original)?))
        })
    }
}

struct Planner<'a> {
    selection: &'a Selection,
    plan: ReplayPlan,
    /// Place of each captured session in the plan, and its default schema so far.
    places: HashMap<u32, (usize, Option<String>)>,
    digests: HashMap<String, u32>,
    created_schemas: BTreeSet<String>,
    has_connect: BTreeSet<u32>,
    /// Sessions that have set their character set.
    has_charset: BTreeSet<u32>,
}

impl<'a> Planner<'a> {
    fn new(selection: &'a Selection) -> Self {
        Self {
            selection,
            plan: ReplayPlan::default(),
            places: HashMap::new(),
            digests: HashMap::new(),
            created_schemas: BTreeSet::new(),
            has_connect: BTreeSet::new(),
            has_charset: BTreeSet::new(),
        }
    }

    fn mapped(&self, schema: Option<String>) -> Option<String> {
        schema.map(|name| self.selection.name_of(name))
    }

    fn event(&mut self, number: u64, event: dyno_capture::Event) {
        let at_us = event.at_us;
        match event.action {
            Action::Connect { schema, .. } => {
                let schema = self.mapped(schema);
                self.has_connect.insert(event.session);
                self.need(schema.as_ref());
                self.open(event.session, at_us, schema);
            }
            Action::Quit => {
                if let Some((place, _)) = self.places.get(&event.session) {
                    self.plan.sessions[*place].close_us = Some(at_us);
                }
            }
            Action::Schema(schema) => {
                let schema = self.mapped(Some(schema));
                self.select(event.session, at_us, schema);
            }
            Action::Reset { schema, .. } => {
                self.has_charset.remove(&event.session);
                let schema = self.mapped(schema);
                self.need(schema.as_ref());
                let (place, current) = self.place(event.session, at_us, schema.clone());
                current.clone_from(&schema);
                let steps = &mut self.plan.sessions[place].steps;
                steps.push(Step {
                    at_us,
                    act: Act::Reset(schema),
                });
            }
            Action::Statement(statement) => {
                if class::is_administration(&statement.text) {
                    self.plan.left_out.administration += 1;
                    return;
                }
                if self.selection.read_only && !class::is_read_only(&statement.text) {
                    self.plan.left_out.not_read_only += 1;
                    return;
                }
                self.note_created(&statement.text);
                if class::charset(&statement.text).is_some() {
                    self.has_charset.insert(event.session);
                } else if !self.has_charset.contains(&event.session) && !class::is_utf8(&statement.text) {
                    self.plan.unknown_charset += 1;
                }
                let schema = self.mapped(statement.schema);
                let is_known = schema.is_some()
                    || self.selection.default_schema.is_some()
                    || self.has_connect.contains(&event.session);
                if !is_known && needs_default_schema(&statement.text) {
                    self.plan.unknown_schema += 1;
                }
                self.select(event.session, at_us, schema);
                self.statement(number, event.session, at_us, statement.text);
            }
        }
    }

    fn statement(&mut self, event: u64, session: u32, at_us: u64, text: Vec<u8>) {
        let digest = self.digest(&text);
        let index = self.plan.statements.len() as u32;
        let (place, _) = self.place(session, at_us, None);
        self.plan.statements.push(Statement {
            event,
            session,
            at_us,
            digest,
            text,
        });
        self.plan.sessions[place].steps.push(Step {
            at_us,
            act: Act::Statement(index),
        });
    }

    fn digest(&mut self, text: &[u8]) -> u32 {
        let digest = digest(text);
        let plan = &mut self.plan;
        *self.digests.entry(digest).or_insert_with_key(|digest| {
            plan.digests.push(Digest {
                fingerprint: fingerprint(digest.as_bytes()),
                text: digest.clone(),
            });
            plan.digests.len() as u32 - 1
        })
    }

    /// Makes this schema the session's default one where it is another.
    fn select(&mut self, session: u32, at_us: u64, schema: Option<String>) {
        let Some(schema) = schema else {
            return;
        };
        let is_new = !self.places.contains_key(&session);
        let (place, current) = self.place(session, at_us, Some(schema.clone()));
        if current.as_ref() != Some(&schema) {
            *current = Some(schema.clone());
            let act = Act::Use(schema.clone());
            self.plan.sessions[place].steps.push(Step { at_us, act });
        }
        if is_new || !self.created_schemas.contains(&schema) {
            self.need(Some(&schema));
        }
    }

    fn need(&mut self, schema: Option<&String>) {
        if let Some(schema) = schema.filter(|schema| !self.created_schemas.contains(*schema)) {
            self.plan.needed_schemas.insert(schema.clone());
        }
    }

    /// The session's place in the plan and its default schema; one that has not begun begins with this schema.
    fn place(&mut self, session: u32, at_us: u64, schema: Option<String>) -> (usize, &mut Option<String>) {
        if !self.places.contains_key(&session) {
            self.open(session, at_us, schema);
        }
        // It was inserted above where it was missing.
        let (place, current) = self.places.get_mut(&session).expect("an opened session has a place");
        (*place, current)
    }

    fn open(&mut self, session: u32, at_us: u64, schema: Option<String>) {
        let schema = schema.or_else(|| self.selection.default_schema.clone());
        self.places.insert(session, (self.plan.sessions.len(), schema.clone()));
        self.plan.sessions.push(Session {
            number: session,
            open_us: at_us,
            has_connect: self.has_connect.contains(&session),
            close_us: None,
            schema,
            steps: Vec::new(),
        });
    }

    /// Notes a schema that the capture creates before it is used.
    fn note_created(&mut self, text: &[u8]) {
        let mut tokens = lexer::tokens(text);
        let is_create = tokens.next().is_some_and(|token| token.is_word("CREATE"));
        if is_create && tokens.next().is_some_and(|token| token.is_any(&["DATABASE", "SCHEMA"])) {
            let mut rest = tokens.skip_while(|token| token.is_any(&["IF", "NOT", "EXISTS"]));
            if let Some(schema) = rest.next().and_then(|token| lexer::name(&token)) {
                self.created_schemas.insert(schema);
            }
        }
    }

    fn finish(mut self) -> ReplayPlan {
        let end_us = self.plan.end_us;
        for session in &mut self.plan.sessions {
            // It was open when the log ended.
            if session.has_connect && session.close_us.is_none() {
                session.close_us = Some(end_us);
            }
        }
        self.plan.peak_sessions = peak(&self.plan.sessions);
        self.plan
    }
}

/// The most sessions that are open at a time, if nothing is late.
fn peak(sessions: &[Session]) -> u32 {
    let mut edges = Vec::with_capacity(sessions.len() * 2);
    for session in sessions {
        let last = session.steps.last().map_or(session.open_us, |step| step.at_us);
        edges.push((session.open_us, 1));
        edges.push((session.close_us.unwrap_or(last).max(last) + 1, -1));
    }
    edges.sort_unstable();
    let (mut open, mut peak) = (0i64, 0);
    for (_, change) in edges {
        open += change;
        peak = peak.max(open);
    }
    u32::try_from(peak).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dyno_capture::Event;

    use super::super::plan::LeftOut;
    use super::*;

    fn capture(events: Vec<(u64, u32, Action)>) -> Capture {
        let mut capture = dyno_capture::read(&br#"{"record":"header","format":"dynoload-capture","format_version":1,"source":"general_log","resolution_us":1,"spread":false,"anonymised":false,"duration_us":0,"sessions":0,"peak_sessions":0,"events":0,"statements":0}"#[..]).unwrap();
        let event = |(at_us, session, action)| Event { at_us, session, action };
        capture.events = events.into_iter().map(event).collect();
        capture
    }

    fn connect(schema: Option<&str>) -> Action {
        Action::Connect {
            connection_id: 1,
            user: None,
            schema: schema.map(str::to_string),
        }
    }

    fn statement(schema: Option<&str>, text: &str) -> Action {
        let schema = schema.map(str::to_string);
        Action::Statement(dyno_capture::Statement {
            schema,
            text: text.into(),
            ..dyno_capture::Statement::default()
        })
    }

    #[test]
    fn schemas_are_mapped_and_selected_where_they_change() {
        let selection = Selection {
            schemas: [("a".to_string(), "copy".to_string())].into(),
            default_schema: Some("other".into()),
            ..Selection::default()
        };
        let events = vec![
            (0, 1, connect(Some("a"))),
            (5, 1, statement(Some("a"), "SELECT 1")),
            (6, 1, Action::Schema("b".into())),
            (7, 1, statement(Some("b"), "SELECT 2")),
            (8, 2, statement(None, "SELECT 3")),
            (9, 1, Action::Quit),
        ];
        let plan = ReplayPlan::new(capture(events), &selection);
        assert_eq!(plan.sessions[0].schema.as_deref(), Some("copy"));
        assert_eq!(plan.sessions[1].schema.as_deref(), Some("other"));
        let acts: Vec<_> = plan.sessions[0].steps.iter().map(|step| step.act.clone()).collect();
        assert_eq!(acts, [Act::Statement(0), Act::Use("b".into()), Act::Statement(1)]);
        assert_eq!(plan.needed_schemas, ["b", "copy"].map(str::to_string).into());
        assert_eq!(
            (plan.sessions[0].close_us, plan.sessions[1].close_us, plan.peak_sessions),
            (Some(9), None, 2)
        );
        assert_eq!(plan.digests.len(), 1, "three statements of one digest");
    }

    #[test]
    fn what_writes_into_the_original_of_a_copy_is_found() {
        let events = |text| {
            vec![
                (0, 1, statement(Some("shop"), "SELECT 1 FROM shop.item")),
                (1, 1, statement(None, text)),
            ]
        };
        let selection = Selection {
            schemas: [("shop".to_string(), "copy".to_string())].into(),
            ..Selection::default()
        };
        let found = |text| ReplayPlan::new(capture(events(text)), &selection).writes_into_original(&selection);
        for text in ["UPDATE Shop.item SET a = 1", "INSERT INTO `shop`.item SELECT 1"] {
            let (event, schema) = found(text).expect(text);
            assert_eq!((event, schema.to_lowercase().as_str()), (2, "shop"), "{text}");
        }
        for text in [
            "UPDATE item SET a = 1",
            "UPDATE copy.item SET a = 1",
            "SELECT 1 FROM shop.item",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn tables_of_an_unknown_schema_are_counted_unless_one_is_named() {
        let events = || {
            vec![
                (0, 1, statement(None, "SELECT 1 FROM item")),
                (1, 1, statement(None, "COMMIT")),
                (2, 1, statement(Some("shop"), "SELECT 1 FROM item")),
                (3, 2, connect(None)),
                (4, 2, statement(None, "SELECT 1 FROM item")),
            ]
        };
        let mut selection = Selection::default();
        assert_eq!(ReplayPlan::new(capture(events()), &selection).unknown_schema, 1);
        selection.default_schema = Some("shop".into());
        assert_eq!(ReplayPlan::new(capture(events()), &selection).unknown_schema, 0);
    }

    #[test]
    fn statements_that_are_not_utf8_are_counted_where_no_character_set_is_set() {
        let of_text = |text: &[u8]| {
            Action::Statement(dyno_capture::Statement {
                text: text.to_vec(),
                ..dyno_capture::Statement::default()
            })
        };
        let bytes = || of_text(b"SELECT 'caf\xe9'");
        let binary = of_text(b"INSERT INTO f VALUES (_binary'\xff\xd8')");
        let reset = Action::Reset {
            user: None,
            schema: None,
        };
        let events = vec![
            (0, 1, statement(None, "SELECT '\u{e9}'")),
            (1, 1, bytes()),
            (2, 1, statement(None, "SET NAMES latin1")),
            (3, 1, bytes()),
            (4, 1, reset),
            (5, 1, bytes()),
            (6, 1, binary),
        ];
        let plan = ReplayPlan::new(capture(events), &Selection::default());
        assert_eq!(plan.unknown_charset, 2);
    }

    #[test]
    fn what_is_left_out_is_counted_by_reason() {
        let selection = Selection {
            read_only: true,
            limit_sessions: Some(1),
            limit_time: Some(Duration::from_micros(100)),
            ..Selection::default()
        };
        let events = vec![
            (0, 1, statement(None, "DELETE FROM t")),
            (1, 1, statement(None, "SELECT 1")),
            (2, 2, statement(None, "SELECT 1")),
            (3, 1, statement(None, "KILL 7")),
            (100, 1, statement(None, "SELECT 1")),
        ];
        let plan = ReplayPlan::new(capture(events), &selection);
        assert_eq!(plan.statements.len(), 1);
        assert_eq!(
            plan.left_out,
            LeftOut {
                administration: 1,
                not_read_only: 1,
                after_limit: 1,
                beyond_sessions: 1
            }
        );
    }

    #[test]
    fn a_schema_that_the_capture_creates_need_not_be_there() {
        let events = vec![
            (0, 1, connect(None)),
            (1, 1, statement(None, "CREATE DATABASE IF NOT EXISTS `shop`")),
            (2, 1, Action::Schema("shop".into())),
        ];
        assert!(ReplayPlan::new(capture(events), &Selection::default())
            .needed_schemas
            .is_empty());
    }
}
