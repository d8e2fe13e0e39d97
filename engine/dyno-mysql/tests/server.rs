//! Commands, results and errors against a real server (MariaDB or MySQL).
//!
//! DYNO_TEST_SERVER_SOCKET is its Unix socket, DYNO_TEST_SERVER_PORT its TCP port on 127.0.0.1; root has no password.

mod common;

use std::time::Duration;

use common::{by_socket, connect, not_run, status};
use dyno_mysql::blocking::Client;
use dyno_mysql::{DateTime, Done, Error, Time, Value};
use dyno_patience::{wait_until, Patience};

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
    // MySQL has fractions of seconds from 5.6.4 on.
    let fractions = client.exec("DO CAST(NOW() AS TIME(6))").is_ok();
    let (six, three) = if fractions { ("(6)", "(3)") } else { ("", "") };
    let columns = format!(
        "t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, m MEDIUMINT, i INT, iu INT UNSIGNED, b BIGINT, \
                   bu BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(20,5), c CHAR(10), v VARCHAR(300), x TEXT, \
                   bl BLOB, da DATE, dt DATETIME{six}, ts TIMESTAMP{three} NULL, ti TIME{six}, y YEAR, bi BIT(10), \
                   e ENUM('a','b')"
    );
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
        microsecond: if fractions { 123_456 } else { 0 },
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
        microsecond: fractions as u32 * 7,
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
            microsecond: date_time.microsecond / 1000 * 1000,
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
                0 => row.iter().zip(&expected).enumerate().for_each(|(index, (is, should))| {
                    assert_eq!(is, should, "column {index}");
                }),
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
        if fractions {
            "2026-11-21 20:09:59.123456"
        } else {
            "2026-11-21 20:09:59"
        },
        if fractions { "-100:01:02.000007" } else { "-100:01:02" },
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
    match client.reset_connection() {
        // "Unknown command": MySQL before 5.7.3 has none.
        Err(Error::Server(error)) if error.code == 1047 => not_run("a reset", &client, "has no COM_RESET_CONNECTION"),
        other => {
            other.unwrap();
            assert_eq!(client.query_text("SELECT @a").unwrap(), None);
        }
    }
    client.quit().unwrap();
}

#[test]
fn the_server_knows_the_program_by_name() {
    let test = "the_server_knows_the_program_by_name";
    let Some(mut options) = by_socket(test) else { return };
    options.program_name = "dynoload".into();
    let mut client = connect(&options);
    if client
        .query("SHOW TABLES FROM performance_schema LIKE 'session_connect_attrs'")
        .unwrap()
        .rows
        .is_empty()
        || client.query_text("SELECT @@performance_schema").unwrap().as_deref() != Some("1")
    {
        return not_run(test, &client, "runs without performance_schema");
    }
    let sql = "SELECT attr_value FROM performance_schema.session_connect_attrs \
               WHERE processlist_id = CONNECTION_ID() AND attr_name = 'program_name'";
    assert_eq!(client.query_text(sql).unwrap().as_deref(), Some("dynoload"));
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

/// Waits until the session runs a statement.
fn wait_until_running(root: &mut Client, connection_id: u32) {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {connection_id} AND info LIKE '%SLEEP%'"
    );
    wait_until(10.0, "the session runs its statement", || {
        root.query_text(&sql).unwrap().as_deref() == Some("1")
    });
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
    let patience = Patience::seconds(5.0);
    assert!(matches!(
        client.exec("SELECT SLEEP(200)").unwrap_err(),
        Error::NoAnswer { .. }
    ));
    patience.check("giving up");
}

#[test]
fn a_statement_that_is_late_is_killed_and_the_session_stays() {
    let Some(options) = by_socket("a_statement_that_is_late_is_killed_and_the_session_stays") else {
        return;
    };
    let mut client = Client::connect(&options, Duration::from_millis(300)).unwrap();
    client.kill_what_is_late();
    let id = client.connection().server().unwrap().connection_id;
    for _ in 0..2 {
        // A table behind the sleep, so that the interrupted query is an error on both servers.
        let error = client
            .exec("SELECT SLEEP(60) FROM information_schema.tables")
            .unwrap_err();
        assert_eq!(code(&error), 1317);
    }
    assert_eq!(
        client.query_text("SELECT CONNECTION_ID()").unwrap(),
        Some(id.to_string())
    );
}
