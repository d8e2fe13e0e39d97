//! Tables that are found: a run refuses those that are not as its options say, or that are not complete.
//!
//! DYNO_TEST_SERVER_COMMAND starts a private server (see common/mod.rs).

mod common;

use common::{client, plain, run, PrivateServer};

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
