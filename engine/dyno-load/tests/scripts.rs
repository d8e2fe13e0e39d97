//! sysbench's scripts under dynoload, as the server saw them; and scripts of our own, good and bad.
//!
//! DYNO_TEST_SERVER_SOCKET is a server's socket (root without password). DYNO_TEST_SYSBENCH is the command that runs
//! sysbench 1.0.20, DYNO_TEST_SYSBENCH_SHARE its folder of Lua scripts.

mod common;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use common::{assert_ended, assert_sound, client, plain, run, variable};
use dyno_mysql::blocking::Client;

/// The general log and the server's counters are of the whole server: one test at a time.
static SERVER: Mutex<()> = Mutex::new(());
const SCRIPTS: [&str; 10] = [
    "oltp_read_only",
    "oltp_read_write",
    "oltp_write_only",
    "oltp_point_select",
    "oltp_insert",
    "oltp_delete",
    "oltp_update_index",
    "oltp_update_non_index",
    "select_random_points",
    "select_random_ranges",
];

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

    fn sysbench(&self, database: &str, arguments: &str) {
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
        assert!(output.status.success(), "sysbench {arguments}: {text}");
    }

    /// A script of sysbench's package by dynoload.
    fn dynoload(&self, database: &str, script: &str, arguments: &str) {
        let line = format!(
            "script {}/{script}.lua --mysql-socket={} --mysql-db={database} {arguments}",
            self.share, self.socket
        );
        let done = plain(&line);
        // On a busy host a short load may be INVALID for having too few transactions; what it sent is compared.
        assert!([0, 4].contains(&done.code), "{line}: {} {}", done.code, done.stderr);
    }
}

/// What the connection that used the tables sent: command and text, numbers left out.
fn logged(control: &mut Client, load: &dyn Fn()) -> Vec<String> {
    control
        .exec("SET GLOBAL general_log = OFF; TRUNCATE mysql.general_log; SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON")
        .unwrap();
    load();
    control.exec("SET GLOBAL general_log = OFF").unwrap();
    let question = "SELECT command_type, CONVERT(argument USING utf8) FROM mysql.general_log WHERE thread_id IN (SELECT \
                    thread_id FROM mysql.general_log WHERE argument REGEXP 'sbtest[0-9]' AND argument NOT LIKE '%general_log%') \
                    AND command_type IN ('Prepare', 'Execute', 'Query') ORDER BY event_time";
    let rows = control.query(question).unwrap().texts();
    rows.into_iter()
        .map(|row| format!("{} {}", row[0].as_deref().unwrap(), masked(row[1].as_deref().unwrap())))
        .collect()
}

/// Each number becomes one '#', strings of digits too.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut in_name = false;
    for character in text.chars() {
        let digit = character.is_ascii_digit() || character == '-';
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
fn scripts_of_the_package_send_what_they_send_under_sysbench() {
    let test = "scripts_of_the_package_send_what_they_send_under_sysbench";
    let Some(bench) = Bench::find(test) else { return };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut control = client(&bench.socket);
    let database = "dyno_scripts";
    let tables = "--tables=2 --table-size=300";
    control
        .exec(&format!(
            "DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}"
        ))
        .unwrap();
    // The text of multi-row inserts is the same too.
    let made = [
        logged(&mut control, &|| {
            bench.sysbench(database, &format!("{tables} oltp_read_write prepare"))
        }),
        logged(&mut control, &|| {
            bench.dynoload(database, "oltp_read_write", &format!("{tables} cleanup"));
            bench.dynoload(database, "oltp_read_write", &format!("{tables} prepare"));
        }),
    ];
    let inserts = |log: &[String]| -> Vec<String> {
        log.iter()
            .filter(|text| text.starts_with("Query INSERT"))
            .cloned()
            .collect()
    };
    assert_eq!(inserts(&made[0]).len(), 2, "{:?}", made[0]);
    assert_eq!(inserts(&made[0]), inserts(&made[1]));
    bench.dynoload(database, "oltp_read_write", &format!("{tables} cleanup"));
    for script in SCRIPTS {
        // Each program prepares the tables of half of the scripts.
        match script.len() % 2 {
            0 => bench.dynoload(database, "oltp_read_write", &format!("{tables} prepare")),
            _ => bench.sysbench(database, &format!("{tables} oltp_read_write prepare")),
        }
        let options = if script.starts_with("select") {
            "--table-size=300"
        } else {
            tables
        };
        let theirs = logged(&mut control, &|| {
            bench.sysbench(database, &format!("{options} --events=4 --time=0 {script} run"));
        });
        assert!(theirs.len() >= 4, "{script}: {theirs:?}");
        // Longer where a busy host did not get through as many statements.
        let mut ours = Vec::new();
        for duration in ["100ms", "2s", "20s"] {
            if ours.len() < theirs.len() {
                ours = logged(&mut control, &|| {
                    bench.dynoload(
                        database,
                        script,
                        &format!("{options} --duration {duration} --quiet run"),
                    );
                });
                ours.retain(|text| !text.starts_with("Query SET SESSION wait_timeout"));
            }
        }
        assert!(ours.len() >= theirs.len(), "{script}: {} statements", ours.len());
        assert_eq!(ours[..theirs.len()], theirs[..], "{script}");
        bench.dynoload(database, "oltp_read_write", &format!("{tables} cleanup"));
    }
    control.exec(&format!("DROP DATABASE {database}")).unwrap();
}

#[test]
fn bulk_inserts_are_as_long_as_those_of_sysbench() {
    let test = "bulk_inserts_are_as_long_as_those_of_sysbench";
    let Some(bench) = Bench::find(test) else { return };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut control = client(&bench.socket);
    let database = "dyno_bulk";
    control
        .exec(&format!(
            "DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}"
        ))
        .unwrap();
    let mut rows = || {
        let most = "SELECT COUNT(*) FROM dyno_bulk.sbtest1";
        let count: u64 = control.query_text(most).unwrap().unwrap().parse().unwrap();
        control.exec("DROP TABLE dyno_bulk.sbtest1").unwrap();
        count
    };
    bench.sysbench(database, "--threads=1 bulk_insert prepare");
    // One row more than fits into a statement, and the rest at the end.
    bench.sysbench(database, "--threads=1 --time=0 --events=50000 bulk_insert run");
    assert_eq!(rows(), 50_000);
    bench.dynoload(database, "bulk_insert", "prepare");
    bench.dynoload(database, "bulk_insert", "--connections 1 --duration 300ms --quiet run");
    assert!(rows() > 1000);
    control.exec(&format!("DROP DATABASE {database}")).unwrap();
}

struct Folder(PathBuf);

impl Folder {
    fn with(name: &str, text: &str) -> (Folder, String) {
        let folder = std::env::temp_dir().join(format!("dyno-scripts-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("mine.lua");
        std::fs::write(&file, text).unwrap();
        (Folder(folder), file.display().to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn results_values_second_connections_and_errors_are_as_the_interface_says() {
    let test = "results_values_second_connections_and_errors_are_as_the_interface_says";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut control = client(&socket);
    for sql in [
        "DROP PROCEDURE IF EXISTS mysql.dyno_two",
        "CREATE PROCEDURE mysql.dyno_two() BEGIN SELECT 1, 2 UNION SELECT 3, 4; SELECT 5; END",
    ] {
        control.exec(sql).unwrap();
    }
    let (_folder, file) = Folder::with("api", include_str!("scripts/interface.lua"));
    for prepared in ["auto", "disable"] {
        let result = run(&format!(
            "script {file} --socket {socket} --database mysql --limit=7 --flag --words=x,y --connections 3 --threads 3 \
             --db-ps-mode={prepared} --duration 500ms run"
        ));
        assert_sound(&result, prepared);
        assert!(result.count("/counts/transactions") > 0);
        // Each event has one statement that fails, and the script handles it.
        assert!(result.count("/whole_load_counts/ignored_errors") >= result.count("/counts/transactions"));
    }
}

#[test]
fn scripts_for_sysbench_0_5_have_their_functions_and_options_and_events_end_a_load() {
    let test = "scripts_for_sysbench_0_5_have_their_functions_and_options_and_events_end_a_load";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut control = client(&socket);
    control
        .exec("DROP DATABASE IF EXISTS dyno_old; CREATE DATABASE dyno_old")
        .unwrap();
    let (_folder, file) = Folder::with("old", include_str!("scripts/old.lua"));
    let options = format!("--socket {socket} --database dyno_old --old-rows=40");
    let refused = plain(&format!("script {file} {options} --old-rowz=1 prepare"));
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("there is no option --old-rowz"),
        "{}",
        refused.stderr
    );
    let prepared = plain(&format!("script {file} {options} prepare"));
    assert_eq!(prepared.code, 0, "{}", prepared.stderr);
    let result = run(&format!(
        "script {file} {options} --connections 3 --events=50 --time=0 --quiet run"
    ));
    assert_ended(&result, test);
    assert_eq!(result.count("/counts/transactions"), 50);
    assert!((0.0..60.0).contains(&result.number("/duration_s")), "{}", result.last());
    for check in result.last()["reconciliation"].as_array().unwrap() {
        assert_eq!(check["difference_pct"], 0.0, "{check}");
    }
    let sums = control.query_text("SELECT CONCAT(COUNT(*), ' ', SUM(n), ' ', MAX(name)) FROM dyno_old.old");
    assert_eq!(sums.unwrap().unwrap(), "40 50 x9");
    control.exec("DROP DATABASE dyno_old").unwrap();
}

#[test]
fn habits_of_scripts_for_sysbench_work() {
    let test = "habits_of_scripts_for_sysbench_work";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut control = client(&socket);
    control
        .exec("DROP DATABASE IF EXISTS dyno_habits; CREATE DATABASE dyno_habits")
        .unwrap();
    let (_folder, file) = Folder::with("habits", include_str!("scripts/habits.lua"));
    let options = format!("--socket {socket} --database dyno_habits");
    let prepared = plain(&format!("script {file} {options} prepare"));
    assert_eq!(prepared.code, 0, "{}", prepared.stderr);
    let result = run(&format!(
        "script {file} {options} --connections 3 --threads 1 --events=90 --time=0 --interval 20ms --quiet run"
    ));
    assert_ended(&result, test);
    assert_eq!(result.count("/counts/transactions"), 90);
    assert_eq!(result.count("/counts/ignored_errors"), 90, "what the script counted");
    assert!(
        result.stderr.contains("habit: 90 events, 90 errors, sum 90"),
        "{}",
        result.stderr
    );
    for check in result.last()["reconciliation"].as_array().unwrap() {
        assert_eq!(check["difference_pct"], 0.0, "{check}");
    }
    control.exec("DROP DATABASE dyno_habits").unwrap();
}

#[test]
fn a_bad_script_ends_with_its_file_and_line() {
    let test = "a_bad_script_ends_with_its_file_and_line";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let start = "function thread_init() con = sysbench.sql.driver():connect() end\n";
    for (event, code, expected) in [
        (
            "function event( end",
            2,
            "mine.lua:2: <name> or '...' expected near 'end'",
        ),
        (
            "function event()\n  con:query('SELEC')\nend",
            1,
            "mine.lua:3: SQL error, errno = 1064",
        ),
        (
            "function event()\n  con:query('DO 1')\n  while true do end\nend",
            1,
            "mine.lua:4: the script has computed for 0.3 s",
        ),
        (
            "function event()\n  local t = {}\n  for i = 1, 1e8 do t[i] = 'x' .. i end\nend",
            1,
            "needs more memory than 16 MiB",
        ),
        (
            "function event()\n  nothing.here = 1\nend",
            1,
            "mine.lua:3: attempt to index global 'nothing'",
        ),
        (
            "function event()\n  con:query('DO 1')\n  pcall(function() while true do end end)\n  con:query('DO 2')\nend",
            1,
            "mine.lua:4: the script has computed for 0.3 s",
        ),
        (
            "function event()\n  con:query('DO 1')\n  con:query(('x'):rep(1e9))\nend",
            1,
            "needs more memory than 16 MiB",
        ),
        (
            "function event()\n  sysbench.rand.uniform('x', {})\nend",
            1,
            "mine.lua:3: bad argument #1 to 'sysbench.rand.uniform' (number expected, got string)",
        ),
        ("function event()\n  error({ 7 })\nend", 1, "mine.lua:3: the error is a table"),
        ("function event()\n  error('why', 0)\nend", 1, "mine.lua:3: why"),
        (
            "function event()\n  coroutine.yield(7)\nend",
            1,
            "mine.lua:3: coroutine.yield() is called outside",
        ),
        (
            "local function deep() return 1 + deep() end\nfunction event() deep() end",
            1,
            "has used up Lua's stack",
        ),
        ("dofile('/no/file.lua')", 2, "mine.lua:2: '/no/file.lua' cannot be read"),
        ("function event()\n  db_query('SELEC')\nend", 1, "mine.lua:3: SQL error, errno = 1064"),
        (
            "con = sysbench.sql.driver():connect()\ncon:query('DO 1')\nfunction event() end",
            2,
            "mine.lua:3: statements outside of functions are not supported",
        ),
        ("-- no event", 2, "has no function event()"),
    ] {
        let (_folder, file) = Folder::with("bad", &format!("{start}{event}"));
        // On a busy host memory is used up slowly.
        let limit = if expected.contains("memory") { "60s" } else { "300ms" };
        let limits = format!("--script-time-limit {limit} --script-memory 16");
        let result = plain(&format!(
            "script {file} --socket {socket} --database mysql --duration 60s --quiet {limits} run"
        ));
        assert_eq!(result.code, code, "{event}: {}", result.stderr);
        assert!(result.stderr.contains(expected), "{event}: {}", result.stderr);
    }
}

#[test]
fn a_script_that_sleeps_on_the_thread_of_other_connections_is_named() {
    let test = "a_script_that_sleeps_on_the_thread_of_other_connections_is_named";
    let Some(socket) = variable("DYNO_TEST_SERVER_SOCKET", test) else {
        return;
    };
    let _alone = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let text =
        "ffi.cdef('int usleep(unsigned int);')\nfunction thread_init()\n  con = sysbench.sql.driver():connect()\nend\n\
                function event()\n  con:query('DO 1')\n  ffi.C.usleep(20000)\nend";
    let (_folder, file) = Folder::with("sleeps", &format!("local ffi = require('ffi')\n{text}"));
    let held = |threads: u32| {
        let result = run(&format!(
            "script {file} --socket {socket} --database mysql --connections 4 --threads {threads} --warmup 0s \
             --duration 500ms --quiet run"
        ));
        result.last()["verdict"].to_string().contains("script_held")
    };
    assert!(held(1) && !held(4));
}
