//! Statements of the user's, from files and captures, against a real server: how they are counted, spread and compared.
//!
//! DYNO_TEST_SERVER_SOCKET is a server's socket (root without password).
//!
//! Tables that are found: a run refuses those that are not as its options say, or that are not complete.
//!
//! DYNO_TEST_SERVER_COMMAND starts a private server (see common/mod.rs).

mod common;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{client, plain, run, variable, PrivateServer};

/// A test counts what the whole server counts.
static SERVER: Mutex<()> = Mutex::new(());

/// A schema and a folder of one test's own, and the server for it alone.
struct Place {
    _alone: MutexGuard<'static, ()>,
    socket: String,
    database: &'static str,
    folder: PathBuf,
}

impl Place {
    fn make(test: &str, database: &'static str, tables: &str) -> Option<Place> {
        let socket = variable("DYNO_TEST_SERVER_SOCKET", test)?;
        let alone = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = std::env::temp_dir().join(format!("dynoload-{database}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let sql = format!("DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}; USE {database}; {tables}");
        client(&socket).exec(&sql).unwrap();
        Some(Place {
            _alone: alone,
            socket,
            database,
            folder,
        })
    }

    /// A file in the folder.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let dropped = client(&self.socket).exec(&format!("DROP DATABASE {}", self.database));
        let removed = std::fs::remove_dir_all(&self.folder);
        assert!(std::thread::panicking() || (dropped.is_ok() && removed.is_ok()));
    }
}

/// A capture of these sessions, a statement each, 10 ms apart.
fn capture(texts: &[&str]) -> String {
    let count = texts.len();
    let mut lines = format!(
        r#"{{"record":"header","format":"dynoload-capture","format_version":1,"source":"general_log","resolution_us":1,"spread":false,"anonymised":false,"duration_us":{},"sessions":{count},"peak_sessions":{count},"events":{count},"statements":{count}}}"#,
        count * 10_000
    );
    for (session, text) in (1..).zip(texts) {
        lines += &format!(
            "\n{{\"record\":\"statement\",\"at_us\":{},\"session\":{session},\"text\":\"{text}\"}}",
            session * 10_000 - 10_000
        );
    }
    lines + "\n"
}

#[test]
fn statements_on_several_tables_are_counted_as_the_server_counts_them() {
    let test = "statements_on_several_tables_are_counted_as_the_server_counts_them";
    let tables = "CREATE TABLE t (id INT PRIMARY KEY, k INT); INSERT INTO t VALUES (1, 1), (2, 2); \
                  CREATE TABLE b (id INT PRIMARY KEY, k INT); INSERT INTO b VALUES (1, 1), (2, 2)";
    let Some(place) = Place::make(test, "dyno_several", tables) else {
        return;
    };
    let file = place.file(
        "several.sql",
        "UPDATE t JOIN b ON t.id = b.id SET t.k = t.k + 1 WHERE b.id = 1;\n\
         INSERT INTO b SELECT id + 10, k FROM t WHERE id = 2;\n\
         DELETE b FROM b JOIN t ON b.id = t.id + 10;\n",
    );
    let result = run(&format!(
        "sql run {file} --socket {} --database {} --connections 1 --warmup 0s --duration 300ms --quiet",
        place.socket, place.database
    ));
    let checks = result.last()["reconciliation"].as_array().unwrap();
    for counter in ["Com_update", "Com_insert", "Com_delete"] {
        let check = checks.iter().find(|check| check["counter"] == counter).unwrap();
        assert_eq!(check["difference_pct"], 0.0, "{check}");
        assert!(check["server"].as_u64() > Some(0), "{check}");
    }
}

#[test]
fn a_capture_at_its_own_times_has_as_many_connections_as_were_captured() {
    let test = "a_capture_at_its_own_times_has_as_many_connections_as_were_captured";
    let Some(place) = Place::make(test, "dyno_captured", "CREATE TABLE t (id INT)") else {
        return;
    };
    let file = place.file("three.capture", &capture(&["SELECT 1", "SELECT 2", "SELECT 3"]));
    let load = |more: &str| {
        run(&format!(
            "sql run {file} --socket {} --database {} {more} --warmup 0s --duration 200ms --quiet",
            place.socket, place.database
        ))
    };
    assert_eq!(load("--speed original").last()["settings"]["connections"], 3);
    assert_eq!(
        load("--speed original --connections 2").last()["settings"]["connections"],
        2
    );
    assert_eq!(load("").last()["settings"]["connections"], 1);
}

#[test]
fn each_digest_of_a_capture_has_its_rows_and_errors_in_result_and_hdr_log() {
    let test = "each_digest_of_a_capture_has_its_rows_and_errors_in_result_and_hdr_log";
    let tables = "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)";
    let Some(place) = Place::make(test, "dyno_digests", tables) else {
        return;
    };
    // It changes nothing: other tests count what is changed on the same server.
    let texts = ["SELECT id, id + 1 FROM t WHERE id < 3", "SELECT gone FROM t"];
    let (file, hdr) = (
        place.file("digests.capture", &capture(&texts)),
        place.folder.join("log"),
    );
    let result = run(&format!(
        "sql run {file} --socket {} --database {} --ignore-errors 1054 --hdr {} --warmup 0s --duration 300ms --quiet",
        place.socket,
        place.database,
        hdr.display()
    ));
    let last = result.last();
    let named = &last["named"];
    let (read, failing) = ("SELECT id, id + ? FROM t WHERE id < ?", "SELECT gone FROM t");
    let count = named[read]["count"].as_u64().unwrap();
    assert_eq!(
        named[read]["rows"],
        serde_json::json!({ "sum": 2 * count, "least": 2, "most": 2 })
    );
    assert_eq!(named[failing]["count"], 0);
    assert!(named[failing]["errors"].as_u64() > Some(0), "{named}");
    assert_eq!(last["settings"]["options"]["digests"][0]["text"], read);
    assert!(std::fs::read_to_string(hdr)
        .unwrap()
        .contains("Tag=service.SELECT_id__id_+_?_FROM_t"));
}

#[test]
fn replays_that_failed_alike_are_not_compared() {
    let test = "replays_that_failed_alike_are_not_compared";
    let Some(place) = Place::make(test, "dyno_alike", "CREATE TABLE t (id INT)") else {
        return;
    };
    let file = place.file(
        "missing.capture",
        &capture(&["SELECT id FROM gone", "SELECT id FROM gone WHERE id = 1"]),
    );
    let results = ["a", "b"].map(|name| place.folder.join(name).display().to_string());
    for path in &results {
        let replay = plain(&format!(
            "replay {file} --socket {} --database {} --speed max --results {path} --quiet",
            place.socket, place.database
        ));
        assert_eq!(replay.code, 4, "{}{}", replay.stdout, replay.stderr);
    }
    let compared = plain(&format!("compare-replays {} {}", results[0], results[1]));
    assert_eq!(compared.code, 2, "{}{}", compared.stdout, compared.stderr);
    assert!(compared.stderr.contains("was INVALID"), "{}", compared.stderr);
    assert!(!compared.stdout.contains("equal"), "{}", compared.stdout);
}

const LOAD: &str = "--connections 1 --warmup 0s --duration 200ms --quiet";

fn refused(arguments: &str, words: &str) {
    let result = run(arguments);
    assert_eq!(result.code, 3, "{arguments}: {}{}", result.stderr, result.stdout);
    assert!(result.stderr.contains(words), "{arguments}: {}", result.stderr);
}

fn done(arguments: &str) {
    let result = plain(arguments);
    assert_eq!(result.code, 0, "{arguments}: {}{}", result.stderr, result.stdout);
}

/// The tables are taken as they are; on a busy host so short a load may be invalid, or end no transaction.
fn accepted(arguments: &str) {
    let result = run(arguments);
    assert!(
        result.code == 0 || result.code == 4,
        "{arguments}: {}{}",
        result.stderr,
        result.stdout
    );
    assert!(result.last()["counts"].is_object(), "{arguments}: {}", result.stdout);
}

#[test]
fn tables_that_are_not_as_the_options_say_are_refused() {
    let test = "tables_that_are_not_as_the_options_say_are_refused";
    let Some(server) = PrivateServer::start("found", test) else {
        return;
    };
    let place = format!("--socket {} --tables 1 --table-size 1000", server.socket());
    done(&format!("oltp prepare {place}"));
    let load = format!("oltp run --workload select_random_points {place} {LOAD}");
    accepted(&load);
    refused(&format!("{load} --row-text words"), "has the text digits, not words");
    refused(
        &format!("{load} --secondary on"),
        "has the primary key (id), not the index (id)",
    );
    let mut control = client(&server.socket());
    control.exec("CREATE INDEX c_1 ON sbtest.sbtest1 (c, pad)").unwrap();
    accepted(&load);
    control.exec("DROP INDEX k_1 ON sbtest.sbtest1").unwrap();
    refused(&load, "has the index (c, pad), not the index (k)");
    control.exec("DROP INDEX c_1 ON sbtest.sbtest1").unwrap();
    refused(&load, "lacks the index (k)");
    accepted(&format!("{load} --create-secondary off"));
    done(&format!("oltp prepare {place} --resume"));
    accepted(&load);
    let file = std::env::temp_dir().join(format!("dynoload-wide-{}.toml", std::process::id()));
    let tables =
        "[[tables]]\nname = \"t\"\nrows = 5\n[tables.columns]\na = { type = \"CHAR(9)\", values = \"string(5)\" }\n";
    std::fs::write(&file, tables).unwrap();
    let own = format!("sql prepare {}", file.display());
    for set in ["ucs2", "utf32"] {
        let make = format!("DROP DATABASE IF EXISTS dyno_wide; CREATE DATABASE dyno_wide CHARACTER SET {set}");
        control.exec(&make).unwrap();
        for workload in ["oltp prepare --tables 1 --table-size 100", "tpcc prepare", &own] {
            let result = plain(&format!("{workload} --socket {} --database dyno_wide", server.socket()));
            assert!(
                result.code == 2 && result.stderr.contains(&format!("has the character set {set}")),
                "{workload}: {}",
                result.stderr
            );
        }
    }
    std::fs::remove_file(&file).unwrap();
}

/// Prepare, also with --resume, and cleanup refuse what has a table's name, and write and drop nothing.
#[test]
fn what_no_preparation_made_is_neither_written_nor_dropped() {
    let test = "what_no_preparation_made_is_neither_written_nor_dropped";
    let Some(server) = PrivateServer::start("foreign", test) else {
        return;
    };
    let mut control = client(&server.socket());
    let file = std::env::temp_dir().join(format!("dynoload-shop-{}.toml", std::process::id()));
    let tables = "[[tables]]\nname = \"maker\"\nrows = 5\n[tables.columns]\na = { type = \"INT\", values = \
                  \"sequence(1)\" }\n";
    std::fs::write(&file, tables).unwrap();
    let own = format!("sql prepare {}", file.display());
    let sbtest = "oltp prepare --tables 2 --table-size 100";
    for (made, prepare, words) in [
        (
            "VIEW sbtest2 AS SELECT a AS id, a AS k, a AS c, a AS pad FROM shop",
            sbtest,
            "sbtest2 is a view",
        ),
        (
            "TABLE sbtest2 (id INT, k INT)",
            sbtest,
            "sbtest2 is a table without the column c",
        ),
        (
            "TABLE old (id INT, k INT, c INT, pad INT) ENGINE = MyISAM; CREATE TABLE sbtest2 LIKE old; \
             ALTER TABLE sbtest2 ENGINE = MERGE UNION = (old)",
            sbtest,
            "a table of the engine MRG_MyISAM",
        ),
        (
            "TABLE orders (id INT)",
            "tpcc prepare",
            "orders is a table without the column o_id",
        ),
        ("VIEW maker AS SELECT * FROM shop", &own, "maker is a view"),
    ] {
        let anew =
            "DROP DATABASE IF EXISTS dyno_shop; CREATE DATABASE dyno_shop; USE dyno_shop; CREATE TABLE shop (a INT)";
        control
            .exec(&format!(
                "{anew} ENGINE = MyISAM; INSERT INTO shop VALUES (7); CREATE {made}"
            ))
            .unwrap();
        let count =
            "SELECT COUNT(*) + (SELECT a FROM shop) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'dyno_shop'";
        let before = control.query_text(count).unwrap();
        let cleanup = prepare.replace("prepare", "cleanup").replace(" --table-size 100", "");
        let resume = format!("{prepare} --resume");
        let commands = [prepare, &cleanup, &resume];
        for command in &commands[..if prepare == own { 2 } else { 3 }] {
            let result = plain(&format!("{command} --socket {} --database dyno_shop", server.socket()));
            assert!(
                result.code == 2 && result.stderr.contains(words),
                "{command}: {}{}",
                result.stderr,
                result.stdout
            );
        }
        assert_eq!(control.query_text(count).unwrap(), before, "{made}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn warehouses_whose_preparation_was_interrupted_are_refused() {
    let test = "warehouses_whose_preparation_was_interrupted_are_refused";
    let Some(server) = PrivateServer::start("unfinished", test) else {
        return;
    };
    let place = format!("--socket {} --database tpcc", server.socket());
    done(&format!("tpcc prepare {place} --warehouses 1"));
    let load = format!("tpcc run {place} {LOAD}");
    accepted(&load);
    let mut control = client(&server.socket());
    control.exec("DROP INDEX idx_orders ON tpcc.orders").unwrap();
    refused(&load, "the index idx_orders of orders");
    control
        .exec("DELETE FROM tpcc.stock WHERE s_w_id = 1 AND s_i_id BETWEEN 20001 AND 30000")
        .unwrap();
    control
        .exec("CREATE INDEX idx_orders ON tpcc.orders (o_w_id, o_d_id, o_c_id, o_id)")
        .unwrap();
    refused(&load, "rows of stock in warehouse 1");
}
