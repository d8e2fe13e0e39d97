//! What the log does not state of its sessions: the autocommit of a server where it is off, or of those that began before
//! the log; the character set.

use std::collections::{BTreeMap, BTreeSet};

use crate::class::{self, Boundary};
use crate::event::{Action, Event, Statement};
use crate::lexer::tokens;
use crate::problems::{LogPosition, Problem, Problems};

/// A session, and how often it was reset: each time the server's own value holds again.
type Part = (u32, u32);

/// What is known of a part of a session.
#[derive(Debug, Default)]
struct Seen {
    /// Whether it has changed rows outside of a transaction.
    has_written: bool,
    is_in_transaction: bool,
    has_begun_one: bool,
    /// Whether it has done anything outside of a transaction.
    has_acted: bool,
    /// Whether its COMMIT or ROLLBACK has ended what it had not begun.
    has_ended_unbegun: bool,
    /// Whether the log states its autocommit from now on.
    is_known: bool,
}

impl Seen {
    fn take(&mut self, text: &[u8]) {
        if self.is_known {
            return;
        }
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
            None => {
                self.has_written |= changes_rows(text);
                self.has_acted |= !tokens(text).next().is_some_and(|first| first.is_word("SET"));
            }
        }
    }
}

/// Whether COMMIT and ROLLBACK decide on it: not so on definitions.
fn changes_rows(text: &[u8]) -> bool {
    let first = tokens(text).next();
    let words = ["INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH"];
    first.is_some_and(|first| first.is_any(&words)) && !class::is_read_only(text)
}

/// The sessions that were found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// Those that were in a transaction, or without autocommit.
    pub in_transaction: BTreeSet<u32>,
    /// Beside those, some that do not show whether they were.
    pub unknown: BTreeSet<u32>,
}

impl Begun {
    /// Counts them, with the places where those that began before the log are first seen.
    pub fn count(self, problems: &mut Problems, places: &BTreeMap<u32, LogPosition>) {
        for (problem, sessions) in [
            (Problem::InTransaction, self.in_transaction),
            (Problem::UnknownAutocommit, self.unknown),
        ] {
            for session in sessions {
                problems.count_at(problem, 1, places.get(&session).cloned());
            }
        }
    }
}

/// Begins sessions with what the log lacks. COMMIT or ROLLBACK after changes of rows that no BEGIN precedes ends a
/// transaction: of a session that began before the log and has other BEGINs, this one; otherwise there is no autocommit.
/// With a given value, all sessions have it until they set it.
pub fn begin_transactions(events: &mut Vec<Event>, begun_before: &BTreeSet<u32>, autocommit: Option<bool>) -> Begun {
    let mut seen: BTreeMap<Part, Seen> = BTreeMap::new();
    let mut resets: BTreeMap<u32, u32> = BTreeMap::new();
    for event in &*events {
        let part = part(event, &mut resets);
        let seen = seen.entry(part).or_default();
        if let Action::Statement(statement) = &event.action {
            seen.take(&statement.text);
        }
    }
    let mut begun = Begun::default();
    let mut before: BTreeMap<Part, &[u8]> = BTreeMap::new();
    for (part, seen) in &seen {
        let began_before = part.1 == 0 && begun_before.contains(&part.0);
        let text: &[u8] = match autocommit {
            Some(false) if seen.has_acted => b"SET autocommit = 0",
            None if seen.has_ended_unbegun && !seen.has_begun_one => b"SET autocommit = 0",
            None | Some(true) if seen.has_ended_unbegun && began_before => b"BEGIN",
            None if seen.has_acted && !seen.is_known => {
                begun.unknown.insert(part.0);
                continue;
            }
            _ => continue,
        };
        before.insert(*part, text);
        begun.in_transaction.insert(part.0);
    }
    if before.is_empty() {
        return Begun::default();
    }
    resets.clear();
    for event in std::mem::take(events) {
        let text = before.remove(&part(&event, &mut resets));
        let begins = matches!(event.action, Action::Connect { .. } | Action::Reset { .. });
        let first = text.map(|text| Event {
            action: Action::Statement(Statement {
                text: text.to_vec(),
                ..Statement::default()
            }),
            ..event.clone()
        });
        let place = events.len() + usize::from(begins);
        events.push(event);
        if let Some(first) = first {
            events.insert(place, first);
        }
    }
    begun
}

/// Begins sessions that do not begin with a character set of their own by setting this one; of packets only those that
/// began before.
pub fn begin_with_charset(events: &mut Vec<Event>, charset: &str, only: Option<&BTreeSet<u32>>) {
    let (mut begun, mut resets) = (BTreeSet::new(), BTreeMap::new());
    for event in std::mem::take(events) {
        let part = part(&event, &mut resets);
        if let Action::Statement(statement) = &event.action {
            let is_known = only.is_some_and(|sessions| part.1 > 0 || !sessions.contains(&part.0));
            if begun.insert(part) && !is_known && class::charset(&statement.text).is_none() {
                events.push(Event {
                    action: Action::Statement(Statement::set_names(charset)),
                    at_us: event.at_us,
                    session: event.session,
                });
            }
        }
        events.push(event);
    }
}

fn part(event: &Event, resets: &mut BTreeMap<u32, u32>) -> Part {
    let count = resets.entry(event.session).or_default();
    *count += u32::from(matches!(event.action, Action::Reset { .. }));
    (event.session, *count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of session 1: its beginning, resets and statements.
    fn events(session: u32, texts: &[&str]) -> Vec<Event> {
        let action = |text: &&str| match *text {
            "connect" => Action::Connect {
                connection_id: 1,
                user: None,
                schema: None,
            },
            "reset" => Action::Reset {
                user: None,
                schema: None,
            },
            text => Action::Statement(Statement {
                text: text.as_bytes().to_vec(),
                ..Statement::default()
            }),
        };
        let event = |text| Event {
            at_us: 0,
            session,
            action: action(text),
        };
        texts.iter().map(event).collect()
    }

    fn shown(events: &[Event]) -> Vec<String> {
        let shown = events.iter().map(|event| match &event.action {
            Action::Statement(statement) => String::from_utf8_lossy(&statement.text).into_owned(),
            Action::Connect { .. } => "connect".into(),
            _ => "reset".into(),
        });
        shown.collect()
    }

    fn begun(texts: &[&str], autocommit: Option<bool>) -> Vec<String> {
        let mut events = events(1, texts);
        let before = if texts[0] == "connect" {
            BTreeSet::new()
        } else {
            [1].into()
        };
        begin_transactions(&mut events, &before, autocommit);
        shown(&events)
    }

    #[test]
    fn an_end_after_changes_without_a_begin_shows_a_transaction() {
        let first = |texts: &[&str]| begun(texts, None)[0].clone();
        let off = "SET autocommit = 0";
        assert_eq!(first(&["DELETE FROM t", "COMMIT", "DELETE FROM u", "ROLLBACK"]), off);
        assert_eq!(first(&["SELECT 1", "UPDATE t SET a = 1", "ROLLBACK"]), off);
        let within = first(&["DELETE FROM t", "COMMIT", "BEGIN", "DELETE FROM t", "COMMIT"]);
        assert_eq!(within, "BEGIN", "the log began within a transaction");
        for known in [
            &["BEGIN", "DELETE FROM t", "COMMIT"][..],
            &["SELECT 1", "COMMIT"],
            &["DELETE FROM t", "DELETE FROM t"],
            &["CREATE TABLE t (a INT)", "COMMIT"],
            &["SET autocommit = 1", "DELETE FROM t", "COMMIT"],
            &["BEGIN", "COMMIT", "DELETE FROM t", "ROLLBACK"],
            &["connect", "SET autocommit = 1", "DELETE FROM t", "COMMIT"],
            &["connect", "DELETE FROM t", "COMMIT", "BEGIN", "COMMIT"],
        ] {
            assert_eq!(begun(known, None), known);
        }
    }

    #[test]
    fn sessions_of_a_server_without_autocommit_begin_so_again_after_each_reset() {
        let texts = [
            "connect",
            "INSERT INTO t VALUES (1)",
            "ROLLBACK",
            "reset",
            "DELETE FROM t",
            "COMMIT",
        ];
        let expected = [
            "connect",
            "SET autocommit = 0",
            "INSERT INTO t VALUES (1)",
            "ROLLBACK",
            "reset",
            "SET autocommit = 0",
            "DELETE FROM t",
            "COMMIT",
        ];
        assert_eq!(begun(&texts, None), expected);
        assert_eq!(begun(&texts, Some(false)), expected);
        assert_eq!(begun(&texts, Some(true)), texts);
    }

    #[test]
    fn sessions_that_set_no_character_set_get_the_given_one() {
        let mut all = events(1, &["connect", "SELECT 1", "reset", "SET NAMES utf8", "SELECT 2"]);
        all.extend(events(2, &["SELECT 3", "reset", "SELECT 4"]));
        let with = |only: Option<&BTreeSet<u32>>| {
            let mut events = all.clone();
            begin_with_charset(&mut events, "latin1", only);
            shown(&events).join("; ")
        };
        let first = "connect; SET NAMES latin1; SELECT 1; reset; SET NAMES utf8; SELECT 2";
        let second = "SET NAMES latin1; SELECT 3; reset; SET NAMES latin1; SELECT 4";
        assert_eq!(with(None), format!("{first}; {second}"));
        let of_packets =
            "connect; SELECT 1; reset; SET NAMES utf8; SELECT 2; SET NAMES latin1; SELECT 3; reset; SELECT 4";
        assert_eq!(with(Some(&[2].into())), of_packets);
    }

    #[test]
    fn what_others_do_makes_autocommit_unknown_unless_it_is_given() {
        let mut all = events(1, &["connect", "DELETE FROM t", "COMMIT"]);
        all.extend(events(2, &["connect", "DELETE FROM t"]));
        all.extend(events(3, &["SELECT 1"]));
        all.extend(events(
            4,
            &["connect", "SET NAMES utf8mb4", "BEGIN", "DELETE FROM t", "COMMIT"],
        ));
        all.extend(events(5, &["connect", "SET autocommit = 1", "DELETE FROM t"]));
        let found = begin_transactions(&mut all.clone(), &[3].into(), None);
        assert_eq!((found.in_transaction, found.unknown), ([1].into(), [2, 3].into()));
        let found = begin_transactions(&mut all, &[3].into(), Some(false));
        assert_eq!((found.in_transaction, found.unknown), ([1, 2, 3].into(), [].into()));
        let begins = shown(&all).iter().filter(|text| *text == "SET autocommit = 0").count();
        assert_eq!(begins, 3);
        let mut alone = events(2, &["connect", "DELETE FROM t"]);
        assert_eq!(begin_transactions(&mut alone, &[].into(), None), Begun::default());
    }
}
