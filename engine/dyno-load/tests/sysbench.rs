//! The same load as sysbench 1.0.20 on the same tables, as the server saw it.
//!
//! DYNO_TEST_SERVER_SOCKET is a server's socket (root without password, performance schema on for the digests).
//! DYNO_TEST_SYSBENCH is the command that runs sysbench 1.0.20, DYNO_TEST_SYSBENCH_SHARE its folder of Lua scripts.

mod common;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;

use common::{assert_ended, client, plain, run, variable};
use dyno_load::sql::oltp::CATALOGUE;
use dyno_mysql::blocking::Client;
use dyno_patience::wait_until;

/// Digests and the general log are of the whole server: one test at a time.
static SERVER: Mutex<()> = Mutex::new(());
const TABLE_SIZE: u32 = 1000;

struct Bench {
    socket: String,
    sysbench: String,
    share: String,
}

impl Bench {
    fn find(test: &str) -> Option<Bench> {
        Some(Bench {
            socket: variable("DYNO_TEST_SERVER_SOCKET", test)?,
            sysbench: variable("DYNO_TEST_SYSBENCH", test)?,
            share: variable("DYNO_TEST_SYSBENCH_SHARE", test)?,
        })
    }

    fn sysbench(&self, database: &str, arguments: &str) -> String {
        let mut words = self.sysbench.split_ascii_whitespace();
        let output = Command::new(words.next().unwrap())
            .args(words)
            .arg(format!("--mysql-socket={}", self.socket))
            .args(["--mysql-user=root", &format!("--mysql-db={database}")])
            .args(arguments.split_ascii_whitespace())
            .current_dir(&self.share)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "sysbench {arguments}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    fn dynoload(&self, database: &str, arguments: &str) -> common::Run {
        let result = run(&format!(
            "oltp run --socket {} --database {database} --quiet {arguments}",
            self.socket
        ));
        assert_ended(&result, arguments);
        result
    }

    fn prepare(&self, database: &str, tables: u32) {
        let arguments = format!("--socket {} --database {database} --tables {tables}", self.socket);
        plain(&format!("oltp cleanup {arguments}"));
        let made = plain(&format!("oltp prepare {arguments} --table-size {TABLE_SIZE}"));
        assert_eq!(made.code, 0, "{}", made.stderr);
    }

    fn drop_database(&self, database: &str) {
        client(&self.socket)
            .exec(&format!("DROP DATABASE IF EXISTS {database}"))
            .unwrap();
    }
}

/// Workloads that sysbench has, with their number of tables.
fn workloads() -> impl Iterator<Item = (&'static str, u32)> {
    CATALOGUE
        .iter()
        .filter(|workload| workload.name != "connect")
        .map(|workload| (workload.name, if workload.single_table { 1 } else { 2 }))
}

/// The server counts a statement after its answer is sent: only a session that has ended is counted whole.
fn wait_for_sessions(client: &mut Client, database: &str) {
    let open = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{database}'");
    wait_until(30.0, "the sessions on the database end", || {
        client.query_text(&open).unwrap().as_deref() == Some("0")
    });
}

/// Count by digest of the statements on the tables, the table's number left out: the choice of it is random.
fn digests(client: &mut Client, database: &str) -> BTreeMap<String, u64> {
    wait_for_sessions(client, database);
    let question = format!(
        "SELECT DIGEST_TEXT, COUNT_STAR FROM performance_schema.events_statements_summary_by_digest \
         WHERE SCHEMA_NAME = '{database}'"
    );
    let mut counts = BTreeMap::new();
    for row in client.query(&question).unwrap().texts() {
        let (Some(text), Some(count)) = (&row[0], &row[1]) else {
            continue;
        };
        let on_tables = text.contains("sbtest") || text == "BEGIN" || text == "COMMIT";
        let of_preflight = ["MAX (", "SHOW INDEX", "ORDER BY ID LIMIT"];
        if on_tables && !of_preflight.iter().any(|words| text.contains(words)) {
            *counts.entry(text.replace("sbtest2", "sbtest1")).or_insert(0) += count.parse::<u64>().unwrap();
        }
    }
    counts
}

fn per_transaction(counts: BTreeMap<String, u64>, transactions: u64) -> BTreeMap<String, f64> {
    counts
        .into_iter()
        .map(|(text, count)| (text, count as f64 / transactions as f64))
        .collect()
}

#[test]
fn digests_and_their_counts_per_transaction_are_those_of_sysbench_for_every_workload() {
    let test = "digests_and_their_counts_per_transaction_are_those_of_sysbench_for_every_workload";
    let Some(bench) = Bench::find(test) else { return };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut control = client(&bench.socket);
    if control.query_text("SELECT @@performance_schema").unwrap().as_deref() != Some("1") {
        common::freeze::aloud(&format!("NOT RUN: {test}: the server's performance schema is off"));
        return;
    }
    let database = "dyno_digests";
    for (workload, tables) in workloads() {
        bench.prepare(database, tables);
        let truncate = "TRUNCATE performance_schema.events_statements_summary_by_digest";
        let common = format!("--tables={tables} --table-size={TABLE_SIZE} --db-ps-mode=disable");
        wait_for_sessions(&mut control, database);
        control.exec(truncate).unwrap();
        let text = bench.sysbench(database, &format!("{common} --events=100 --time=0 {workload} run"));
        assert!(
            text.contains("transactions:                        100 "),
            "{workload}: {text}"
        );
        let theirs = per_transaction(digests(&mut control, database), 100);
        wait_for_sessions(&mut control, database);
        control.exec(truncate).unwrap();
        let result = bench.dynoload(database, &format!("{common} --duration 300ms --workload {workload}"));
        let transactions = result.count("/whole_load_counts/transactions");
        assert_eq!(result.count("/whole_load_counts/ignored_errors"), 0);
        let mut ours = per_transaction(digests(&mut control, database), transactions);
        // Before the load dynoload reads the first id of each table, once.
        ours.retain(|text, count| {
            !text.starts_with("SELECT MIN ( ID )") || *count * transactions as f64 > 2.0 * f64::from(tables)
        });
        assert!(!theirs.is_empty());
        assert_eq!(ours, theirs, "{workload}");
    }
    bench.drop_database(database);
}

/// What one connection sent, from the general log: command and text, numbers and digits left out.
fn log_of(control: &mut Client, marker: &str) -> Vec<String> {
    let question = format!(
        "SELECT command_type, CONVERT(argument USING utf8) FROM mysql.general_log WHERE thread_id IN \
         (SELECT thread_id FROM mysql.general_log WHERE command_type = 'Prepare' AND argument LIKE '%{marker}%') \
         ORDER BY event_time"
    );
    let rows = control.query(&question).unwrap().texts();
    rows.into_iter()
        .map(|row| format!("{} {}", row[0].as_deref().unwrap(), masked(row[1].as_deref().unwrap())))
        .collect()
}

/// Digits that are not part of a name become one '#', strings of digits too.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut in_name = false;
    for character in text.chars() {
        let digit = character.is_ascii_digit() || (character == '-' && out.ends_with('#'));
        if digit && !in_name {
            if !out.ends_with('#') {
                out.push('#');
            }
            continue;
        }
        in_name = character.is_ascii_alphabetic() || (in_name && (character.is_ascii_digit() || character == '_'));
        out.push(character);
    }
    out.replace("sbtest2", "sbtest1")
}

#[test]
fn prepared_statements_come_in_the_order_of_sysbench_to_the_letter() {
    let test = "prepared_statements_come_in_the_order_of_sysbench_to_the_letter";
    let Some(bench) = Bench::find(test) else { return };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut control = client(&bench.socket);
    let database = "dyno_order";
    for (workload, tables) in workloads().filter(|(name, _)| *name != "oltp_insert") {
        bench.prepare(database, tables);
        let common = format!("--tables={tables} --table-size={TABLE_SIZE}");
        let logged = |control: &mut Client, load: &dyn Fn()| {
            control
                .exec("SET GLOBAL general_log = OFF; TRUNCATE mysql.general_log")
                .unwrap();
            control
                .exec("SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON")
                .unwrap();
            load();
            control.exec("SET GLOBAL general_log = OFF").unwrap();
            let log = log_of(control, "sbtest");
            let executes = log
                .iter()
                .filter(|line| line.starts_with("Execute"))
                .cloned()
                .collect::<Vec<_>>();
            let mut prepares = log
                .iter()
                .filter(|line| line.starts_with("Prepare"))
                .cloned()
                .collect::<Vec<_>>();
            prepares.sort();
            (prepares, executes)
        };
        let theirs = logged(&mut control, &|| {
            bench.sysbench(database, &format!("{common} --events=3 --time=0 {workload} run"));
        });
        let ours = logged(&mut control, &|| {
            bench.dynoload(database, &format!("{common} --duration 300ms --workload {workload}"));
        });
        assert!(!theirs.1.is_empty(), "{workload}");
        assert_eq!(ours.0, theirs.0, "{workload}: statements prepared");
        assert!(
            ours.1.len() >= theirs.1.len(),
            "{workload}: {} executions",
            ours.1.len()
        );
        assert_eq!(
            ours.1[..theirs.1.len()],
            theirs.1[..],
            "{workload}: statements executed"
        );
    }
    bench.drop_database(database);
}

#[test]
fn either_program_runs_on_tables_that_the_other_made() {
    let test = "either_program_runs_on_tables_that_the_other_made";
    let Some(bench) = Bench::find(test) else { return };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let database = "dyno_tables";
    let mut control = client(&bench.socket);
    for options in ["", "--auto-inc=off", "--secondary=on", "--create-secondary=off"] {
        bench.drop_database(database);
        control
            .exec(&format!("CREATE DATABASE {database}; USE {database}"))
            .unwrap();
        let common = format!("--tables=2 --table-size={TABLE_SIZE} {options}");
        bench.sysbench(database, &format!("{common} oltp_read_write prepare"));
        let theirs = structure(&mut control);
        bench.dynoload(
            database,
            &format!("{common} --workload oltp_read_write --duration 200ms"),
        );
        bench.sysbench(database, &format!("{common} oltp_read_write cleanup"));
        let made = plain(&format!(
            "oltp prepare --socket {} --database {database} {common}",
            bench.socket
        ));
        assert_eq!(made.code, 0, "{}", made.stderr);
        assert_eq!(structure(&mut control), theirs, "{options}");
        bench.sysbench(database, &format!("{common} --events=50 --time=0 oltp_read_write run"));
    }
    bench.drop_database(database);
}

/// SHOW CREATE TABLE, row counts, and the shape of the first row.
fn structure(control: &mut Client) -> Vec<String> {
    let mut lines = Vec::new();
    for table in 1..=2 {
        let rows = control
            .query(&format!("SHOW CREATE TABLE sbtest{table}"))
            .unwrap()
            .texts();
        lines.push(rows[0][1].clone().unwrap());
        let question = format!(
            "SELECT COUNT(*), MIN(id), MAX(id), MIN(k) >= 1, MAX(k) <= {TABLE_SIZE}, MIN(LENGTH(c)), MAX(LENGTH(c)), \
             MIN(LENGTH(pad)), MAX(LENGTH(pad)), SUM(c REGEXP '^([0-9]{{11}}-){{9}}[0-9]{{11}}$'), \
             SUM(pad REGEXP '^([0-9]{{11}}-){{4}}[0-9]{{11}}$') FROM sbtest{table}"
        );
        lines.push(format!("{:?}", control.query(&question).unwrap().texts()));
    }
    lines
}
