//! Which statements of a capture are compared: one for each digest, with its most frequent texts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dyno_capture::lexer::{tokens, Kind, Token};
use dyno_capture::{class, digest, fingerprint, Action, Capture, Fingerprint};
use serde::Serialize;

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its digest.
    pub digest: String,
    /// The digest's short name.
    pub fingerprint: Fingerprint,
    /// How many statements of the capture have this digest.
    pub count: u64,
    /// Whether it does not only read: it is executed in a transaction that is rolled back.
    pub writes: bool,
    /// Its texts, the most frequent first.
    pub texts: Vec<Vec<u8>>,
}

/// Statements of the capture that are not compared, for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LeftOut {
    /// How many digests.
    pub digests: u64,
    /// How many statements.
    pub statements: u64,
}

/// A text with the number of its statements.
type Counted<'a> = (&'a [u8], u64);

/// What is compared of a capture, and what is not.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The most frequent digest first.
    pub chosen: Vec<Chosen>,
    /// By reason.
    pub left_out: BTreeMap<&'static str, LeftOut>,
    /// The default schemas of the statements.
    pub schemas: BTreeSet<String>,
}

impl Choice {
    /// Of a capture: at most so many digests, with so many texts of each.
    pub fn of(capture: &Capture, most_digests: usize, most_texts: usize) -> Self {
        let mut choice = Self::default();
        let mut found: HashMap<String, HashMap<&[u8], u64>> = HashMap::new();
        for event in &capture.events {
            let Action::Statement(statement) = &event.action else {
                continue;
            };
            choice.schemas.extend(statement.schema.clone());
            let texts = found.entry(digest(&statement.text)).or_default();
            *texts.entry(&statement.text).or_default() += statement.count.unwrap_or(1);
        }
        let mut all: Vec<(String, Vec<Counted<'_>>)> = found
            .into_iter()
            .map(|(digest, texts)| {
                let mut texts: Vec<_> = texts.into_iter().collect();
                texts.sort_unstable_by(|(left, left_count), (right, right_count)| {
                    right_count.cmp(left_count).then(left.cmp(right))
                });
                (digest, texts)
            })
            .collect();
        let total = |texts: &[Counted<'_>]| texts.iter().map(|(_, count)| count).sum::<u64>();
        all.sort_unstable_by(|left, right| total(&right.1).cmp(&total(&left.1)).then(left.0.cmp(&right.0)));
        for (digest, texts) in all {
            let count = total(&texts);
            let full = (choice.chosen.len() >= most_digests).then_some("beyond the limit of statements");
            let reason = texts.iter().find_map(|(text, _)| obstacle(text)).or(full);
            if let Some(reason) = reason {
                let one = choice.left_out.entry(reason).or_default();
                one.digests += 1;
                one.statements += count;
                continue;
            }
            choice.chosen.push(Chosen {
                fingerprint: fingerprint(digest.as_bytes()),
                digest,
                count,
                writes: texts.iter().any(|(text, _)| !class::is_read_only(text)),
                texts: texts.iter().take(most_texts).map(|(text, _)| text.to_vec()).collect(),
            });
        }
        choice
    }
}

impl Choice {
    /// Leaves out what does not only read.
    pub fn leave_out_writes(&mut self) {
        let (writing, reading) = std::mem::take(&mut self.chosen).into_iter().partition(|one| one.writes);
        self.chosen = reading;
        let writing: Vec<Chosen> = writing;
        if !writing.is_empty() {
            let one = self.left_out.entry("does not only read").or_default();
            one.digests += writing.len() as u64;
            one.statements += writing.iter().map(|one| one.count).sum::<u64>();
        }
    }
}

/// Why a statement is not compared.
fn obstacle(text: &[u8]) -> Option<&'static str> {
    const COMPARED: &[&str] = &[
        "SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "REPLACE",
    ];
    if class::is_administration(text) {
        return Some("administers the server");
    }
    if class::is_call(text) || class::is_execute(text) {
        return Some("calls a routine or a prepared statement");
    }
    if class::is_for_its_session(text) || class::is_of_the_session(text) {
        return Some("is for its session or its transaction alone");
    }
    let all: Vec<Token<'_>> = tokens(text).collect();
    let asks_for_the_last =
        |pair: &[Token<'_>]| pair[0].is_any(&["FOUND_ROWS", "ROW_COUNT", "LAST_INSERT_ID"]) && pair[1].is_symbol(b'(');
    if all.windows(2).any(asks_for_the_last) {
        return Some("depends on the statement before");
    }
    let mut parts = all.split(|token| token.is_symbol(b';')).filter(|part| !part.is_empty());
    let first = parts
        .next()
        .and_then(|part| part.iter().find(|token| !token.is_symbol(b'(')));
    if parts.next().is_some() {
        return Some("is several statements");
    }
    match first {
        Some(first) if first.kind == Kind::Word && first.is_any(COMPARED) => None,
        _ => Some("neither queries nor changes rows"),
    }
}

#[cfg(test)]
mod tests {
    use dyno_capture::{Event, Statement};

    use super::*;

    fn capture(texts: &[&str]) -> Capture {
        let mut capture = dyno_capture::read(&br#"{"record":"header","format":"dynoload-capture","format_version":1,"source":"general_log","resolution_us":1,"spread":false,"anonymised":false,"duration_us":0,"sessions":0,"peak_sessions":0,"events":0,"statements":0}"#[..]).unwrap();
        capture.events = texts
            .iter()
            .map(|text| Event {
                at_us: 0,
                session: 1,
                action: Action::Statement(Statement {
                    schema: Some("shop".into()),
                    text: text.as_bytes().to_vec(),
                    ..Statement::default()
                }),
            })
            .collect();
        capture
    }

    #[test]
    fn each_digest_has_its_most_frequent_texts() {
        let texts = [
            "SELECT a FROM t WHERE id = 1",
            "SELECT a FROM t WHERE id = 2",
            "SELECT a FROM t WHERE id = 2",
            "SELECT a FROM t WHERE id = 3",
            "UPDATE t SET a = 1 WHERE id = 9",
            "BEGIN",
            "COMMIT",
        ];
        let choice = Choice::of(&capture(&texts), 10, 2);
        let [select, update] = &choice.chosen[..] else {
            panic!("{choice:?}");
        };
        assert_eq!((select.count, select.writes), (4, false));
        assert_eq!(select.texts, [texts[1].as_bytes(), texts[0].as_bytes()]);
        assert_eq!((update.count, update.writes), (1, true));
        assert_eq!(choice.schemas, ["shop".to_string()].into());
        let of_session = choice.left_out["is for its session or its transaction alone"];
        assert_eq!((of_session.digests, of_session.statements), (2, 2));
    }

    #[test]
    fn a_statement_that_stands_for_its_digest_counts_as_often() {
        let mut capture = capture(&["SELECT a FROM t WHERE id = 1", "SELECT b FROM t"]);
        if let Action::Statement(statement) = &mut capture.events[1].action {
            statement.count = Some(900);
        }
        let counts: Vec<u64> = Choice::of(&capture, 10, 2).chosen.iter().map(|one| one.count).collect();
        assert_eq!(counts, [900, 1]);
    }

    #[test]
    fn what_cannot_be_repeated_alone_is_left_out() {
        for (text, reason) in [
            ("KILL 7", "administers the server"),
            ("CALL p(1)", "calls a routine or a prepared statement"),
            ("SET @a = 1", "is for its session or its transaction alone"),
            ("SELECT @a", "is for its session or its transaction alone"),
            ("SELECT FOUND_ROWS()", "depends on the statement before"),
            ("SELECT 1; SELECT 2", "is several statements"),
            ("CREATE TABLE t (a INT)", "neither queries nor changes rows"),
            ("SHOW TABLES", "neither queries nor changes rows"),
        ] {
            let choice = Choice::of(&capture(&[text]), 10, 2);
            assert!(choice.chosen.is_empty(), "{text}");
            assert_eq!(choice.left_out.keys().collect::<Vec<_>>(), [&reason], "{text}");
        }
        for text in ["(SELECT 1)", "WITH a AS (SELECT 1) SELECT * FROM a", "SELECT 1;"] {
            assert_eq!(Choice::of(&capture(&[text]), 10, 2).chosen.len(), 1, "{text}");
        }
    }

    #[test]
    fn the_rarest_are_beyond_the_limit() {
        let choice = Choice::of(&capture(&["SELECT 1", "SELECT 1", "SELECT a FROM t"]), 1, 2);
        assert_eq!(choice.chosen.len(), 1);
        assert_eq!(choice.left_out["beyond the limit of statements"].statements, 1);
    }
}
