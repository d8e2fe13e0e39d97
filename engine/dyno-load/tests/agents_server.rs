//! Agents against a real server: what they did is what it counted, and what one program alone would have done to its rows.
//!
//! DYNO_TEST_SERVER_COMMAND starts a private server (see common/mod.rs).
//!
//! Slices and memcached's operations from agents, which are reached by Unix sockets.
//!
//! DYNO_TEST_MEMCACHED is a memcached program.

mod common;
#[path = "common/held.rs"]
mod held;
#[path = "common/memcached.rs"]
mod memcached;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, Receiver};

use common::freeze::on_a_still_host;
use common::{
    assert_ended, client, command, is_everything, parse, plain, signal, NullServer, PrivateServer, Run, PROGRAM,
};
use held::{assert_reconciled as assert_slices_reconciled, count, number, transactions, Held};
use memcached::Memcached;
use nix::sys::signal::Signal;

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

/// A socket that leads to an agent for each connection.
struct Door {
    path: PathBuf,
    /// The agents' processes.
    pids: Receiver<u32>,
}

impl Door {
    fn open(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dynoload-{name}-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let (started, pids) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut child = Command::new(PROGRAM)
                    .arg("agent")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                started.send(child.id()).unwrap();
                let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
                let from = stream.try_clone().unwrap();
                std::thread::spawn(move || pump(from, input));
                std::thread::spawn(move || {
                    pump(output, stream.try_clone().unwrap());
                    let _ = stream.shutdown(Shutdown::Both);
                    child.wait().unwrap();
                });
            }
        });
        Self { path, pids }
    }

    fn option(&self) -> String {
        format!("--agent unix:{}", self.path.display())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn pump(mut from: impl Read, mut to: impl Write) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
            break;
        }
    }
}

#[test]
fn agents_load_in_slices_and_hold_in_between() {
    let (server, door) = (NullServer::start(), Door::open("slices"));
    let port = server.port();
    let mut held = Held::start(&format!(
        "oltp run --any-server --workload oltp_read_only --port {port} --connections 6 --server-pid {} {} {}",
        std::process::id(),
        door.option(),
        door.option()
    ));
    assert_eq!(held.ready["connections"], 6);
    for (stream, washout_ms) in [(1, 300), (2, 0)] {
        let slice = held.slice_that(stream, washout_ms, 300, |slice| {
            count(slice, "/counts/transactions") > 0 && number(slice, "/length_s") > 0.1
        });
        // What was under way at the end counts by what it has waited where the server, or this host, stood still.
        let ended = count(&slice, "/counts/transactions");
        let counted = count(&slice, "/response/count");
        assert!(
            (ended..=ended + count(&slice, "/end/in_flight_at_hold")).contains(&counted),
            "{slice}"
        );
        assert!(number(&slice, "/cpu/user_us") + number(&slice, "/cpu/system_us") > 0.0);
        // Read by this side, where the server is.
        assert!(
            slice["server_cpu_us"].is_f64() && slice["host_cpu"].is_object(),
            "{slice}"
        );
    }
    let pid = door.pids.recv().unwrap();
    signal(pid, Signal::SIGKILL);
    held.send("go s3 3 0 300");
    let failed = held.next("failed");
    let message = failed["message"].as_str().unwrap();
    assert!(
        message.contains("agent 'unix:") && message.contains("closed"),
        "{message}"
    );
    assert_eq!(held.exit_code(), 1);
}

#[test]
fn a_socket_without_a_listener_is_refused() {
    let refused = parse(
        command("oltp run --any-server --port 1 --workload connect --agent unix:/nowhere")
            .output()
            .unwrap(),
    );
    assert_ne!(refused.code, 0);
}

#[test]
fn agents_do_with_memcached_what_it_counts() {
    let test = "agents_do_with_memcached_what_it_counts";
    let Some(server) = Memcached::start(test, &[]) else {
        return;
    };
    let door = Door::open("kv");
    let load = format!(
        "kv run --port {} --connections 6 --keys 500 --fill 100% --ratio 80:20 --verify 100% {} {}",
        server.port,
        door.option(),
        door.option()
    );
    let result = parse(command(&format!("{load} --quiet --duration 1s")).output().unwrap());
    assert!(matches!(result.code, 0 | 4), "{}", result.stderr);
    assert_eq!(result.last()["agents"].as_array().unwrap().len(), 2);
    assert!(result.count("/kv/counts/verified") > 0);
    assert_eq!(result.count("/kv/counts/wrong_values"), 0);
    assert_eq!(result.count("/kv/counts/get_misses"), 0);
    for check in result.last()["reconciliation"].as_array().unwrap() {
        assert_eq!(check["server"], check["client"], "{check}");
    }
    let mut held = Held::start(&load);
    let slice = held.slice_that(1, 100, 300, |slice| transactions(slice) > 100);
    assert_slices_reconciled(&slice, &["cmd_get", "cmd_set"]);
    held.end();
    let refused = parse(
        command(&format!("kv run --preset memslap {}", door.option()))
            .output()
            .unwrap(),
    );
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--preset"), "{}", refused.stderr);
}
