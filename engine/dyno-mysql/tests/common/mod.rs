//! What the tests share: a server's side of the protocol written out by hand, and the real server when there is one.
#![allow(dead_code)] // each test program uses its own part

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use dyno_mysql::blocking::Client;
use dyno_mysql::constants::capability;
use dyno_mysql::{Connection, Detail, Endpoint, Event, Options, Value};

/// One packet.
pub fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32 | (sequence as u32) << 24).to_le_bytes().to_vec();
    out.extend_from_slice(payload);
    out
}

/// A greeting with these capabilities (MySQL's own, not MariaDB's extended ones).
pub fn greeting(capabilities: u64) -> Vec<u8> {
    let mut out = b"\x0a8.0.99\0\x05\0\0\0abcdefgh\0".to_vec();
    out.extend_from_slice(&(capabilities as u16).to_le_bytes());
    out.extend_from_slice(&[45, 2, 0]);
    out.extend_from_slice(&((capabilities >> 16) as u16).to_le_bytes());
    out.push(21);
    out.extend_from_slice(&[0; 6]);
    out.extend_from_slice(&((capabilities >> 32) as u32).to_le_bytes());
    out.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
    packet(0, &out)
}

pub const BASE: u64 = capability::PROTOCOL_41
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH
    | capability::MULTI_STATEMENTS
    | capability::MULTI_RESULTS;

pub const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

/// A column definition.
pub fn column(name: &str, kind: u8) -> Vec<u8> {
    let mut out = b"\x03def\x04test\x01t\x01t".to_vec();
    for _ in 0..2 {
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
    }
    out.extend_from_slice(&[12, 45, 0, 255, 0, 0, 0, kind, 0, 0, 0, 0, 0]);
    out
}

/// The end of rows, in either form.
pub fn end(deprecate_eof: bool, more: bool) -> Vec<u8> {
    let status = 2 | if more { 8 } else { 0 };
    match deprecate_eof {
        true => vec![0xfe, 0, 0, status, 0, 0, 0],
        false => vec![0xfe, 0, 0, status, 0],
    }
}

/// A result set, its packets numbered from `sequence`; gives the number after the last.
pub fn result_set(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    deprecate_eof: bool,
    columns: usize,
    rows: &[Vec<u8>],
    more: bool,
) {
    let mut put = |payload: &[u8]| {
        out.extend_from_slice(&packet(*sequence, payload));
        *sequence = sequence.wrapping_add(1);
    };
    put(&[columns as u8]);
    for index in 0..columns {
        put(&column(&format!("c{index}"), 253));
    }
    if !deprecate_eof {
        put(&end(false, false));
    }
    for row in rows {
        put(row);
    }
    put(&end(deprecate_eof, more));
}

/// A connection that has logged in to a server with these capabilities.
pub fn logged_in(capabilities: u64) -> Connection {
    let mut connection = Connection::new(Arc::new(Options::new(Endpoint::tcp("127.0.0.1", 1), "user")));
    let bytes = greeting(capabilities);
    let mut input = bytes.as_slice();
    assert!(connection.advance(&mut input).unwrap().is_none());
    assert!(!connection.outgoing().is_empty());
    connection.sent(connection.outgoing().len());
    let bytes = packet(2, OK);
    let mut input = bytes.as_slice();
    assert!(matches!(connection.advance(&mut input).unwrap(), Some(Event::Ready)));
    assert!(input.is_empty());
    connection
}

/// An event as text, rows decoded, so that two ways of getting events can be compared.
pub fn describe(event: &Event<'_>) -> String {
    match event {
        Event::Row(row) => {
            let values: Vec<Result<Value<'_>, String>> = row
                .values()
                .map(|value| value.map_err(|error| error.to_string()))
                .collect();
            format!("Row {values:?}")
        }
        other => format!("{other:?}"),
    }
}

/// All events in `bytes`, given in the pieces that `cuts` makes; the error, when one comes, is the last.
pub fn events(connection: &mut Connection, bytes: &[u8], mut next_cut: impl FnMut() -> usize) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(next_cut().clamp(1, rest.len()));
        let mut input = piece;
        loop {
            match connection.advance(&mut input) {
                Ok(Some(event)) => out.push(describe(&event)),
                Ok(None) => break,
                Err(error) => {
                    out.push(format!("error: {error}"));
                    return out;
                }
            }
        }
        assert!(input.is_empty(), "advance gave None and left {} bytes", input.len());
        rest = after;
    }
    out
}

/// The detail level as a test parameter.
pub fn detail(rows: bool) -> Detail {
    if rows {
        Detail::Rows
    } else {
        Detail::Skip
    }
}

// The real server

/// Says something that the test harness does not swallow.
pub fn aloud(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A setting of the environment; when it is missing, says aloud which test did not run.
pub fn setting(name: &str, test: &str) -> Option<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    if value.is_none() {
        aloud(&format!(
            "NOT RUN: {test}: {name} is not set (./test sets it with a server of its own)"
        ));
    }
    value
}

pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Root's options over the server's socket.
pub fn by_socket(test: &str) -> Option<Options> {
    Some(Options::new(
        Endpoint::unix(setting("DYNO_TEST_SERVER_SOCKET", test)?),
        "root",
    ))
}

/// Where the server listens on TCP.
pub fn by_tcp(test: &str, user: &str) -> Option<Options> {
    let port = setting("DYNO_TEST_SERVER_PORT", test)?
        .parse()
        .expect("DYNO_TEST_SERVER_PORT is a port number");
    Some(Options::new(Endpoint::tcp("127.0.0.1", port), user))
}

pub fn connect(options: &Options) -> Client {
    match Client::connect(options, TIMEOUT) {
        Ok(client) => client,
        Err(error) => panic!("cannot connect to {}: {error}", options.endpoint),
    }
}

/// Makes the account anew for both ways in, with this clause after its name.
pub fn make_account(root: &mut Client, user: &str, clause: &str) {
    for host in ["localhost", "127.0.0.1"] {
        // MySQL before 5.7 knows no IF EXISTS here.
        let _ = root.exec(&format!("DROP USER {user}@'{host}'"));
        root.exec(&format!("CREATE USER {user}@'{host}' {clause}")).unwrap();
    }
}

/// Takes the account away.
pub fn drop_account(root: &mut Client, user: &str) {
    root.exec(&format!("DROP USER {user}@localhost, {user}@'127.0.0.1'"))
        .unwrap();
}

/// Says aloud which test this server cannot run, and why.
pub fn not_run(test: &str, client: &Client, why: &str) {
    aloud(&format!(
        "NOT RUN: {test}: server {} {why}",
        client.connection().server().unwrap().version
    ));
}

/// The server's counter for this session.
pub fn status(client: &mut Client, name: &str) -> u64 {
    let result = client.query(&format!("SHOW SESSION STATUS LIKE '{name}'")).unwrap();
    result.texts()[0][1].as_ref().unwrap().parse().unwrap()
}
