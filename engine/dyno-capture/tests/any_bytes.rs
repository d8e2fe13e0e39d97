//! Whatever a log, a dump or a statement holds, the readers end without a panic, and give no more than they were given.
//!
//! With MYDYNO_TEST_ALL=1 many examples are tried, otherwise few.

use std::path::Path;

use dyno_capture::statements::Statements;
use dyno_capture::{
    class, digest, extent, fingerprint, lexer, needs_default_schema, nondeterministic, reach, Anonymiser, Assembler,
    LogKind, LogReader, Origin, Selection, UniqueKeys, KEY_BYTES,
};
use proptest::prelude::*;

/// Pieces that change the state of a reader.
const PIECES: &[&str] = &[
    "'",
    "\"",
    "`",
    "\\",
    "--",
    "-- ",
    "#",
    "/*",
    "/*!",
    "/*+",
    "*/",
    ";",
    "\n",
    "\r\n",
    "\0",
    "(",
    ")",
    "{",
    "}",
    "?",
    ",",
    ".",
    "@",
    "@@global.",
    "x'",
    "b'",
    "0x",
    "1e",
    "é",
    "王",
    "\u{feff}",
    "DELIMITER //\n",
    "//",
    "SET ",
    "CREATE TABLE t (a ",
    "ENUM(",
    "DEFINER=",
    "INSERT INTO a.b VALUES (",
    "USE ",
    "# Time: ",
    "# User@Host: a[a] @ b []  Id: 3\n",
    "# Query_time: 0.1\n",
    "SET timestamp=1;\n",
    "2026-11-23T10:00:00.000001Z\t    7 Query\t",
    "261123  9:41:03\t     3 Connect\t",
    "\t\t     3 Quit\t\n",
    "'2026-11-23 10:30:00.5'",
    "'{\"a\": [1, \"b\"]}'",
    "'$.a[0]'",
    "'10.0.0.1'",
    "'fe80::1'",
    "'%d.%m'",
    "STR_TO_DATE(",
    "REGEXP ",
    "PREPARE p FROM ",
    "LIMIT ",
    "mysql.rds_heartbeat2",
];

/// A text of pieces and of any bytes.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => "[a-z0-9 ]{0,12}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn config() -> ProptestConfig {
    let is_all = std::env::var("MYDYNO_TEST_ALL").is_ok_and(|value| value == "1");
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if is_all { 3_000 } else { 100 })
    }
}

fn read_log(kind: LogKind, bytes: &[u8]) {
    let mut assembler = Assembler::new(Origin {
        source: kind.source(),
        time_is_end: kind == LogKind::Slow,
    });
    assembler.select(Selection {
        users: Vec::new(),
        schemas: vec!["a".into()],
    });
    let mut log = LogReader::new(kind, &[]);
    log.read(bytes, &mut assembler).unwrap();
    let mut capture = assembler.finish();
    Anonymiser::new([1; KEY_BYTES]).capture(&mut capture);
    let mut written = Vec::new();
    dyno_capture::write(&capture, &mut written).unwrap();
    assert_eq!(dyno_capture::read(&written[..]).unwrap(), capture);
}

fn read_statement(text: &[u8]) {
    let mut end = 0;
    for token in lexer::tokens(text) {
        assert!(token.start >= end && !token.text.is_empty());
        end = token.start + token.text.len();
    }
    assert!(end <= text.len());
    for schema in reach::named_schemas(text) {
        assert!(schema.range.end <= text.len());
    }
    let mut anonymiser = Anonymiser::new([1; KEY_BYTES]);
    anonymiser.keep_members(text);
    let made = anonymiser.statement(text);
    assert!(made.len() <= 4 * text.len() + 16, "{} of {}", made.len(), text.len());
    let _ = (
        reach::beyond(text),
        reach::definer(text),
        class::is_read_only(text),
        digest(text),
        fingerprint(text),
    );
    let _ = (
        lexer::is_cut(text),
        needs_default_schema(text),
        nondeterministic(text, &UniqueKeys::new(), &extent(text), 1),
        class::named(text),
    );
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn statements_and_dumps_of_any_bytes_are_read(bytes in content()) {
        read_statement(&bytes);
        let mut statements = Statements::new(&bytes[..]);
        while let Ok(Some(statement)) = statements.next_statement() {
            assert_eq!(&bytes[statement.start..statement.start + statement.text.len()], &statement.text[..]);
            read_statement(&statement.text);
        }
    }

    #[test]
    fn logs_of_any_bytes_are_read(bytes in content()) {
        read_log(LogKind::General, &bytes);
        read_log(LogKind::Slow, &bytes);
        let _ = dyno_capture::read(&bytes[..]);
    }

    #[test]
    fn damaged_logs_are_read(changes in prop::collection::vec((any::<prop::sample::Index>(), content()), 1..5)) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let (index, _) = &changes[0];
        let mut bytes = std::fs::read(index.get(&files)).unwrap();
        for (index, piece) in &changes {
            let place = index.index(bytes.len());
            bytes.splice(place..(place + piece.len()).min(bytes.len()), piece.iter().copied());
        }
        read_log(LogKind::General, &bytes);
        read_log(LogKind::Slow, &bytes);
    }
}
