//! Logs that real servers have written of one workload: the sessions, their order and their statements are those sent.
//!
//! The workload has several sessions at a time, transactions, statements of several lines, comments, errors, bytes that are
//! no UTF-8, prepared statements by the protocol and by name, another default schema, several statements in one text, a
//! reset, a session that is killed, a refused login, and a text with lines that look like entries of a log. In the logs,
//! only the server's paths were replaced.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_capture::{Action, Assembler, Capture, LogKind, LogReader, Origin, Problem};

const NAMES: &str = "SET NAMES utf8mb4";
/// A text that a log with whole seconds cannot tell from entries.
const LOOK_ALIKE: &str = "SELECT 'a text with\n# Time: 261123 10:00:00\n# User@Host: x[x] @ y []\nSET timestamp=5;\nuse other;\n261123 10:00:00\t   99 Query\tSELECT 99\n\t\t   98 Quit\t\nin it'";
const WRONG: &str = "SELEC 1";
const PREPARE: &str = "PREPARE p FROM 'SELECT COUNT(*) FROM item WHERE stock > ?'";
const EXECUTE: &str = "EXECUTE p USING @limit";
const EXECUTED: &str = "SELECT COUNT(*) FROM item WHERE stock > 15";
const DEALLOCATE: &str = "DEALLOCATE PREPARE p";

fn sent(long: &str) -> [Vec<&str>; 5] {
    [
        vec![
            NAMES,
            NAMES,
            "BEGIN",
            "UPDATE item SET stock = stock - 1,\n       note = 'it''s \"this\" -- not a comment; # nor this'  -- but this is\n  /* of\nseveral lines; */\nWHERE id = 1",
            "INSERT INTO sale VALUES (7, 1)",
            "COMMIT",
            "INSERT INTO item VALUES (1, 0, 'again')",
            "INSERT INTO item VALUES (10, 1, 'grüße 中文 😀')",
            "INSERT INTO item VALUES (11, 1, 'zero \0 within')",
            "INSERT INTO raw VALUES (1, x'00ff', _binary'\u{ff}\u{fe}\0\u{80}')",
            "SELECT id, note FROM item WHERE id = 1 AND note <> 'it\\'s \\\\ \\n?'",
            "SELECT id, note FROM item WHERE id = 10 AND note <> NULL",
            "ROLLBACK",
        ],
        vec![
            NAMES,
            "SELECT id, note\n\tFROM item\n\n  WHERE note LIKE '%''s%'\n\t\t ORDER BY id",
            "SELECT * FROM missing",
            WRONG,
            LOOK_ALIKE,
            "/*!40101 SET @x = 1 */",
            "SELECT 1",
            "SELECT\t2",
            PREPARE,
            "SET @limit = 15",
            EXECUTE,
            DEALLOCATE,
            "KILL",
            "CALL restock(2)",
            "SELECT 9",
        ],
        vec![NAMES, "SELECT 3", "SELECT id FROM t", "SELECT COUNT(*) FROM item"],
        vec![NAMES, "SELECT 5", "SELECT 6", long, "SELECT 7"],
        vec![NAMES, "BEGIN", "UPDATE item SET stock = 0 WHERE id = 3"],
    ]
}

fn read(name: &str) -> Capture {
    let log = std::fs::read(Path::new("tests/logs").join(name)).unwrap();
    let kind = LogKind::recognise(&log).unwrap();
    let mut assembler = Assembler::new(Origin {
        source: kind.source(),
        time_is_end: kind == LogKind::Slow,
    });
    assembler.enter(name);
    let mut reader = LogReader::new(kind, &[]);
    reader.read(&log[..], &mut assembler).unwrap();
    assembler.finish()
}

/// The statements of each session, in the order of their numbers; without the one that has set the log up, and without
/// what the text that looks like entries has made.
fn statements(capture: &Capture) -> Vec<Vec<String>> {
    let mut sessions: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for event in &capture.events {
        if let Action::Statement(statement) = &event.action {
            let text = match std::str::from_utf8(&statement.text) {
                Ok(text) => text.to_string(),
                Err(_) => statement.text.iter().map(|byte| char::from(*byte)).collect(),
            };
            let text = text.trim_end_matches(';').to_string();
            let is_kill = text.starts_with("KILL ");
            let text = if is_kill { "KILL".into() } else { text };
            let texts = sessions.entry(event.session).or_default();
            if text == "SELECT 5; SELECT 6" {
                // MySQL 5.5 logs the text as it was sent.
                texts.extend(["SELECT 5".to_string(), "SELECT 6".to_string()]);
            } else {
                texts.push(text);
            }
        }
    }
    sessions
        .into_values()
        .filter(|texts| !texts[0].starts_with("SELECT 99") && !texts[0].starts_with("SET GLOBAL"))
        .collect()
}

/// Which statements a server logs otherwise than they were sent.
#[derive(Debug, Clone, Copy, Default)]
struct Logged {
    /// Not those that it cannot parse.
    without_wrong: bool,
    /// PREPARE without its text: the executed statement is captured.
    without_prepared_text: bool,
    /// The executed statement instead of EXECUTE.
    executed: bool,
    /// Times with which nothing in a text can be taken for an entry.
    look_alike: bool,
}

fn check(name: &str, logged: Logged) -> Capture {
    let capture = read(name);
    let long = format!("SELECT LENGTH('{}') AS long_one", "long ".repeat(230));
    let expected = sent(&long).map(|texts| {
        let of_log = |text: &&str| match *text {
            WRONG if logged.without_wrong => None,
            LOOK_ALIKE if !logged.look_alike => None,
            PREPARE | DEALLOCATE if logged.without_prepared_text => None,
            EXECUTE if logged.without_prepared_text || logged.executed => Some(EXECUTED.to_string()),
            text => Some(text.to_string()),
        };
        texts.iter().filter_map(of_log).collect::<Vec<String>>()
    });
    let found = statements(&capture);
    assert_eq!(found.len(), expected.len(), "{name}: sessions");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{name}");
    }
    assert!(
        capture.header.duration_us < 60_000_000,
        "{name}: {} µs",
        capture.header.duration_us
    );
    let schema_of = |wanted: &str| {
        capture.events.iter().find_map(|event| match &event.action {
            Action::Statement(statement) if statement.text == wanted.as_bytes() => statement.schema.clone(),
            _ => None,
        })
    };
    assert_eq!(schema_of("SELECT id FROM t").as_deref(), Some("other"), "{name}");
    assert_eq!(
        schema_of("SELECT COUNT(*) FROM item").as_deref(),
        Some("shop"),
        "{name}"
    );
    capture
}

fn count(capture: &Capture, is_counted: impl Fn(&Action) -> bool) -> usize {
    capture.events.iter().filter(|event| is_counted(&event.action)).count()
}

#[test]
fn general_logs_have_whole_sessions() {
    let old = Logged::default();
    let rewritten = Logged {
        without_wrong: true,
        without_prepared_text: true,
        ..old
    };
    let exact = Logged {
        look_alike: true,
        ..rewritten
    };
    for (name, logged) in [
        ("mysql-5.5-general.log", old),
        ("mysql-5.6-general.log", rewritten),
        ("mysql-9.7-general.log", exact),
        ("mariadb-11.4-general.log", old),
    ] {
        let capture = check(name, logged);
        assert_eq!(
            count(&capture, |action| matches!(action, Action::Connect { .. })),
            5,
            "{name}"
        );
        // The killed session has no Quit.
        assert_eq!(count(&capture, |action| *action == Action::Quit), 4, "{name}");
        let refused = capture
            .header
            .problems
            .iter()
            .find(|seen| seen.problem == Problem::RefusedConnection);
        assert_eq!(refused.map(|seen| seen.count), Some(1), "{name}");
    }
}

#[test]
fn slow_logs_have_what_was_executed() {
    let executed = Logged {
        executed: true,
        ..Logged::default()
    };
    let rewritten = Logged {
        without_wrong: true,
        without_prepared_text: true,
        ..Logged::default()
    };
    for (name, logged, quits, resets) in [
        ("mysql-5.6-slow.log", executed, 4, 0),
        ("mysql-9.7-slow.log", rewritten, 4, 1),
        ("mariadb-11.4-slow.log", executed, 0, 0),
    ] {
        let capture = check(name, logged);
        assert_eq!(count(&capture, |action| *action == Action::Quit), quits, "{name}");
        assert_eq!(
            count(&capture, |action| matches!(action, Action::Reset { .. })),
            resets,
            "{name}"
        );
        assert!(capture.events.iter().any(
            |event| matches!(&event.action, Action::Statement(statement) if statement.duration_us.is_some_and(|us| us > 0))
        ));
    }
}

#[test]
fn a_slow_log_without_numbers_of_connections_is_no_capture() {
    let capture = read("mysql-5.5-slow.log");
    assert_eq!(capture.header.statements, 0);
    let problems: Vec<Problem> = capture.header.problems.iter().map(|seen| seen.problem).collect();
    assert_eq!(problems, [Problem::NoConnection]);
}

/// log_slow_verbosity = full: lines of the heading that only this setting makes, a restart of the server, and statements
/// with lines that begin as the heading's do.
#[test]
fn a_slow_log_of_full_verbosity_has_the_statements_alone() {
    let capture = read("mariadb-10.11-slow-full.log");
    let found = statements(&capture).concat();
    let expected = [
        "BEGIN",
        "UPDATE account SET balance = balance - 10, changed = NOW() WHERE id = 1",
        "UPDATE account SET balance = balance + 10, changed = NOW() WHERE id = 2",
        "COMMIT",
        "SELECT a.id, b.id FROM account a JOIN account b ON a.balance > b.balance ORDER BY a.changed",
        "SELECT 'a text with\n# explain: 1\tSIMPLE\n#\n# Time: of no entry\n# Pages_read_time: 1\nin it'",
        "# a comment before the statement",
        "SELECT 1",
        "BEGIN",
        "# a comment before another one",
        "INSERT INTO account VALUES (3, 5, NOW())",
        "ROLLBACK",
    ];
    assert_eq!(found[found.len() - expected.len()..], expected);
    assert_eq!(capture.header.duration_us / 1_000_000, 5);
}
