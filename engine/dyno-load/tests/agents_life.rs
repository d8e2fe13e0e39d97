//! Agents that die, hang or are left: the run ends with a message that names them, and no process is left behind.

mod common;

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::freeze::on_a_still_host;
use common::{command, parse, signal, NullServer, Run, PROGRAM};
use nix::sys::signal::Signal;

/// A run with two agents, under way.
struct Started {
    coordinator: Child,
    agents: Vec<u32>,
    began: Instant,
}

fn children(id: u32) -> Vec<u32> {
    // Empty when the process is gone.
    let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    text.split_ascii_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}

fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// Those still alive after at most 4 s: a process that has been sent SIGKILL ends only when it next gets a CPU.
fn left_after_a_while(ids: &[u32]) -> Vec<u32> {
    let deadline = Instant::now() + Duration::from_secs(4);
    loop {
        let left: Vec<u32> = ids.iter().copied().filter(|id| is_alive(*id)).collect();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Started {
    fn start(server: &NullServer, more: &str) -> Self {
        let agent = format!("--agent='{PROGRAM}' agent");
        Self::with(server, more, &[&agent, &agent])
    }

    /// Waits until all agents have threads of a load.
    fn with(server: &NullServer, more: &str, agents: &[&str]) -> Self {
        let arguments = format!(
            "oltp run --any-server --quiet --port {} --workload oltp_point_select --connections 4 {more}",
            server.port()
        );
        let mut command = command(&arguments);
        command.args(agents).env("DYNO_PASSWORD", "hunter2-secret");
        let coordinator = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        let mut started = Self {
            coordinator,
            agents: Vec::new(),
            began,
        };
        while started.agents.len() < agents.len() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
            started.agents = children(started.coordinator.id());
        }
        assert_eq!(started.agents.len(), agents.len());
        started
    }

    fn end(self) -> (Run, Duration) {
        let result = parse(self.coordinator.wait_with_output().unwrap());
        let took = self.began.elapsed();
        assert_eq!(left_after_a_while(&self.agents), [0; 0], "these agents are left");
        assert!(!result.stdout.contains("hunter2") && !result.stderr.contains("hunter2"));
        (result, took)
    }
}

fn assert_failed(result: &Run, words: &[&str]) {
    assert_eq!(result.code, 1, "{}", result.stderr);
    let message = result.last()["failure"]["message"].as_str().unwrap();
    assert!(message.starts_with("agent '"), "{message}");
    for word in words {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn an_interrupted_run_has_what_the_agents_measured() {
    on_a_still_host("an_interrupted_run_has_what_the_agents_measured", || {
        let server = NullServer::start();
        // Intervals so short that reports never cease.
        let run = Started::start(&server, "--duration 60s --interval 10ms --rate 1000");
        std::thread::sleep(Duration::from_millis(2500));
        signal(run.coordinator.id(), Signal::SIGINT);
        let (result, took) = run.end();
        assert_eq!(result.code, 130, "{}", result.stderr);
        assert!(took < Duration::from_secs(8), "{took:?}");
        assert_eq!(result.last()["interrupted"], true);
        assert_eq!(result.last().get("failure"), None, "{}", result.last());
        assert!(result.count("/counts/transactions") > 300, "{}", result.last());
    });
}

#[test]
fn the_password_is_in_no_agents_arguments_or_environment() {
    let server = NullServer::start();
    let run = Started::start(&server, "--duration 2s");
    // Before it becomes the agent, the new process has what its parent has.
    std::thread::sleep(Duration::from_millis(500));
    for id in &run.agents {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{id}/{file}")).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.is_empty() && !text.contains("hunter2"), "{file}: {text}");
        }
    }
    let (result, _) = run.end();
    assert!(result.count("/counts/transactions") > 0, "{}", result.stderr);
}

#[test]
fn an_agent_that_dies_ends_the_run_and_the_other_agent() {
    let server = NullServer::start();
    let run = Started::start(&server, "--duration 60s");
    std::thread::sleep(Duration::from_millis(2500));
    signal(run.agents[1], Signal::SIGKILL);
    let (result, took) = run.end();
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_failed(&result, &["ended (signal: 9"]);
    assert!(result.count("/counts/transactions") > 0);
}

#[test]
fn an_agent_that_is_interrupted_on_its_host_says_so() {
    let server = NullServer::start();
    let run = Started::start(&server, "--duration 60s");
    std::thread::sleep(Duration::from_millis(2500));
    signal(run.agents[0], Signal::SIGTERM);
    let (result, took) = run.end();
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_failed(&result, &["interrupted on its host"]);
}

#[test]
fn an_agent_that_hangs_ends_the_run_by_the_hard_stop() {
    let server = NullServer::start();
    let run = Started::start(&server, "--duration 3s --grace 500ms");
    std::thread::sleep(Duration::from_millis(2500));
    signal(run.agents[0], Signal::SIGSTOP);
    let (result, took) = run.end();
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert_failed(&result, &["did not end by the hard stop"]);
}

#[test]
fn a_killed_coordinator_leaves_no_agent() {
    let server = NullServer::start();
    let mut run = Started::start(&server, "--duration 60s");
    std::thread::sleep(Duration::from_millis(700));
    signal(run.coordinator.id(), Signal::SIGKILL);
    run.coordinator.wait().unwrap();
    assert_eq!(left_after_a_while(&run.agents), [0; 0], "these agents are left");
}

#[test]
fn a_command_that_never_becomes_an_agent_is_ended_with_all_it_has_started() {
    let server = NullServer::start();
    let marker = format!("/tmp/dynoload-agent-never-{}", std::process::id());
    // The shell's own child is in its group.
    let never = format!("--agent=sh -c 'sleep 1000 & echo $! > {marker}; wait'");
    let run = Started::with(&server, "--duration 1s", &[&never]);
    while !Path::new(&marker).exists() && run.began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    let sleeper: u32 = std::fs::read_to_string(&marker).unwrap().trim().parse().unwrap();
    std::fs::remove_file(&marker).unwrap();
    assert!(is_alive(sleeper));
    signal(run.coordinator.id(), Signal::SIGINT);
    let (result, took) = run.end();
    assert_eq!(result.code, 130, "{}", result.stderr);
    assert!(
        result.stderr.contains("agent 'sh -c") && result.stderr.contains("interrupted"),
        "{}",
        result.stderr
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(
        left_after_a_while(&[sleeper]),
        [0; 0],
        "the child of the command is left"
    );
}
