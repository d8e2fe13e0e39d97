//! Conversations recorded with real servers: the client must send the same bytes, and understand the same answers.

mod common;

use std::sync::Arc;

use common::describe;
use dyno_mysql::{Connection, Detail, Endpoint, Event, Options, Statement, Value};

struct Recording {
    lines: Vec<(bool, Vec<u8>)>,
    next: usize,
}

impl Recording {
    fn parse(text: &str) -> Recording {
        let bytes = |hex: &str| {
            (0..hex.len() / 2)
                .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
                .collect::<Vec<u8>>()
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Recording {
            lines: lines.map(|line| (line.starts_with('C'), bytes(&line[2..]))).collect(),
            next: 0,
        }
    }

    /// The client has just given a command: what it sends must be as recorded; then the answer, in pieces.
    fn turn(&mut self, connection: &mut Connection, cut: usize, told: &mut Vec<String>) -> Option<Statement> {
        let mut statement = None;
        while let Some((from_client, bytes)) = self.lines.get(self.next) {
            if *from_client && connection.outgoing().is_empty() {
                break;
            }
            self.next += 1;
            if *from_client {
                assert_eq!(connection.outgoing(), bytes.as_slice());
                connection.sent(bytes.len());
                continue;
            }
            for mut input in bytes.chunks(cut) {
                while let Some(event) = connection.advance(&mut input).unwrap() {
                    match event {
                        Event::Columns(columns) => {
                            told.push(
                                columns
                                    .iter()
                                    .map(|column| column.name.as_str())
                                    .collect::<Vec<_>>()
                                    .join(","),
                            );
                        }
                        Event::Prepared(prepared) => statement = Some(prepared),
                        Event::Done(done) => told.push(format!("{} rows", done.rows)),
                        Event::Failed(error) => told.push(error.code.to_string()),
                        other => told.push(describe(&other)),
                    }
                }
            }
        }
        statement
    }
}

fn replay(text: &str, cut: usize) -> (Vec<String>, Connection) {
    let mut recording = Recording::parse(text);
    let mut connection = Connection::new(Arc::new(Options::new(Endpoint::unix("/recorded"), "root")));
    let mut told = Vec::new();
    recording.turn(&mut connection, cut, &mut told);
    connection
        .query(b"SELECT 1 AS one, NULL AS nothing, 'text' AS words", Detail::Rows)
        .unwrap();
    recording.turn(&mut connection, cut, &mut told);
    connection.prepare(b"SELECT ? + 1 AS next", Detail::Rows).unwrap();
    let mut statement = recording.turn(&mut connection, cut, &mut told).unwrap();
    for value in [41, 42] {
        connection
            .execute(&mut statement, &[Value::Int(value)], Detail::Rows)
            .unwrap();
        recording.turn(&mut connection, cut, &mut told);
    }
    connection.query(b"SELECT nope", Detail::Rows).unwrap();
    recording.turn(&mut connection, cut, &mut told);
    connection.quit().unwrap();
    recording.turn(&mut connection, cut, &mut told);
    assert_eq!(recording.next, recording.lines.len(), "the whole recording was used");
    (told, connection)
}

#[test]
fn recorded_conversations_go_the_same_way_again() {
    let expected = [
        "Ready",
        "one,nothing,words",
        "Row [Ok(Bytes([49])), Ok(Null), Ok(Bytes([116, 101, 120, 116]))]",
        "1 rows",
        "next",
        "Row [Ok(Int(42))]",
        "1 rows",
        "next",
        "Row [Ok(Int(43))]",
        "1 rows",
        "1054",
    ];
    for (text, version) in [
        (include_str!("recorded/mariadb-10.11.txt"), "10.11.19-MariaDB-0+deb12u1"),
        (include_str!("recorded/mysql-9.7.txt"), "9.7.4-2"),
        (include_str!("recorded/mysql-5.5.txt"), "5.5.9"),
    ] {
        for cut in [1, 2, 3, 5, 1000] {
            let (told, connection) = replay(text, cut);
            assert_eq!(told, expected, "server {version}, pieces of {cut}");
            let server = connection.server().unwrap();
            assert_eq!(
                (server.version.as_str(), server.is_mariadb),
                (version, version.contains("MariaDB"))
            );
        }
    }
}
