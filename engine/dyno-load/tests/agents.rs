//! Load from several agents, here all on this host, against the null server: requests, reports, refusals.

mod common;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use common::freeze::on_a_still_host;
use common::{command, parse, plain, run, NullServer, Run, PROGRAM};

fn base(server: &NullServer, rest: &str) -> String {
    format!("oltp run --any-server --quiet --port {} {rest}", server.port())
}

/// Adds so many agents on this host.
fn with_agents(mut command: Command, count: usize) -> Command {
    for _ in 0..count {
        command.arg(format!("--agent='{PROGRAM}' agent"));
    }
    command
}

fn run_with_agents(arguments: &str, count: usize) -> Run {
    parse(with_agents(command(arguments), count).output().unwrap())
}

#[test]
fn agents_do_together_exactly_what_the_plan_says() {
    on_a_still_host("agents_do_together_exactly_what_the_plan_says", || {
        let server = NullServer::start();
        let log = std::env::temp_dir().join(format!("dynoload-agents-{}.hlog", std::process::id()));
        let arguments = format!(
        "--workload oltp_read_write --connections 9 --threads 2 --rate 100..500@1s --warmup 300ms --duration 1s --interval 250ms \
         --hdr {}",
        log.display()
    );
        let result = run_with_agents(&base(&server, &arguments), 2);
        assert_eq!(result.count("/plan/planned"), 300, "{}", result.stderr);
        let ended = result.count("/counts/transactions") + result.count("/ends/ended_after_stop");
        assert_eq!(
            (ended, result.count("/response/count"), result.count("/lag/count")),
            (300, 300, 300)
        );
        assert_eq!(result.count("/settings/threads"), 4);
        assert_eq!(result.count("/connecting/greeting/count"), 9);
        let alone = run(&base(&server, &arguments));
        assert_eq!(alone.count("/plan/planned"), 300);
        assert_eq!(alone.count("/response/count"), 300);
        assert_eq!(alone.last().get("agents"), None);

        let agents = result.last()["agents"].as_array().unwrap();
        assert_eq!(agents.len(), 2);
        for agent in agents {
            assert_eq!(agent["threads"], 2);
            assert!(agent["command"].as_str().unwrap().ends_with("' agent"), "{agent}");
            // They have this host's clock, so the true offset is 0.
            let (offset_us, error_us) = (agent["clock_offset_us"].as_f64(), agent["clock_error_us"].as_f64());
            assert!(offset_us.unwrap().abs() <= error_us.unwrap(), "{agent}");
            assert!(
                agent["clock_drift_us"].is_f64() && agent["niceness"].is_i64() && agent["priority"].is_string(),
                "{agent}"
            );
        }
        let intervals: Vec<_> = result
            .records
            .iter()
            .filter(|record| record["phase"] == "measure")
            .collect();
        assert_eq!(intervals.len(), 4);
        let transactions = |interval: &&serde_json::Value| interval["counts"]["transactions"].as_u64().unwrap();
        assert_eq!(
            intervals.iter().map(transactions).sum::<u64>(),
            result.count("/counts/transactions")
        );
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(text.matches("Tag=response,").count() >= 4, "{text}");
        std::fs::remove_file(&log).unwrap();
    });
}

#[test]
fn percentiles_are_those_of_all_transactions_together() {
    on_a_still_host("percentiles_are_those_of_all_transactions_together", || {
        let server = NullServer::start();
        let arguments = "--workload oltp_read_only --connections 6 --rate 400 --duration 1s --slowest 1000";
        let result = run_with_agents(&base(&server, arguments), 3);
        let slowest = result.last()["slowest"].as_array().unwrap();
        let mut responses_us: Vec<f64> = slowest
            .iter()
            .map(|slow| slow["response_us"].as_f64().unwrap())
            .collect();
        assert_eq!(responses_us.len(), 400, "{}", result.stderr);
        responses_us.sort_by(f64::total_cmp);
        for (name, percentile) in [("p50_us", 50.0), ("p90_us", 90.0), ("p99_us", 99.0)] {
            let exact = responses_us[(percentile / 100.0 * 400.0_f64).ceil() as usize - 1];
            let seen = result.number(&format!("/response/{name}"));
            assert!(
                seen >= exact * 0.9999 && seen <= exact * 1.002,
                "{name}: {seen} not {exact}"
            );
        }
        assert_eq!(result.number("/response/max_us"), responses_us[399]);
        let mut operations: Vec<u64> = slowest.iter().map(|slow| slow["operation"].as_u64().unwrap()).collect();
        operations.sort_unstable();
        assert_eq!(operations, (0..400).collect::<Vec<u64>>());
        for slow in slowest {
            let (ended_s, operation) = (slow["ended_s"].as_f64().unwrap(), slow["operation"].as_f64().unwrap());
            let due_s = operation / 400.0;
            let response_s = slow["response_us"].as_f64().unwrap() / 1e6;
            assert!((ended_s - due_s - response_s).abs() < 1e-3, "{slow}");
        }
    });
}

/// Passes connections on to a server, and keeps what clients said.
struct Recording {
    port: u16,
    said: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recording {
    fn start(server: &NullServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (all, place) = (Arc::clone(&said), server.place.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&place).unwrap());
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || pass_on(back.0, back.1));
                let all = Arc::clone(&all);
                std::thread::spawn(move || {
                    let bytes = pass_on(client, server);
                    all.lock().unwrap().push(bytes);
                });
            }
        });
        Self { port, said }
    }

    /// Every text statement on the tables, with how often it came, since the last call.
    fn statements(&self, connections: usize) -> BTreeMap<String, u64> {
        dyno_patience::wait_until(10.0, "all connections are closed", || {
            self.said.lock().unwrap().len() >= connections
        });
        let mut seen = BTreeMap::new();
        for bytes in self.said.lock().unwrap().drain(..) {
            let mut rest = &bytes[..];
            while let [low, middle, high, _, after @ ..] = rest {
                let length = usize::from(*low) | usize::from(*middle) << 8 | usize::from(*high) << 16;
                let (packet, next) = after.split_at(length);
                let text = String::from_utf8_lossy(packet);
                if packet[0] == 3 && text.contains("sbtest1") && !text.contains("MAX(id)") {
                    *seen.entry(text.into_owned()).or_default() += 1;
                }
                rest = next;
            }
        }
        seen
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 65536]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        all.extend_from_slice(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // A side that is gone already is what is wanted.
    let _ = to.shutdown(Shutdown::Both);
    all
}

#[test]
fn the_statements_are_those_of_a_run_without_agents() {
    on_a_still_host("the_statements_are_those_of_a_run_without_agents", || {
        let server = NullServer::start();
        let recording = Recording::start(&server);
        let ask = |agents: usize, more: &str| {
            let arguments = format!(
            "oltp run --any-server --quiet --port {} --workload oltp_read_write --db-ps-mode disable --connections 5 \
             --rate 200 --arrivals poisson --duration 1s {more}",
            recording.port
        );
            let result = run_with_agents(&arguments, agents);
            assert!(result.count("/counts/transactions") > 100, "{}", result.stderr);
            // The load's connections, and one of each program for questions.
            recording.statements(5 + 1 + agents)
        };
        let alone = ask(0, "--threads 1");
        assert!(alone.len() > 1000, "{}", alone.len());
        assert!(alone == ask(2, "--threads 2"), "two agents asked something else");
        assert!(alone == ask(3, ""), "three agents asked something else");
        assert!(alone != ask(2, "--seed 2"), "another seed asked the same");
    });
}

#[test]
fn a_trace_needs_to_be_on_the_coordinators_host_only() {
    let server = NullServer::start();
    let folder = std::env::temp_dir().join(format!("dynoload-agents-trace-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("trace"), "0\n0.1\n0.1\n0.4\n5\n").unwrap();
    let arguments = base(
        &server,
        "--workload oltp_point_select --connections 4 --rate trace:trace --duration 1s",
    );
    let mut command = command(&arguments);
    // The agent's folder is another, where there is no such file.
    command
        .arg(format!("--agent=env -C / '{PROGRAM}' agent"))
        .current_dir(&folder);
    let result = parse(command.output().unwrap());
    assert_eq!(result.count("/plan/planned"), 4, "{}", result.stderr);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_agent_that_cannot_do_it_is_named_and_no_load_is_sent() {
    let server = NullServer::start();
    let refuse = |agent: &str, code: i32, words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let arguments = base(&server, "--workload oltp_point_select --connections 2 --duration 1s");
        command
            .args(arguments.split_ascii_whitespace())
            .args(["--agent", agent]);
        let refused = parse(command.output().unwrap());
        assert_eq!(refused.code, code, "{agent}: {}", refused.stderr);
        for word in words {
            assert!(refused.stderr.contains(word), "{agent}: {}", refused.stderr);
        }
    };
    refuse("", 2, &["no command"]);
    refuse("dynoload 'agent", 2, &["quote is not closed"]);
    refuse(
        "/nowhere/dynoload agent",
        2,
        &["/nowhere/dynoload", "cannot be started"],
    );
    refuse(
        "sh -c 'echo no such host >&2; exit 255'",
        3,
        &["agent 'sh -c", "255", "no such host"],
    );
    // It stays until it is left: of one that ended the end may be seen first.
    refuse(
        "sh -c 'echo Welcome; cat'",
        3,
        &["agent 'sh -c", "'Welcome'", "prints nothing else"],
    );
    let other = r#"sh -c 'echo "{\"hello\":{\"protocol\":1,\"version\":\"0.0.7\",\"host\":\"old\",\"cpus\":1}}"; cat'"#;
    refuse(
        other,
        3,
        &["on old is dynoload 0.0.7", "the same program on both hosts"],
    );

    let few = plain(&base(
        &server,
        &format!("--workload oltp_point_select --agent={PROGRAM} --agent={PROGRAM}"),
    ));
    assert_eq!(few.code, 2, "{}", few.stderr);
    assert!(few.stderr.contains("fewer than the 2 agents"), "{}", few.stderr);
    let noted = plain("tpcc run --acknowledged /dev/null --agent x");
    assert_eq!(noted.code, 2);
    assert!(noted.stderr.contains("cannot be used with"), "{}", noted.stderr);
    assert_eq!(plain("kv run --agent x").code, 2);
}

#[test]
fn a_server_that_an_agent_does_not_reach_is_told_with_its_name() {
    let folder = std::env::temp_dir().join(format!("dynoload-agents-socket-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut server = Command::new(PROGRAM)
        .args(["null", "--socket", "s.sock"])
        .current_dir(&folder)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    server.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert!(Path::new(&folder.join("s.sock")).exists());
    let arguments = "oltp run --any-server --quiet --workload oltp_point_select --connections 2 --duration 200ms";
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments.split_ascii_whitespace())
        .args(["--socket", "s.sock"]);
    // From the agent's folder there is no such socket, as from a host without a way to the server.
    command
        .arg(format!("--agent=env -C / '{PROGRAM}' agent"))
        .current_dir(&folder);
    let refused = parse(command.output().unwrap());
    common::signal(server.id(), nix::sys::signal::Signal::SIGTERM);
    server.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("agent 'env -C /") && refused.stderr.contains("no server answers at"),
        "{}",
        refused.stderr
    );
}
