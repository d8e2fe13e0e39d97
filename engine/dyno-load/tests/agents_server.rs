//! Agents against a real server: what they did is what it counted, and what one program alone would have done to its rows.
//!
//! DYNO_TEST_SERVER_COMMAND starts a private server (see common/mod.rs).

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

use common::freeze::on_a_still_host;
use common::{assert_ended, client, command, is_everything, parse, plain, PrivateServer, Run, PROGRAM};

fn with_agents(mut command: Command, count: usize) -> Run {
    for _ in 0..count {
        command.arg(format!("--agent='{PROGRAM}' agent"));
    }
    parse(command.output().unwrap())
}

fn assert_reconciled(result: &Run) {
    assert_ended(result, "agents");
    let checks = result.last()["reconciliation"].as_array().unwrap();
    assert!(checks.len() >= 2, "{checks:?}");
    for check in checks {
        assert!(check["difference_pct"].as_f64().unwrap().abs() <= 0.1, "{check}");
    }
}

/// In no encoding.
const PASSWORD: &[u8] = b"hunter2\xff";

#[test]
fn agents_leave_the_rows_that_one_program_leaves_and_log_in_with_the_password() {
    let test = "agents_leave_the_rows_that_one_program_leaves_and_log_in_with_the_password";
    on_a_still_host(test, || {
        let Some(server) = PrivateServer::start("agents", test) else {
            return;
        };
        let socket = server.socket();
        let mut control = client(&socket);
        control
            .exec("CREATE USER loader@localhost IDENTIFIED BY PASSWORD '*D9C6BB1E8F46115AA202972155BD715FDC15AC3A'")
            .unwrap();
        control.exec("GRANT ALL ON *.* TO loader@localhost").unwrap();
        let asked = format!(
        "oltp run --workload oltp_update_index --socket {socket} --user loader --table-size 1000 --connections 6 --rate 300 \
         --duration 1s --quiet"
    );
        let load = |agents: usize, password: &[u8]| {
            let mut command = command(&asked);
            command.env("DYNO_PASSWORD", OsStr::from_bytes(password));
            with_agents(command, agents)
        };
        let mut rows_after = |agents: usize| {
            let made = plain(&format!("oltp prepare --socket {socket} --table-size 1000"));
            assert_eq!(made.code, 0, "{}", made.stderr);
            let result = load(agents, PASSWORD);
            assert_reconciled(&result);
            assert_eq!(result.count("/plan/planned"), 300);
            assert!(!result.stdout.contains("hunter2") && !result.stderr.contains("hunter2"));
            // Increments of rows: the same ones in any order leave the same rows.
            control.exec("USE sbtest").unwrap();
            let question = "SELECT CONCAT_WS(' ', SUM(k * id), BIT_XOR(CRC32(CONCAT(id, ' ', k, c)))) FROM sbtest1";
            let rows = control.query_text(question).unwrap().unwrap();
            control.exec("DROP TABLE sbtest1").unwrap();
            rows
        };
        let alone = rows_after(0);
        assert_eq!(rows_after(2), alone);
        assert_eq!(rows_after(3), alone);
        let refused = load(2, b"wrong");
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("refused user 'loader'"), "{}", refused.stderr);
    });
}

#[test]
fn agents_run_tpcc_and_leave_it_consistent() {
    let Some(server) = PrivateServer::start("agents-tpcc", "agents_run_tpcc_and_leave_it_consistent") else {
        return;
    };
    let socket = server.socket();
    let warehouses = if is_everything() { 2 } else { 1 };
    let made = plain(&format!(
        "tpcc prepare --socket {socket} --database tpcc --warehouses {warehouses}"
    ));
    assert_eq!(made.code, 0, "{}", made.stderr);
    let asked = format!("tpcc run --socket {socket} --database tpcc --connections 8 --duration 3s --quiet");
    let result = with_agents(command(&asked), 2);
    assert_reconciled(&result);
    let new_orders = result.count("/tpcc/transactions/new_order/committed");
    assert!(new_orders > 10, "{}", result.last());
    assert_eq!(result.count("/settings/options/warehouses"), warehouses);
    let checked = plain(&format!("tpcc check --socket {socket} --database tpcc"));
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("dyno-agents-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn with(&self, file: &str, text: &str) -> String {
        let path = self.0.join(file);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn agents_run_scripts_and_files_of_sql_and_draw_what_is_unique_once() {
    let test = "agents_run_scripts_and_files_of_sql_and_draw_what_is_unique_once";
    let Some(server) = PrivateServer::start("agents-files", test) else {
        return;
    };
    let socket = server.socket();
    let mut control = client(&socket);
    let mut one = |question: &str| control.query_text(question).unwrap().unwrap();
    one("SELECT 1");
    let folder = Folder::new("files");
    folder.with("words.csv", "word\nfirst\nsecond\n");
    let file = folder.with(
        "load.sql",
        "-- transaction: add\nINSERT INTO made VALUES ({sequence(1)}, {csv('words.csv', 'word')});\n",
    );
    folder.with(
        "common.lua",
        "function add(value) con:query('INSERT INTO drawn VALUES (' .. value .. ')') end\n",
    );
    let script = folder.with(
        "load.lua",
        "require('common')\n\
         function connect() con = sysbench.sql.driver():connect() end\n\
         function init() connect() con:query(\"INSERT INTO seen VALUES (-1, 'init')\") end\n\
         function thread_init() connect() con:query('INSERT INTO seen VALUES (' .. sysbench.tid .. \", 'begins')\") end\n\
         function event() add(sysbench.rand.unique()) end\n\
         function thread_done() con:query('INSERT INTO seen VALUES (' .. sysbench.tid .. \", 'ends')\") end\n",
    );
    let mut control = client(&socket);
    control
        .exec(
            "CREATE DATABASE own; USE own; CREATE TABLE made (id BIGINT PRIMARY KEY, word VARCHAR(20)); CREATE TABLE drawn \
             (id BIGINT PRIMARY KEY); CREATE TABLE seen (tid INT, what VARCHAR(20), PRIMARY KEY (tid, what))",
        )
        .unwrap();
    let options = format!("--socket {socket} --database own --connections 5 --duration 500ms --quiet");
    let result = with_agents(command(&format!("sql run {file} {options}")), 2);
    assert_reconciled(&result);
    let rows = one("SELECT CONCAT(COUNT(*), ' ', COUNT(DISTINCT word)) FROM own.made");
    assert_eq!(rows, format!("{} 2", result.count("/whole_load_counts/transactions")));
    let result = with_agents(command(&format!("script {script} {options} run")), 2);
    assert_reconciled(&result);
    let rows = one("SELECT COUNT(*) FROM own.drawn");
    assert_eq!(rows, result.count("/whole_load_counts/transactions").to_string());
    let seen = one("SELECT GROUP_CONCAT(CONCAT(what, tid) ORDER BY tid, what) FROM own.seen");
    let each = (0..5).map(|tid| format!("begins{tid},ends{tid}")).collect::<Vec<_>>();
    assert_eq!(seen, format!("init-1,{}", each.join(",")));
}
