//! Commands, results and errors against a real server (MariaDB or MySQL).
//!
//! DYNO_TEST_SERVER_SOCKET is its Unix socket, DYNO_TEST_SERVER_PORT its TCP port on 127.0.0.1; root has no password.

mod common;

use std::time::{Duration, Instant};

use common::{by_socket, by_tcp, connect};
use dyno_mysql::blocking::Client;
use dyno_mysql::{Compression, DateTime, Done, Error, Options, Time, Value};

/// A client of root with a fresh database of this name as its default.
fn fresh(name: &str, test: &str) -> Option<Client> {
    let mut client = connect(&by_socket(test)?);
    client
        .exec(&format!(
            "DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}; USE {name}"
        ))
        .unwrap();
    Some(client)
}

fn drop_database(mut client: Client, name: &str) {
    client.exec(&format!("DROP DATABASE {name}")).unwrap();
    client.quit().unwrap();
}

fn code(error: &Error) -> u16 {
    error
        .server()
        .unwrap_or_else(|| panic!("no server error: {error}"))
        .code
}

#[test]
fn every_common_type_comes_back_in_text_and_binary() {
    let test = "every_common_type_comes_back_in_text_and_binary";
    let Some(mut client) = fresh("dyno_types", test) else {
        return;
    };
    let columns = "t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, m MEDIUMINT, i INT, iu INT UNSIGNED, b BIGINT, \
                   bu BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(20,5), c CHAR(10), v VARCHAR(300), x TEXT, \
                   bl BLOB, da DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, ti TIME(6), y YEAR, bi BIT(10), \
                   e ENUM('a','b')";
    client.exec(&format!("CREATE TABLE t ({columns})")).unwrap();
    let places = vec!["?"; 22].join(",");
    let mut insert = client.prepare(&format!("INSERT INTO t VALUES ({places})")).unwrap();
    assert_eq!((insert.parameter_count(), insert.column_count()), (22, 0));
    let date_time = DateTime {
        year: 2026,
        month: 11,
        day: 21,
        hour: 20,
        minute: 9,
        second: 59,
        microsecond: 123_456,
    };
    let date = DateTime {
        year: 1999,
        month: 12,
        day: 31,
        ..DateTime::default()
    };
    let span = Time {
        negative: true,
        days: 4,
        hour: 4,
        minute: 1,
        second: 2,
        microsecond: 7,
    };
    let long = "ä".repeat(150);
    let values = [
        Value::Int(-128),
        Value::UInt(255),
        Value::Int(-32768),
        Value::Int32(-8_388_608),
        Value::Int32(i32::MIN),
        Value::UInt(u32::MAX as u64),
        Value::Int(i64::MIN),
        Value::UInt(u64::MAX),
        Value::Float(1.5),
        Value::Double(-1e300),
        Value::Bytes(b"-123456789012345.67891"),
        Value::Bytes(b"abc"),
        Value::Bytes(long.as_bytes()),
        Value::Bytes(b""),
        Value::Bytes(b"\0\xff'\\"),
        Value::DateTime(date),
        Value::DateTime(date_time),
        Value::DateTime(DateTime {
            microsecond: 123_000,
            ..date_time
        }),
        Value::Time(span),
        Value::Int(2026),
        Value::Int(513),
        Value::Bytes(b"b"),
    ];
    let done = client.execute(&mut insert, &values, |_| ()).unwrap();
    assert_eq!(done.affected_rows, 1);
    client.execute(&mut insert, &[Value::Null; 22], |_| ()).unwrap();
    client.close(insert).unwrap();

    let mut select = client.prepare("SELECT * FROM t").unwrap();
    let mut expected = values;
    expected[3] = Value::Int(-8_388_608);
    expected[4] = Value::Int(i32::MIN as i64);
    expected[19] = Value::UInt(2026);
    expected[20] = Value::Bytes(&[2, 1]);
    let mut row_number = 0;
    let done = client
        .execute(&mut select, &[], |row| {
            match row_number {
                0 => assert_eq!(row, expected),
                _ => assert_eq!(row, [Value::Null; 22]),
            }
            row_number += 1;
        })
        .unwrap();
    assert_eq!((done.rows, done.columns, row_number), (2, 22, 2));

    let text = client.query("SELECT t, bu, n, v, dt, ti, y FROM t").unwrap();
    assert_eq!(text.columns, ["t", "bu", "n", "v", "dt", "ti", "y"]);
    let told: Vec<String> = text.texts()[0].iter().map(|value| value.clone().unwrap()).collect();
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    let expected_text = [
        "-128",
        "18446744073709551615",
        "-123456789012345.67891",
        &long,
        "2026-11-21 20:09:59.123456",
        "-100:01:02.000007",
        "2026",
    ];
    assert_eq!(told, expected_text);
    assert_eq!(text.rows[1], vec![None; 7]);
    drop_database(client, "dyno_types");
}

#[test]
fn several_statements_and_procedures_give_several_results() {
    let test = "several_statements_and_procedures_give_several_results";
    let Some(mut client) = fresh("dyno_multi", test) else {
        return;
    };
    let results = client
        .query_all("SELECT 1 AS a; DO 1; SELECT 'x', NULL UNION ALL SELECT 'y', 2")
        .unwrap();
    assert_eq!(results.len(), 3);
    assert_eq!(
        results[2].texts(),
        [[Some("x".into()), None], [Some("y".into()), Some("2".into())]]
    );
    client
        .exec("CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2, 3; END")
        .unwrap();
    let results = client.query_all("CALL p()").unwrap();
    assert_eq!(
        results.iter().map(|result| result.done.columns).collect::<Vec<_>>(),
        [1, 2, 0]
    );
    // An error in the middle ends the command; the connection goes on.
    let error = client
        .query_all("SELECT 1; SELECT * FROM missing; SELECT 2")
        .unwrap_err();
    assert_eq!(code(&error), 1146);
    assert_eq!(client.query_text("SELECT 7").unwrap().as_deref(), Some("7"));
    let mut call = client.prepare("CALL p()").unwrap();
    let mut rows = Vec::new();
    client.execute(&mut call, &[], |row| rows.push(row.len())).unwrap();
    assert_eq!(rows, [1, 2]);
    drop_database(client, "dyno_multi");
}

#[test]
fn server_errors_keep_code_state_and_message() {
    let Some(mut client) = fresh("dyno_errors", "server_errors_keep_code_state_and_message") else {
        return;
    };
    client
        .exec("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        .unwrap();
    for (sql, number, state) in [
        ("SELEC 1", 1064, "42000"),
        ("SELECT * FROM missing", 1146, "42S02"),
        ("INSERT INTO t VALUES (1)", 1062, "23000"),
        ("SELECT nothing FROM t", 1054, "42S22"),
    ] {
        let error = client.exec(sql).unwrap_err();
        let error = error.server().unwrap();
        assert_eq!((error.code, error.sql_state()), (number, state), "{sql}");
        assert!(!error.message.is_empty());
        assert_eq!(
            code(
                &client
                    .prepare(sql)
                    .map(|_| ())
                    .err()
                    .unwrap_or_else(|| client.exec(sql).unwrap_err())
            ),
            number
        );
    }
    drop_database(client, "dyno_errors");
    let mut options = by_socket("").unwrap();
    options.database = Some("dyno_no_such_database".into());
    assert_eq!(code(&Client::connect(&options, common::TIMEOUT).err().unwrap()), 1049);
    let mut options = by_socket("").unwrap();
    options.init_statements = vec!["SET @a = 1".into(), "SET no_such_variable = 1".into()];
    assert_eq!(code(&Client::connect(&options, common::TIMEOUT).err().unwrap()), 1193);
}

#[test]
fn initial_statements_and_resets_shape_the_session() {
    let Some(mut options) = by_socket("initial_statements_and_resets_shape_the_session") else {
        return;
    };
    options.init_statements = vec!["SET @a = 41".into(), "SELECT 1; SELECT 2".into()];
    let mut client = connect(&options);
    assert_eq!(client.query_text("SELECT @a + 1").unwrap().as_deref(), Some("42"));
    client.ping().unwrap();
    client.reset_connection().unwrap();
    assert_eq!(client.query_text("SELECT @a").unwrap(), None);
    client.quit().unwrap();
}

#[test]
fn the_server_knows_the_program_by_name() {
    let test = "the_server_knows_the_program_by_name";
    let Some(mut options) = by_socket(test) else { return };
    options.program_name = "dynoload".into();
    let mut client = connect(&options);
    if client.query_text("SELECT @@performance_schema").unwrap().as_deref() != Some("1") {
        return common::aloud(&format!("NOT RUN: {test}: the server runs without performance_schema"));
    }
    let sql = "SELECT attr_value FROM performance_schema.session_connect_attrs \
               WHERE processlist_id = CONNECTION_ID() AND attr_name = 'program_name'";
    assert_eq!(client.query_text(sql).unwrap().as_deref(), Some("dynoload"));
}

/// The server's counter for this session.
fn status(client: &mut Client, name: &str) -> u64 {
    let result = client.query(&format!("SHOW SESSION STATUS LIKE '{name}'")).unwrap();
    result.texts()[0][1].as_ref().unwrap().parse().unwrap()
}

#[test]
fn the_wire_counters_agree_with_the_servers_own() {
    let Some(options) = by_socket("the_wire_counters_agree_with_the_servers_own") else {
        return;
    };
    for compression in [Compression::Off, Compression::Zlib { level: 6 }] {
        let mut client = connect(&Options {
            compression,
            ..options.clone()
        });
        let sent_before = client.connection().counters().wire_bytes_out;
        let server_before = status(&mut client, "Bytes_received");
        client.exec(&format!("SELECT '{}'", "a".repeat(100_000))).unwrap();
        let server_after = status(&mut client, "Bytes_received");
        // Each reading happens after the reading statement itself was received, so one of them falls in between.
        let sent = client.connection().counters().wire_bytes_out - sent_before;
        let reading = "\x03SHOW SESSION STATUS LIKE 'Bytes_received'".len() as u64 + 4;
        let frame = if compression == Compression::Off { 0 } else { 7 };
        assert_eq!(server_after - server_before, sent - reading - frame, "{compression:?}");
    }
}

#[test]
fn payloads_over_16_mebibytes_go_both_ways() {
    let test = "payloads_over_16_mebibytes_go_both_ways";
    let Some(socket) = by_socket(test) else { return };
    let Some(mut tcp) = by_tcp(test, "dyno_big") else {
        return;
    };
    let mut root = connect(&socket);
    root.exec("SET GLOBAL max_allowed_packet = 67108864").unwrap();
    root.exec("DROP USER IF EXISTS dyno_big@localhost, dyno_big@'127.0.0.1'; CREATE USER dyno_big@localhost, dyno_big@'127.0.0.1'")
        .unwrap();
    let length = (1 << 24) + 12_345;
    let text = "0123456789abcde\n".repeat(length / 16 + 1);
    for compression in [Compression::Off, Compression::Zlib { level: 1 }] {
        tcp.compression = compression;
        // Under compression one size will do: the packets inside are the same.
        let sizes = [0xff_ffff - 20, (1 << 24) - 1, 1 << 24, length];
        for &size in if compression == Compression::Off {
            &sizes[..]
        } else {
            &sizes[3..]
        } {
            let mut client = connect(&tcp);
            let sql = format!("SELECT LENGTH('{0}'), '{0}'", &text[..size / 2]);
            let result = client.query(&sql).unwrap();
            assert_eq!(result.texts()[0][0].as_deref(), Some((size / 2).to_string().as_str()));
            assert!(result.rows[0][1].as_deref() == Some(&text.as_bytes()[..size / 2]));
            // One value alone is longer than a packet; and so is one parameter.
            let skipped = client.exec(&format!("SELECT REPEAT('x', {size}); SELECT 1")).unwrap();
            assert_eq!(skipped.rows, 1);
            let result = client.query(&format!("SELECT REPEAT('x', {size})")).unwrap();
            assert_eq!(result.rows[0][0].as_ref().unwrap().len(), size);
            let mut statement = client.prepare("SELECT LENGTH(?), ?").unwrap();
            let parameter = &text.as_bytes()[..size];
            let values = [Value::Bytes(parameter), Value::Bytes(parameter)];
            client
                .execute(&mut statement, &values, |row| {
                    assert_eq!(row[0], Value::Int(size as i64));
                    assert!(row[1] == Value::Bytes(parameter));
                })
                .unwrap();
            client.ping().unwrap();
        }
    }
    root.exec("DROP USER dyno_big@localhost, dyno_big@'127.0.0.1'").unwrap();
}

#[test]
fn skipping_and_reading_count_the_same_rows_and_bytes() {
    let test = "skipping_and_reading_count_the_same_rows_and_bytes";
    let Some(mut client) = fresh("dyno_skip", test) else {
        return;
    };
    client
        .exec("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(200))")
        .unwrap();
    for chunk in 0..20 {
        let rows: Vec<String> = (0..1000)
            .map(|i| format!("({}, REPEAT('ab', {}))", chunk * 1000 + i, i % 100))
            .collect();
        client
            .exec(&format!("INSERT INTO t VALUES {}", rows.join(",")))
            .unwrap();
    }
    let skipped = client.exec("SELECT * FROM t").unwrap();
    let read = client.query("SELECT * FROM t").unwrap();
    assert_eq!(
        skipped,
        Done {
            status: skipped.status,
            ..read.done
        }
    );
    assert_eq!((read.rows.len(), skipped.rows), (20_000, 20_000));
    drop_database(client, "dyno_skip");
}

#[test]
fn a_statement_follows_its_table_when_columns_change() {
    let test = "a_statement_follows_its_table_when_columns_change";
    for cache_metadata in [true, false] {
        for deprecate_eof in [true, false] {
            let Some(mut client) = fresh("dyno_alter", test) else {
                return;
            };
            client.exec("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").unwrap();
            let mut options = by_socket(test).unwrap();
            (options.cache_metadata, options.deprecate_eof) = (cache_metadata, deprecate_eof);
            options.database = Some("dyno_alter".into());
            let mut other = connect(&options);
            let mut statement = other.prepare("SELECT * FROM t WHERE a > ?").unwrap();
            let mut row = |client: &mut Client| {
                let mut seen = String::new();
                client
                    .execute(&mut statement, &[Value::Int(0)], |row| seen = format!("{row:?}"))
                    .unwrap();
                seen
            };
            assert_eq!([row(&mut other), row(&mut other)], ["[Int(1)]", "[Int(1)]"]);
            client
                .exec("ALTER TABLE t MODIFY a BIGINT UNSIGNED, ADD b VARCHAR(5) DEFAULT 'x'")
                .unwrap();
            let after = "[UInt(1), Bytes([120])]";
            assert_eq!([row(&mut other), row(&mut other)], [after, after]);
            drop_database(client, "dyno_alter");
        }
    }
}

#[test]
fn closed_statements_are_gone_from_the_server() {
    let Some(options) = by_socket("closed_statements_are_gone_from_the_server") else {
        return;
    };
    let mut client = connect(&options);
    let prepared: Vec<_> = (0..10).map(|_| client.prepare("SELECT ?").unwrap()).collect();
    for statement in prepared {
        client.close(statement).unwrap();
    }
    let (opened, closed) = (
        status(&mut client, "Com_stmt_prepare"),
        status(&mut client, "Com_stmt_close"),
    );
    assert_eq!((opened, closed), (10, 10));
}

/// Waits until the session runs a statement, at most ten seconds.
fn wait_until_running(root: &mut Client, connection_id: u32) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {connection_id} AND info LIKE '%SLEEP%'"
    );
    while root.query_text(&sql).unwrap().as_deref() != Some("1") {
        assert!(Instant::now() < deadline, "connection {connection_id} runs nothing");
    }
}

#[test]
fn a_killed_query_fails_and_a_killed_connection_ends() {
    let Some(options) = by_socket("a_killed_query_fails_and_a_killed_connection_ends") else {
        return;
    };
    let mut root = connect(&options);
    for (kill, survives) in [("KILL QUERY", true), ("KILL", false)] {
        let mut victim = connect(&options);
        let id = victim.connection().server().unwrap().connection_id;
        // A table behind the sleep, so that the interrupted query is an error on both servers.
        let sql = "SELECT SLEEP(60) FROM information_schema.tables";
        let thread = std::thread::spawn(move || (victim.exec(sql).err(), victim.ping().is_ok()));
        wait_until_running(&mut root, id);
        root.exec(&format!("{kill} {id}")).unwrap();
        let (error, alive) = thread.join().unwrap();
        let error = error.expect("the query was killed");
        match (survives, &error) {
            (true, error) => assert_eq!(code(error), 1317),
            (false, Error::Closed(during)) => assert!(during.contains("before its reply")),
            (false, error) => assert!([1317, 1927].contains(&code(error)), "{error}"),
        }
        assert_eq!(alive, survives, "{kill}: {error}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up_in_time() {
    let Some(options) = by_socket("a_server_that_does_not_answer_is_given_up_in_time") else {
        return;
    };
    let mut client = Client::connect(&options, Duration::from_millis(300)).unwrap();
    let start = Instant::now();
    assert!(matches!(
        client.exec("SELECT SLEEP(20)").unwrap_err(),
        Error::Io("reading from the server", _)
    ));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn zlib_is_in_force_and_saves_bytes() {
    let Some(mut options) = by_socket("zlib_is_in_force_and_saves_bytes") else {
        return;
    };
    options.compression = Compression::Zlib { level: 6 };
    let mut client = connect(&options);
    let on = client.query("SHOW SESSION STATUS LIKE 'Compression'").unwrap();
    assert_eq!(on.texts()[0][1].as_deref(), Some("ON"));
    let before = *client.connection().counters();
    let sql = format!("SELECT '{}'", "abc".repeat(100_000));
    client.exec(&sql).unwrap();
    let used = client.connection().counters().since(&before);
    assert_eq!(used.raw_bytes_out, sql.len() as u64 + 5);
    assert!(used.raw_bytes_in > 300_000);
    assert!(used.wire_bytes_in < 20_000 && used.wire_bytes_out < 20_000, "{used:?}");
    assert_eq!(
        (used.wire_bytes_in, used.wire_bytes_out),
        (used.compressed_bytes_in, used.compressed_bytes_out)
    );
}

#[test]
fn zstd_is_in_force_on_mysql_and_refused_on_mariadb() {
    let Some(options) = by_socket("zstd_is_in_force_on_mysql_and_refused_on_mariadb") else {
        return;
    };
    let is_mariadb = connect(&options).connection().server().unwrap().is_mariadb;
    for level in [1, 3, 22] {
        let result = Client::connect(
            &Options {
                compression: Compression::Zstd { level },
                ..options.clone()
            },
            common::TIMEOUT,
        );
        if is_mariadb {
            assert!(
                matches!(result.err(), Some(Error::Setup(text)) if text.contains("does not offer the compression"))
            );
            continue;
        }
        let mut client = result.unwrap();
        let algorithm = client
            .query("SHOW SESSION STATUS LIKE 'Compression_algorithm'")
            .unwrap();
        assert_eq!(algorithm.texts()[0][1].as_deref(), Some("zstd"));
        assert_eq!(status(&mut client, "Compression_level"), level as u64);
        let before = *client.connection().counters();
        client.exec(&format!("SELECT '{}'", "abc".repeat(100_000))).unwrap();
        let used = client.connection().counters().since(&before);
        assert!(used.wire_bytes_in < 20_000 && used.wire_bytes_out < 20_000, "{used:?}");
    }
}
