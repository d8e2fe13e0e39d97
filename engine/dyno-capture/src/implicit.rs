//! Sessions that began before the log: whether they were in a transaction, or without autocommit.

use std::collections::{BTreeMap, BTreeSet};

use crate::class::{self, Boundary};
use crate::event::{Action, Event, Statement};

/// What is known of a session.
#[derive(Debug, Default)]
struct Seen {
    /// Whether it has changed data outside of a transaction.
    has_written: bool,
    is_in_transaction: bool,
    has_begun_one: bool,
    /// Whether its COMMIT or ROLLBACK has ended what it had not begun.
    has_ended_unbegun: bool,
    /// Whether the log states its autocommit from now on.
    is_known: bool,
}

impl Seen {
    fn take(&mut self, action: &Action) {
        let text = match action {
            _ if self.is_known => return,
            Action::Statement(statement) => &statement.text,
            Action::Reset { .. } => {
                self.is_known = true;
                return;
            }
            _ => return,
        };
        if class::autocommit(text).is_some() {
            self.is_known = true;
            return;
        }
        match class::boundary(text) {
            Some(Boundary::Begin) => (self.is_in_transaction, self.has_begun_one) = (true, true),
            Some(Boundary::End) => {
                self.has_ended_unbegun |= self.has_written && !self.has_begun_one;
                (self.is_in_transaction, self.has_written) = (false, false);
            }
            None if self.is_in_transaction || class::is_administration(text) => {}
            None => self.has_written |= !class::is_read_only(text),
        }
    }

    /// What the session had done before the log. One that begins transactions itself had begun this one; another one has
    /// no autocommit.
    fn before(&self) -> Option<&'static [u8]> {
        let text: &[u8] = if self.has_begun_one {
            b"BEGIN"
        } else {
            b"SET autocommit = 0"
        };
        self.has_ended_unbegun.then_some(text)
    }
}

/// Begins the sessions with what they must have done before the log: COMMIT or ROLLBACK after changes that no BEGIN
/// precedes ends a transaction. Returns these sessions.
pub fn begin_transactions(events: &mut Vec<Event>, begun_before: &BTreeSet<u32>) -> Vec<u32> {
    let mut seen: BTreeMap<u32, Seen> = BTreeMap::new();
    for event in events.iter().filter(|event| begun_before.contains(&event.session)) {
        seen.entry(event.session).or_default().take(&event.action);
    }
    let mut before: BTreeMap<u32, &[u8]> = seen
        .iter()
        .filter_map(|(session, seen)| Some((*session, seen.before()?)))
        .collect();
    let sessions = before.keys().copied().collect();
    if before.is_empty() {
        return sessions;
    }
    for event in std::mem::take(events) {
        if let Some(text) = before.remove(&event.session) {
            let statement = Statement {
                text: text.to_vec(),
                ..Statement::default()
            };
            events.push(Event {
                action: Action::Statement(statement),
                ..event.clone()
            });
        }
        events.push(event);
    }
    sessions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(texts: &[&str]) -> Option<String> {
        let event = |text: &&str| Event {
            at_us: 0,
            session: 1,
            action: Action::Statement(Statement {
                text: text.as_bytes().to_vec(),
                ..Statement::default()
            }),
        };
        let mut events: Vec<Event> = texts.iter().map(event).collect();
        let sessions = begin_transactions(&mut events, &[1].into());
        assert_eq!(events.len(), texts.len() + sessions.len());
        let Action::Statement(first) = &events[0].action else {
            return None;
        };
        (!sessions.is_empty()).then(|| String::from_utf8_lossy(&first.text).into_owned())
    }

    #[test]
    fn an_end_after_changes_without_a_begin_shows_a_transaction() {
        let off = Some("SET autocommit = 0".to_string());
        assert_eq!(begun(&["DELETE FROM t", "COMMIT", "DELETE FROM u", "ROLLBACK"]), off);
        assert_eq!(begun(&["SELECT 1", "UPDATE t SET a = 1", "ROLLBACK"]), off);
        let within = begun(&["DELETE FROM t", "COMMIT", "BEGIN", "DELETE FROM t", "COMMIT"]);
        assert_eq!(within.as_deref(), Some("BEGIN"), "the log began within a transaction");
        for known in [
            &["BEGIN", "DELETE FROM t", "COMMIT"][..],
            &["SELECT 1", "COMMIT"],
            &["DELETE FROM t", "DELETE FROM t"],
            &["SET autocommit = 1", "DELETE FROM t", "COMMIT"],
            &["BEGIN", "COMMIT", "DELETE FROM t", "ROLLBACK"],
        ] {
            assert_eq!(begun(known), None, "{known:?}");
        }
    }
}
