//! Agents that die, hang or are left: the run ends with a message that names them, and no process is left behind.

mod common;

use common::{command, signal, NullServer, Run, Running, PROGRAM};
use dyno_patience::{wait_until, Patience};
use nix::sys::signal::Signal;

/// A run with two agents, under way.
struct Started {
    coordinator: Running,
    agents: Vec<u32>,
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

/// A process that has been sent SIGKILL ends only when it next gets a CPU.
fn assert_none_left(ids: &[u32]) {
    wait_until(4.0, "none of the processes is left", || {
        !ids.iter().any(|id| is_alive(*id))
    });
}

impl Started {
    fn start(server: &NullServer, more: &str) -> Self {
        let agent = format!("--agent='{PROGRAM}' agent");
        Self::with(server, more, &[&agent, &agent])
    }

    /// Waits until all agents have threads of a load.
    fn with(server: &NullServer, more: &str, agents: &[&str]) -> Self {
        let arguments = format!(
            "oltp run --any-server --quiet --port {} --workload oltp_point_select --connections 4 --rate 1000 {more}",
            server.port()
        );
        let mut command = command(&arguments);
        command.args(agents).env("DYNO_PASSWORD", "hunter2-secret");
        let coordinator = Running::spawn(&mut command);
        let mut started = Self {
            coordinator,
            agents: Vec::new(),
        };
        wait_until(10.0, "the agents are started", || {
            started.agents = children(started.coordinator.child.id());
            started.agents.len() == agents.len()
        });
        started
    }

    /// The result, which must come in time.
    fn end(self, limit_s: f64) -> Run {
        let patience = Patience::seconds(limit_s);
        let result = self.coordinator.end();
        patience.check("the end of the run");
        assert_none_left(&self.agents);
        assert!(!result.stdout.contains("hunter2") && !result.stderr.contains("hunter2"));
        result
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
    let server = NullServer::start();
    // Intervals so short that reports never cease.
    let mut run = Started::start(&server, "--interval 10ms --duration 60s");
    run.coordinator.wait_for_transactions(300);
    signal(run.coordinator.child.id(), Signal::SIGINT);
    let result = run.end(20.0);
    assert_eq!(result.code, 130, "{}", result.stderr);
    assert_eq!(result.last()["interrupted"], true);
    assert_eq!(result.last().get("failure"), None, "{}", result.last());
    assert!(result.count("/counts/transactions") >= 300, "{}", result.last());
}

#[test]
fn the_password_is_in_no_agents_arguments_or_environment() {
    let server = NullServer::start();
    let mut run = Started::start(&server, "--interval 100ms --duration 1s");
    // Before it becomes the agent, the new process has what its parent has.
    run.coordinator.wait_for_measurement();
    for id in &run.agents {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{id}/{file}")).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.is_empty() && !text.contains("hunter2"), "{file}: {text}");
        }
    }
    let result = run.end(20.0);
    assert!(result.count("/counts/transactions") > 0, "{}", result.stderr);
}

#[test]
fn an_agent_that_dies_ends_the_run_and_the_other_agent() {
    let server = NullServer::start();
    let mut run = Started::start(&server, "--interval 100ms --duration 60s");
    run.coordinator.wait_for_transactions(100);
    signal(run.agents[1], Signal::SIGKILL);
    let result = run.end(6.0);
    assert_failed(&result, &["ended (signal: 9"]);
    assert!(result.count("/counts/transactions") > 0);
}

#[test]
fn an_agent_that_is_interrupted_on_its_host_says_so() {
    let server = NullServer::start();
    let mut run = Started::start(&server, "--interval 100ms --duration 60s");
    run.coordinator.wait_for_transactions(100);
    signal(run.agents[0], Signal::SIGTERM);
    let result = run.end(6.0);
    assert_failed(&result, &["interrupted on its host"]);
}

#[test]
fn an_agent_that_hangs_ends_the_run_by_the_hard_stop() {
    let server = NullServer::start();
    let mut run = Started::start(&server, "--interval 100ms --duration 1s --grace 300ms");
    run.coordinator.wait_for_transactions(100);
    signal(run.agents[0], Signal::SIGSTOP);
    let result = run.end(10.0);
    assert_failed(&result, &["did not end by the hard stop"]);
}

#[test]
fn a_killed_coordinator_leaves_no_agent() {
    let server = NullServer::start();
    let mut run = Started::start(&server, "--interval 100ms --duration 60s");
    run.coordinator.wait_for_measurement();
    signal(run.coordinator.child.id(), Signal::SIGKILL);
    run.coordinator.child.wait().unwrap();
    assert_none_left(&run.agents);
}

#[test]
fn a_command_that_never_becomes_an_agent_is_ended_with_all_it_has_started() {
    let server = NullServer::start();
    let marker = format!("/tmp/dynoload-agent-never-{}", std::process::id());
    // The shell's own child is in its group.
    let never = format!("--agent=sh -c 'sleep 1000 & echo $! > {marker}; wait'");
    let run = Started::with(&server, "--duration 1s", &[&never]);
    let mut sleeper = 0;
    wait_until(10.0, "the command has started its child", || {
        let written = std::fs::read_to_string(&marker).unwrap_or_default();
        sleeper = written.trim().parse().unwrap_or_default();
        sleeper != 0
    });
    std::fs::remove_file(&marker).unwrap();
    assert!(is_alive(sleeper));
    signal(run.coordinator.child.id(), Signal::SIGINT);
    let result = run.end(10.0);
    assert_eq!(result.code, 130, "{}", result.stderr);
    assert!(
        result.stderr.contains("agent 'sh -c") && result.stderr.contains("interrupted"),
        "{}",
        result.stderr
    );
    assert_none_left(&[sleeper]);
}
