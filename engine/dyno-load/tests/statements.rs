//! `dynoload statements`: what it refuses, and its records of servers that do no work.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{parse, NullServer, Run, PROGRAM};
use serde_json::{json, Value};

/// A capture of these statements, removed at the end.
struct CaptureFile(PathBuf);

impl CaptureFile {
    fn new(name: &str, statements: &[&str]) -> Self {
        let path = std::env::temp_dir().join(format!("dynoload-{name}-{}.capture", std::process::id()));
        let header = json!({
            "record": "header", "format": "dynoload-capture", "format_version": 1, "source": "general_log",
            "resolution_us": 1, "spread": false, "anonymised": false, "duration_us": 0, "sessions": 1,
            "peak_sessions": 1, "events": statements.len(), "statements": statements.len(),
        });
        let events = statements.iter().enumerate().map(|(place, text)| {
            json!({ "record": "statement", "at_us": place, "session": 1, "schema": "sbtest", "text": text })
        });
        let lines: Vec<String> = std::iter::once(header)
            .chain(events)
            .map(|line| line.to_string())
            .collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        Self(path)
    }
}

impl Drop for CaptureFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn compare(capture: &CaptureFile, servers: &[String], more: &[&str]) -> Run {
    let mut run = Command::new(PROGRAM);
    run.arg("statements").arg(&capture.0);
    run.args(servers.iter().flat_map(|server| ["--server", server]));
    parse(run.args(more).output().unwrap())
}

fn named(name: &str, server: &NullServer) -> String {
    format!("{name} --port={} --database=sbtest", server.port())
}

#[test]
fn each_statement_is_visited_on_every_server() {
    let servers = [NullServer::start(), NullServer::start()];
    let capture = CaptureFile::new("visits", &["SELECT 1", "SELECT 2", "SELECT a FROM t", "COMMIT"]);
    let run = compare(
        &capture,
        &[named("old", &servers[0]), named("new", &servers[1])],
        &["--duration", "500ms"],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let of = |kind: &str| -> Vec<&Value> { run.records.iter().filter(|record| record["record"] == kind).collect() };
    assert_eq!(of("header")[0]["statements"], 2);
    assert_eq!(
        of("header")[0]["left_out"],
        json!({ "is for its session or its transaction alone": { "digests": 1, "statements": 1 } })
    );
    assert_eq!(of("once").len(), 3, "of each text");
    for statement in [0, 1] {
        let visits: Vec<&Value> = of("visit")
            .into_iter()
            .filter(|visit| visit["statement"] == statement)
            .collect();
        assert!(visits.len() > 3, "{visits:?}");
        for visit in visits {
            let service = visit["service_us"].as_array().unwrap();
            assert!(
                service.len() == 2 && service.iter().all(|us| us.as_f64().unwrap() > 0.0),
                "{visit}"
            );
            assert_eq!(visit["cpu_us"], Value::Null, "without --pid");
        }
    }
    assert_eq!(run.last()["record"], "end");
}

#[test]
fn what_cannot_be_compared_is_refused_before_any_statement() {
    let server = NullServer::start();
    let (some, none, mixed) = (
        CaptureFile::new("some", &["SELECT 1"]),
        CaptureFile::new("none", &["COMMIT"]),
        CaptureFile::new("mixed", &["SELECT 'é'", "SET NAMES latin1", "SELECT 'é'"]),
    );
    let (old, new) = (named("old", &server), named("new", &server));
    for (capture, servers, words) in [
        (&some, vec![old.clone()], "at least twice"),
        (&some, vec![old.clone(), old.clone()], "the same name"),
        (
            &none,
            vec![old.clone(), new.clone()],
            "no statement to compare: 1 is for its session",
        ),
        (
            &mixed,
            vec![old.clone(), new.clone()],
            "2 character sets (latin1, utf8mb4), and a comparison has one",
        ),
        (&some, vec![old.clone(), "new --prot=1".to_string()], "--prot"),
        (&some, vec![old.clone(), "new 'a".to_string()], "quotes that do not end"),
    ] {
        let run = compare(capture, &servers, &[]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
}
