//! Slices of SQL against a real server: connections that stay, counts, streams, the hold.
//!
//! DYNO_TEST_SERVER_COMMAND starts a private server (see common/mod.rs).

mod common;
#[path = "common/held.rs"]
mod held;

use std::time::{Duration, Instant};

use common::client;
use dyno_mysql::blocking::Client;
use held::{assert_reconciled, connection_ids, count, cpu_ticks, number, server, transactions, Held, TABLE};
use serde_json::Value;

fn status(control: &mut Client, name: &str) -> u64 {
    let answer = control.query(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).unwrap();
    answer.texts()[0][1].as_deref().unwrap().parse().unwrap()
}

#[test]
fn slices_keep_the_connections_and_count_what_the_server_counts() {
    let test = "slices_keep_the_connections_and_count_what_the_server_counts";
    let Some((_server, socket)) = server("slices", test) else {
        return;
    };
    let mut control = client(&socket);
    let mut held = Held::start(&format!(
        "oltp run --workload oltp_read_only --socket {socket} {TABLE} --connections 6 --threads 2"
    ));
    assert_eq!(held.ready["connections"], 6);
    assert!(number(&held.ready, "/connect_s") > 0.0);
    assert_eq!(held.header["settings"]["slices"], true);
    assert!(held.header["settings"].get("duration_s").is_none());
    let (connections, aborted) = (
        status(&mut control, "Connections"),
        status(&mut control, "Aborted_clients"),
    );
    for stream in 1..5 {
        let slice = held.slice_that(stream, 300, 300, has_regular_times);
        assert_reconciled(&slice, &["Com_select", "Com_begin", "Com_commit", "Questions"]);
        assert_eq!(count(&slice, "/response/count"), count(&slice, "/counts/transactions"));
        assert_eq!(
            count(&slice, "/queries"),
            count(&slice, "/counts/reads") + count(&slice, "/counts/writes") + count(&slice, "/counts/other")
        );
        assert!(number(&slice, "/cpu/user_us") + number(&slice, "/cpu/system_us") > 0.0);
        assert!(count(&slice, "/traffic/wire_sent_bytes") > 0);
        assert_eq!(count(&slice, "/end/unfinished"), 0);
        assert!(slice["server_cpu_us"].is_null(), "{slice}");
    }
    assert_eq!(status(&mut control, "Connections"), connections);
    assert_eq!(connection_ids(&mut control).len(), 7);
    held.end();
    // The connections were closed in order: nobody was cut off.
    assert_eq!(status(&mut control, "Aborted_clients"), aborted);
}

/// Whether washout and counted part have load, and the times of both workers agree: a worker crosses the limits later than
/// the other on a busy host, which the mean of both, the busiest one, and the host's CPU time, read by the first, show.
fn has_regular_times(slice: &Value) -> bool {
    let (counted, length_s) = (count(slice, "/counts/transactions"), number(slice, "/length_s"));
    let host_s: f64 = ["user_s", "system_s", "idle_s", "iowait_s", "steal_s", "irq_s"]
        .iter()
        .map(|name| number(slice, &format!("/host_cpu/{name}")))
        .sum();
    let cpus = std::fs::read_to_string("/proc/stat").unwrap().matches("\ncpu").count() as f64;
    // The washout is in the whole alone. How much was served in it depends on the host.
    counted > 0
        && transactions(slice) > counted
        && length_s > 0.1
        && number(slice, "/cpu/busiest_worker_us") < length_s * 1.1e6
        && (host_s / cpus - length_s).abs() < 0.1 + 0.5 * length_s
}

/// The statements of one connection in slices, each the text that the server logged.
fn logged(control: &mut Client, held: &mut Held, command: &str) -> Vec<String> {
    control
        .exec("SET GLOBAL general_log = 0; TRUNCATE mysql.general_log; SET GLOBAL general_log = 1")
        .unwrap();
    held.slice(command);
    control.exec("SET GLOBAL general_log = 0").unwrap();
    let question = "SELECT CONVERT(argument USING latin1) FROM mysql.general_log WHERE command_type = 'Query' AND \
                    argument LIKE '%sbtest1%' AND argument NOT LIKE '%general_log%'";
    let answer = control.query(question).unwrap();
    answer.texts().into_iter().map(|row| row[0].clone().unwrap()).collect()
}

#[test]
fn a_stream_has_the_same_operations_in_every_process_and_another_has_others() {
    let test = "a_stream_has_the_same_operations_in_every_process_and_another_has_others";
    let Some((_server, socket)) = server("streams", test) else {
        return;
    };
    let mut control = client(&socket);
    control.exec("SET GLOBAL log_output = 'TABLE'").unwrap();
    let start = || {
        Held::start(&format!(
            "oltp run --workload oltp_read_only --socket {socket} {TABLE} --connections 1 --db-ps-mode disable"
        ))
    };
    let (mut first, mut second) = (start(), start());
    // One transaction is ten rows at random and four ranges: on a busy host it may take longer than a slice.
    let mut whole = |held: &mut Held, command: &str| {
        (0..6)
            .map(|round| logged(&mut control, held, &command.replace("MS", &(600 << round).to_string())))
            .find(|statements| statements.len() >= 14)
            .expect("no slice had a whole transaction")
    };
    let original = whole(&mut first, "go a 7 0 MS");
    let other = whole(&mut first, "go b 8 0 MS");
    let again = whole(&mut first, "go c 7 0 MS");
    let elsewhere = whole(&mut second, "go d 7 0 MS");
    let washout = whole(&mut second, "go e 7 MS 1");
    let same = |left: &[String], right: &[String]| {
        let length = left.len().min(right.len());
        left[..length] == right[..length]
    };
    assert!(same(&original, &again));
    assert!(same(&original, &elsewhere));
    assert!(!same(&original, &other));
    assert!(!same(&original, &washout));
    first.end();
    second.end();
}

#[test]
fn on_hold_no_statement_is_sent_and_no_cpu_is_used() {
    let test = "on_hold_no_statement_is_sent_and_no_cpu_is_used";
    let Some((_server, socket)) = server("hold", test) else {
        return;
    };
    let mut control = client(&socket);
    for rest in ["", "--think-time exponential:20ms", "--rate 300 --arrivals poisson"] {
        let mut held = Held::start(&format!(
            "oltp run --workload oltp_point_select --socket {socket} {TABLE} --connections 8 --threads 2 {rest}"
        ));
        held.slice("go a 1 0 200");
        let (questions, activity) = (status(&mut control, "Questions"), held.settled_activity());
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(status(&mut control, "Questions"), questions + 1, "{rest}");
        assert_eq!(held.activity(), activity, "{rest}");
        let slice = held.slice_that(2, 0, 200, |slice| transactions(slice) > 0);
        assert_reconciled(&slice, &["Com_select", "Questions"]);
        held.end();
    }
}

#[test]
fn a_plan_starts_anew_in_each_slice_and_think_times_go_on() {
    let test = "a_plan_starts_anew_in_each_slice_and_think_times_go_on";
    let Some((_server, socket)) = server("plans", test) else {
        return;
    };
    let base = format!("oltp run --workload oltp_point_select --socket {socket} {TABLE} --connections 4 --threads 2");
    let mut held = Held::start(&format!("{base} --rate 200"));
    for stream in 1..4 {
        let slice = held.slice_of_whole_plan(&format!("go s {stream} 100 500"));
        assert_eq!(count(&slice, "/end/planned"), 100);
        assert_eq!(count(&slice, "/response/count"), 100);
        assert_eq!(
            count(&slice, "/counts/transactions") + count(&slice, "/end/ended_after_stop"),
            100
        );
        assert_eq!(count(&slice, "/lag/count"), 100);
        assert_reconciled(&slice, &["Com_select"]);
    }
    held.end();
    // Four connections that pause 200 ms. The pauses run while there is load, the drain included, and stand still on hold: the
    // transactions of a connection are 200 ms of load apart, wherever slices cut it. Starting anew would give 40.
    let mut held = Held::start(&format!("{base} --think-time 200ms"));
    let (mut ended, mut load_s) = (0, 0.0);
    for stream in 0..100 {
        let began = Instant::now();
        ended += transactions(&held.slice(&format!("go s {stream} 0 100")));
        load_s += began.elapsed().as_secs_f64(); // at most: on a busy host a slice ends late, or passes without load
        if stream >= 9 && ended >= 12 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let most = 4.0 * (load_s / 0.2 + 1.0);
    assert!(ended >= 12 && ended as f64 <= most, "{ended} in {load_s} s of load");
    held.end();
}

#[test]
fn a_think_time_that_begins_in_the_drain_goes_on_in_the_next_slice() {
    let test = "a_think_time_that_begins_in_the_drain_goes_on_in_the_next_slice";
    let Some((server, socket)) = server("drains", test) else {
        return;
    };
    let file = server.folder.join("wait.sql");
    std::fs::write(&file, "-- transaction: wait\nSELECT SLEEP(0.1);\n").unwrap();
    let mut held = Held::start(&format!(
        "sql run {} --socket {socket} --database sbtest --connections 2 --think-time 2s",
        file.display()
    ));
    // Transactions are under way when their slice ends. Without the think time each slice would have two.
    let (mut ended, mut load_s) = (0, 0.0);
    for stream in 0..100 {
        let began = Instant::now();
        ended += transactions(&held.slice(&format!("go s {stream} 0 50")));
        load_s += began.elapsed().as_secs_f64();
        if stream >= 9 && ended > 0 {
            break;
        }
    }
    let most = 2.0 * (load_s / 2.0 + 1.0);
    assert!(ended > 0 && ended as f64 <= most, "{ended} in {load_s} s of load");
    held.end();
}

#[test]
fn what_a_slice_cuts_counts_by_the_share_of_its_time_in_it() {
    let test = "what_a_slice_cuts_counts_by_the_share_of_its_time_in_it";
    let Some((server, socket)) = server("cuts", test) else {
        return;
    };
    let file = server.folder.join("long.sql");
    std::fs::write(&file, "-- transaction: long\nSELECT SLEEP(0.3);\n").unwrap();
    let mut held = Held::start(&format!(
        "sql run {} --socket {socket} --database sbtest --connections 2",
        file.display()
    ));
    // By their ends there would be 2, 2, 4 and none.
    for (stream, (washout_ms, measure_ms)) in [(100, 400), (0, 500), (200, 700), (50, 200)].into_iter().enumerate() {
        let slice = held.slice(&format!("go s {stream} {washout_ms} {measure_ms}"));
        let expected = 2.0 * number(&slice, "/length_s") / 0.3;
        for (ended, cut) in [
            ("/counts/transactions", "/cut/transactions"),
            ("/queries", "/cut/queries"),
        ] {
            let done = number(&slice, ended) + number(&slice, cut);
            assert!(
                done < 1.01 * expected && done > 0.75 * expected,
                "{ended}: {done} of {expected}, {slice}"
            );
        }
    }
    held.end();
}

#[test]
fn each_kind_of_session_works_across_slices() {
    let test = "each_kind_of_session_works_across_slices";
    let Some((_server, socket)) = server("kinds", test) else {
        return;
    };
    for rest in [
        "--workload oltp_write_only --connections 3 --compression zlib",
        "--workload oltp_read_write --connections 40 --threads 4",
        "--workload oltp_insert --auto-inc off --connections 2",
        "--workload oltp_point_select --connections 2 --db-ps-mode disable",
    ] {
        let mut held = Held::start(&format!("oltp run --socket {socket} {TABLE} {rest}"));
        for stream in 0..3 {
            assert_reconciled(&held.slice_with_load(stream, 100, 200), &["Questions"]);
        }
        held.end();
    }
    let mut control = client(&socket);
    let mut held = Held::start(&format!(
        "oltp run --workload connect --socket {socket} {TABLE} --connections 4"
    ));
    for stream in 0..3 {
        let connections = status(&mut control, "Connections");
        let slice = held.slice(&format!("go s {stream} 50 200"));
        let made = status(&mut control, "Connections") - connections;
        assert_eq!(transactions(&slice), made);
    }
    held.end();
}

#[test]
fn each_slice_has_what_the_rules_on_the_load_find_in_all_so_far() {
    let test = "each_slice_has_what_the_rules_on_the_load_find_in_all_so_far";
    let Some((_server, socket)) = server("findings", test) else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("dynoload-findings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (sql, lua) = (folder.join("found.sql"), folder.join("sleeps.lua"));
    let there = "SELECT k FROM sbtest1 WHERE id = {uniform(1, 1000)};\n";
    std::fs::write(
        &sql,
        format!("{there}-- name: nowhere\nSELECT k FROM sbtest1 WHERE id = 0;\n"),
    )
    .unwrap();
    let event = "con:query('SELECT k FROM sbtest1 WHERE id = 1') ffi.C.usleep(5000)";
    let text = format!(
        "local ffi = require('ffi') ffi.cdef('int usleep(unsigned int);')\n\
         function thread_init() con = sysbench.sql.driver():connect() end\nfunction event() {event} end\n"
    );
    std::fs::write(&lua, text).unwrap();
    for (load, rule) in [
        (format!("sql run {} --connections 2", sql.display()), "empty_reads"),
        (
            format!("script {} --connections 4 --threads 1", lua.display()),
            "script_held",
        ),
    ] {
        let mut held = Held::start(&format!("{load} --socket {socket} --database sbtest"));
        for stream in 0..2 {
            let slice = held.slice_with_load(stream, 50, 200);
            let findings = slice["findings"].as_array().unwrap();
            assert_eq!(findings.len(), 1, "{slice}");
            assert_eq!(
                (&findings[0]["rule"], &findings[0]["level"]),
                (&rule.into(), &"SUSPECT".into())
            );
        }
        held.end();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_cpu_time_of_the_server_is_that_of_proc() {
    let test = "the_cpu_time_of_the_server_is_that_of_proc";
    let Some((server, socket)) = server("cpu", test) else {
        return;
    };
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let load = format!("oltp run --workload oltp_point_select --socket {socket} {TABLE} --connections 2");
    let mut gone = Held::start(&format!("{load} --server-pid {}", ended.id()));
    assert!(gone.slice("go a 1 0 100")["server_cpu_us"].is_null());
    gone.end();
    let mut held = Held::start(&format!("{load} --server-pid {}", server.id));
    held.slice("go a 1 0 300");
    // Without a washout nothing but the counted part, a drain of two selects and two readings of counters is in between.
    let (mut before, mut ticks) = (cpu_ticks(server.id), 0);
    let slice = held.slice_that(2, 0, 1500, |_| {
        let now = cpu_ticks(server.id);
        ticks = now - std::mem::replace(&mut before, now);
        ticks > 30
    });
    let (seen_s, expected_s) = (number(&slice, "/server_cpu_us") / 1e6, ticks as f64 / 100.0);
    assert!(
        (seen_s - expected_s).abs() <= 0.03,
        "{seen_s} s, {expected_s} s in /proc"
    );
    held.end();
}
