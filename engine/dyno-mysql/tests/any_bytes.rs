//! Whatever a server sends, cut wherever the network cuts it: the same events as in one piece, or an error; no panic.
//!
//! Hostile servers that send without end: what a connection keeps of it is bounded, and the error names the bound.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use common::{column, describe, detail, end, events, greeting, logged_in, packet, result_set, BASE};
use dyno_mysql::blocking::Client;
use dyno_mysql::constants::capability::{
    COMPRESS, CONNECT_ATTRS, DEPRECATE_EOF, MARIADB_CACHE_METADATA, PLUGIN_AUTH_LENENC_DATA, SSL, ZSTD_COMPRESSION,
};
use dyno_mysql::{
    Compression, Connection, Detail, Endpoint, Error, Event, Options, Phase, TlsContext, TlsMode, TlsOptions,
};
use proptest::prelude::*;

/// A text row of one value for each entry.
fn text_row(values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        match value {
            None => out.push(0xfb),
            Some(bytes) => {
                out.extend_from_slice(&[0xfc, bytes.len() as u8, (bytes.len() >> 8) as u8]);
                out.extend_from_slice(bytes);
            }
        }
    }
    out
}

/// MySQL 8.0.31 announces a definition for `ORDER BY ?` that it does not send; what ends them is read.
#[test]
fn definitions_of_a_prepared_statement_may_be_fewer_than_announced() {
    for with_rows in [false, true] {
        let mut reply = packet(1, &[0, 7, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0]);
        for (sequence, payload) in (2..).zip([end(false, false), column("id", 3), end(false, false)]) {
            reply.extend_from_slice(&packet(sequence, &payload));
        }
        let mut connection = logged_in(BASE);
        connection
            .prepare(b"SELECT id FROM t ORDER BY ?", detail(with_rows))
            .unwrap();
        let events = events(&mut connection, &reply, || usize::MAX);
        assert!(
            matches!(&events[..], [one] if one.starts_with("Prepared")),
            "{events:?}"
        );
        assert_eq!(connection.outstanding(), 0);
    }
}

/// Gives garbage to a connection, and goes on giving after an error: it may be of no use, but it must not panic.
fn hammer(connection: &mut Connection, bytes: &[u8], cut: usize) {
    for piece in bytes.chunks(cut) {
        events(connection, piece, || usize::MAX);
    }
}

type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn rows(columns: usize) -> impl Strategy<Value = Rows> {
    let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300));
    proptest::collection::vec(proptest::collection::vec(value, columns), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_reply_cut_anywhere_gives_the_same_events_as_in_one_piece(
        first in rows(2), second in rows(3), deprecate_eof: bool, with_rows: bool, fails: bool,
        cuts in proptest::collection::vec(1usize..40, 1..20),
    ) {
        let (mut reply, mut sequence) = (Vec::new(), 1);
        let encode = |rows: &Rows| rows.iter().map(|row| text_row(row)).collect::<Vec<_>>();
        result_set(&mut reply, &mut sequence, deprecate_eof, 2, &encode(&first), true);
        if fails {
            reply.extend_from_slice(&packet(sequence, b"\xff\xbd\x04#40001deadlock"));
        } else {
            result_set(&mut reply, &mut sequence, deprecate_eof, 3, &encode(&second), false);
        }
        let flags = BASE | if deprecate_eof { DEPRECATE_EOF } else { 0 };
        let run = |cuts: Vec<usize>| {
            let mut connection = logged_in(flags);
            connection.query(b"SELECT 1; SELECT 2", detail(with_rows)).unwrap();
            let mut cuts = cuts.into_iter().cycle();
            let events = events(&mut connection, &reply, || cuts.next().unwrap());
            (events, connection.outstanding(), *connection.counters())
        };
        let whole = run(vec![usize::MAX]);
        prop_assert_eq!(&whole, &run(cuts));
        prop_assert_eq!(&whole, &run(vec![1]));
        prop_assert_eq!(whole.1, 0);
        let told = |rows: &Rows| if with_rows { rows.len() + 2 } else { 1 };
        prop_assert_eq!(whole.0.len(), told(&first) + if fails { 1 } else { told(&second) });
        let expected = format!("rows: {}, ", first.len());
        prop_assert!(whole.0[told(&first) - 1].contains(&expected), "{:?}", whole.0);
    }

    #[test]
    fn garbage_in_answer_to_a_command_is_an_error_or_an_event(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), prepare: bool, with_rows: bool, flags: u64, cut in 1usize..50,
    ) {
        let mut connection = logged_in(BASE | flags & DEPRECATE_EOF);
        match prepare {
            true => connection.prepare(b"SELECT ?", detail(with_rows)).unwrap(),
            false => connection.query(b"SELECT 1", detail(with_rows)).unwrap(),
        }
        hammer(&mut connection, &bytes, cut);
    }

    /// Garbage with right headers reaches deeper than garbage without.
    #[test]
    fn packets_of_garbage_are_an_error_or_an_event(
        payloads in proptest::collection::vec(proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..4, 250u8..=255], 0..30), 1..12),
        prepare: bool, with_rows: bool, deprecate_eof: bool, cut in 1usize..50,
    ) {
        let mut connection = logged_in(BASE | if deprecate_eof { DEPRECATE_EOF } else { 0 });
        match prepare {
            true => connection.prepare(b"SELECT ?", detail(with_rows)).unwrap(),
            false => connection.query(b"SELECT 1", detail(with_rows)).unwrap(),
        }
        let bytes: Vec<u8> = payloads.iter().enumerate().flat_map(|(i, payload)| packet(i as u8 + 1, payload)).collect();
        hammer(&mut connection, &bytes, cut);
    }

    /// A good reply with a few bytes changed or cut off.
    #[test]
    fn a_damaged_reply_is_an_error_or_an_event(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        keep: prop::sample::Index, deprecate_eof: bool, with_rows: bool,
    ) {
        let mut bytes = Vec::new();
        let row = text_row(&[Some(vec![7; 20]), None]);
        result_set(&mut bytes, &mut 1, deprecate_eof, 2, &vec![row; 5], false);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(keep.index(bytes.len()) + 1);
        let mut connection = logged_in(BASE | if deprecate_eof { DEPRECATE_EOF } else { 0 });
        connection.query(b"SELECT 1", detail(with_rows)).unwrap();
        hammer(&mut connection, &bytes, 11);
    }

    #[test]
    fn garbage_in_the_connection_phase_is_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), flags: u64, tls: bool, compression in 0..3, good_greeting: bool,
    ) {
        let mut options = Options::new(Endpoint::tcp("127.0.0.1", 1), "user");
        if tls {
            let wish = TlsOptions { mode: TlsMode::Required, ..TlsOptions::default() };
            options.tls = TlsContext::new(&wish).unwrap();
        }
        options.compression =
            [Compression::Off, Compression::Zlib { level: 1 }, Compression::Zstd { level: 1 }][compression as usize];
        let mut connection = Connection::new(Arc::new(options));
        let known = SSL | COMPRESS | ZSTD_COMPRESSION | DEPRECATE_EOF | CONNECT_ATTRS | PLUGIN_AUTH_LENENC_DATA
            | MARIADB_CACHE_METADATA | 1;
        if good_greeting {
            events(&mut connection, &greeting(BASE | flags & known), || 17);
        }
        let told = events(&mut connection, &bytes, || 13);
        prop_assert!(told.iter().all(|text| text.starts_with("error") || text == "Ready"), "{:?}", told);
    }
}

#[test]
fn rows_that_start_like_an_end_are_rows() {
    // A text value of 16 MiB and more starts with 0xfe too; only the packet's length tells it from the end.
    let length = 0xff_ffff + 10;
    let mut value = vec![0xfe];
    value.extend_from_slice(&(length as u64).to_le_bytes());
    value.resize(value.len() + length, b'x');
    for deprecate_eof in [true, false] {
        for with_rows in [true, false] {
            let (mut reply, mut sequence) = (Vec::new(), 1);
            result_set(&mut reply, &mut sequence, deprecate_eof, 1, &[], false);
            let end_length = end(deprecate_eof, false).len() + 4;
            reply.truncate(reply.len() - end_length);
            sequence -= 1;
            for piece in [&value[..0xff_ffff], &value[0xff_ffff..], &end(deprecate_eof, false)] {
                reply.extend_from_slice(&packet(sequence, piece));
                sequence += 1;
            }
            let mut connection = logged_in(BASE | if deprecate_eof { DEPRECATE_EOF } else { 0 });
            connection.query(b"SELECT 1", detail(with_rows)).unwrap();
            let told = events(&mut connection, &reply, || 60_000);
            assert!(
                told.last().unwrap().contains("rows: 1,"),
                "{:.200}",
                told.last().unwrap()
            );
            assert_eq!(connection.counters().packets_in, 2 + 2 + 3 + !deprecate_eof as u64);
        }
    }
}

#[test]
fn a_row_of_exactly_the_packet_limit_is_one_row() {
    let mut reply = packet(1, &[1]);
    reply.extend_from_slice(&packet(2, &common::column("c", 253)));
    let mut row = vec![0xfd, 0xfb, 0xff, 0xff];
    row.resize(0xff_ffff, b'x');
    reply.extend_from_slice(&packet(3, &row));
    reply.extend_from_slice(&packet(4, &[]));
    reply.extend_from_slice(&packet(5, &end(true, false)));
    for with_rows in [true, false] {
        let mut connection = logged_in(BASE | DEPRECATE_EOF);
        connection.query(b"SELECT 1", detail(with_rows)).unwrap();
        let told = events(&mut connection, &reply, || 1 << 16);
        assert!(
            told.last().unwrap().contains("rows: 1,"),
            "{:.200}",
            told.last().unwrap()
        );
    }
}

#[test]
fn several_commands_may_be_outstanding() {
    let mut connection = logged_in(BASE | DEPRECATE_EOF);
    connection.query(b"BEGIN", Detail::Skip).unwrap();
    connection.query(b"SELECT 1", Detail::Skip).unwrap();
    connection.ping().unwrap();
    assert_eq!(connection.outstanding(), 3);
    let mut reply = packet(1, common::OK);
    result_set(&mut reply, &mut 1, true, 1, &[vec![1, b'1']], false);
    reply.extend_from_slice(&packet(1, common::OK));
    let told = events(&mut connection, &reply, || 5);
    assert_eq!((told.len(), connection.outstanding()), (3, 0));
    assert!(told[1].contains("rows: 1,"));
}

#[test]
fn a_packet_out_of_order_is_an_error() {
    let mut connection = logged_in(BASE);
    connection.ping().unwrap();
    let told = events(&mut connection, &packet(2, common::OK), || 100);
    assert!(told[0].contains("packet number 2 came where 1 belongs"), "{told:?}");
}

#[test]
fn an_error_packet_that_nobody_asked_for_ends_the_connection() {
    let mut connection = logged_in(BASE);
    let told = events(
        &mut connection,
        &packet(9, b"\xff\x87\x07#70100Connection was killed"),
        || 3,
    );
    assert_eq!(told, ["error: server error 1927 (70100): Connection was killed"]);
}

#[test]
fn the_end_of_input_says_what_was_under_way() {
    let mut connection = logged_in(BASE);
    assert!(connection.end_of_input().is_none());
    connection.ping().unwrap();
    assert!(connection
        .end_of_input()
        .unwrap()
        .to_string()
        .contains("before its reply was complete"));
    let fresh = Connection::new(Arc::new(Options::new(Endpoint::tcp("127.0.0.1", 1), "user")));
    assert!(fresh
        .end_of_input()
        .unwrap()
        .to_string()
        .contains("before its greeting"));
}

#[test]
fn commands_before_ready_are_refused() {
    let mut fresh = Connection::new(Arc::new(Options::new(Endpoint::tcp("127.0.0.1", 1), "user")));
    assert!(fresh.query(b"SELECT 1", Detail::Skip).is_err());
    assert!(fresh.outgoing().is_empty());
}

#[test]
fn bytes_smuggled_in_before_tls_are_refused() {
    let mut options = Options::new(Endpoint::tcp("127.0.0.1", 1), "user");
    options.tls = TlsContext::new(&TlsOptions {
        mode: TlsMode::Required,
        ..TlsOptions::default()
    })
    .unwrap();
    let mut connection = Connection::new(Arc::new(options));
    let mut bytes = greeting(BASE | SSL);
    bytes.extend_from_slice(&packet(3, common::OK));
    let told = events(&mut connection, &bytes, || usize::MAX);
    assert!(told[0].contains("more than its greeting before TLS"), "{told:?}");
}

#[test]
fn tls_that_is_required_and_not_offered_is_an_error() {
    let mut options = Options::new(Endpoint::tcp("127.0.0.1", 1), "user");
    options.tls = TlsContext::new(&TlsOptions {
        mode: TlsMode::Required,
        ..TlsOptions::default()
    })
    .unwrap();
    let mut connection = Connection::new(Arc::new(options));
    let told = events(&mut connection, &greeting(BASE), || usize::MAX);
    assert!(told[0].contains("does not offer"), "{told:?}");
    assert!(connection.outgoing().is_empty(), "nothing may be sent in clear");
}

#[test]
fn tls_that_is_preferred_is_used_only_where_offered_and_only_over_tcp() {
    let context = TlsContext::new(&TlsOptions {
        mode: TlsMode::Preferred,
        ..TlsOptions::default()
    })
    .unwrap();
    let tcp = Endpoint::tcp("127.0.0.1", 1);
    for (endpoint, offered, used) in [
        (tcp.clone(), SSL, true),
        (tcp, 0, false),
        (Endpoint::unix("/tmp/socket"), SSL, false),
    ] {
        let mut options = Options::new(endpoint, "user");
        options.tls = context.clone();
        let mut connection = Connection::new(Arc::new(options));
        assert!(events(&mut connection, &greeting(BASE | offered), || usize::MAX).is_empty());
        let in_clear = connection.outgoing().windows(4).any(|window| window == b"user");
        assert_eq!((connection.phase() == Phase::Tls, in_clear), (used, !used));
    }
}

#[test]
fn a_server_that_is_full_says_so_in_its_own_words() {
    let mut connection = Connection::new(Arc::new(Options::new(Endpoint::tcp("127.0.0.1", 1), "user")));
    let told = events(&mut connection, &packet(0, b"\xff\x10\x04Too many connections"), || 100);
    assert_eq!(told, ["error: server error 1040 (HY000): Too many connections"]);
}

#[test]
fn authentication_that_is_not_ours_is_named() {
    for (request, part) in [
        (&b"\xfedialog\0more"[..], "plugin 'dialog'"),
        (&[0xfe], "before MySQL 4.1"),
    ] {
        let mut connection = Connection::new(Arc::new(Options::new(Endpoint::tcp("127.0.0.1", 1), "user")));
        assert!(events(&mut connection, &greeting(BASE), || 9).is_empty());
        let told = events(&mut connection, &packet(2, request), || 9);
        assert!(told[0].contains(part), "{told:?}");
    }
}

#[test]
fn binary_rows_are_decoded_by_their_columns() {
    let mut connection = logged_in(BASE | DEPRECATE_EOF);
    connection.prepare(b"SELECT 1, 2", Detail::Rows).unwrap();
    let mut prepared = packet(1, &[0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
    for sequence in 2..4 {
        prepared.extend_from_slice(&packet(sequence, &common::column("c", 3)));
    }
    let mut input = prepared.as_slice();
    let Some(Event::Prepared(mut statement)) = connection.advance(&mut input).unwrap() else {
        panic!()
    };
    assert_eq!((statement.parameter_count(), statement.column_count()), (0, 2));
    connection.execute(&mut statement, &[], Detail::Rows).unwrap();
    let mut reply = packet(1, &[2]);
    for sequence in 2..4 {
        reply.extend_from_slice(&packet(sequence, &common::column("c", 3)));
    }
    reply.extend_from_slice(&packet(4, &[0, 0b1000, 5, 0, 0, 0]));
    reply.extend_from_slice(&packet(5, &end(true, false)));
    let mut input = reply.as_slice();
    let mut told = Vec::new();
    while let Some(event) = connection.advance(&mut input).unwrap() {
        told.push(describe(&event));
    }
    assert_eq!(told[1], "Row [Ok(Int(5)), Ok(Null)]");
}

/// Answers one client: the pieces one after the other, the last one until the client leaves.
fn connect(name: &str, greeting: Vec<u8>, answers: Vec<Vec<u8>>) -> Result<Client, Error> {
    let path = std::env::temp_dir().join(format!("dyno-endless-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut read = vec![0; 1 << 16];
        let mut wait = |stream: &mut std::os::unix::net::UnixStream| stream.read(&mut read).is_ok();
        if answers.is_empty() {
            while stream.write_all(&greeting).is_ok() {}
            return;
        }
        stream.write_all(&greeting).unwrap();
        for answer in &answers[..answers.len() - 1] {
            wait(&mut stream);
            stream.write_all(answer).unwrap();
        }
        while stream.write_all(&answers[answers.len() - 1]).is_ok() {}
    });
    let options = Options::new(Endpoint::unix(&path), "dyno");
    let client = Client::connect(&options, Duration::from_secs(60));
    std::fs::remove_file(&path).unwrap();
    client
}

#[test]
fn a_greeting_is_bounded() {
    let huge = [vec![0xff, 0xff, 0xff, 0, 10], vec![b'x'; 1 << 20]].concat();
    let error = connect("greeting", huge, vec![]).err().unwrap().to_string();
    assert!(error.contains("where 64 kB are the limit"), "{error}");
}

#[test]
fn rows_without_end_are_an_error() {
    let mut head = packet(1, b"\x01");
    head.extend(packet(2, &column("a", 253)));
    head.extend(packet(3, &end(false, false)));
    // Sequence numbers go round after 256 packets.
    let row = [&b"\xfd\x00\x10\x00"[..], &[b'x'; 4096]].concat();
    let rows: Vec<u8> = (0..=255u8)
        .flat_map(|number| packet(number.wrapping_add(4), &row))
        .collect();
    let mut client = connect(
        "rows",
        greeting(BASE),
        vec![packet(2, &[0, 0, 0, 2, 0, 0, 0]), head, rows],
    )
    .unwrap();
    let error = client.query("SHOW STATUS").unwrap_err().to_string();
    assert!(
        error.contains("the result of a control query has more than 64 MiB"),
        "{error}"
    );
}
