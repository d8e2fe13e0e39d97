//! The messages between coordinator and agent, one JSON value a line.
//!
//! In order: hello; ping and pong, any number of times and also later; job, accepted or refused; connect,
//! ready; start, intervals; finished or failed. After that an agent keeps its connections until its input ends, so that the
//! server's counters can be read while no connection ends. With slices there are many, each from slice to finished with its marks.
//! Cancel may come at any time, the end of the input means it.

use dyno_loop::recorder::ConnectingTimes;
use dyno_loop::{Edge, End, Failure, IntervalId, PlanAccount, Priority, Share};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::spec::RunSpec;

/// Version of this protocol; raised when anything in it changes.
pub const PROTOCOL_VERSION: u32 = 9;

/// Version of the program: both sides must have the same, for an option that one does not know would change the load.
pub const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first message of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub protocol: u32,
    /// Version of the program.
    pub version: String,
    /// Name of its host.
    pub host: String,
    /// CPUs that it may use.
    pub cpus: u32,
}

/// What an agent is to run. Not `Debug`, for the password.
#[derive(Clone, Serialize, Deserialize)]
pub struct Job {
    /// What to run.
    pub spec: RunSpec,
    /// Whether a server that is neither MySQL nor MariaDB will do.
    pub any_server: bool,
    /// The password, which is not in the spec.
    pub password: Vec<u8>,
    /// The content of the spec's --ssl-ca, a file of the coordinator's host.
    pub ssl_ca_text: Option<String>,
    /// Whether the load is in slices, with connections that stay between them.
    pub slices: bool,
}

/// A message of the coordinator. Not `Debug`: a job has the server's password.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Requests the agent's time.
    Ping,
    /// What to do: check whether it can be done from there.
    Job {
        /// What to run, with the password.
        job: Box<Job>,
        /// Which workers.
        share: Share,
    },
    /// Make the connections.
    Connect,
    /// Begin.
    Start {
        /// When, on the agent's clock.
        start_ns: u64,
    },
    /// Begin a slice.
    Slice {
        /// When, on the agent's clock.
        start_ns: u64,
        /// Which operations.
        stream: u32,
        /// Load that is not counted.
        washout_ns: u64,
        /// Load that is counted.
        measure_ns: u64,
        /// Operations per 1000 s in place of the job's own rate.
        rate_per_ks: Option<u64>,
        /// How many connections of all agents are loaded.
        connections: Option<u32>,
    },
    /// End at once, and report what was measured so far.
    Cancel,
}

/// A message of an agent; `R` is a recorder, borrowed by the sender and owned by the receiver.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<R> {
    /// Who it is.
    Hello(Hello),
    /// Its time.
    Pong {
        /// On its own clock.
        now_ns: u64,
    },
    /// The job can be done.
    Accepted {
        /// The priority that its load will run at.
        priority: Priority,
        /// The niceness that its load will run at.
        niceness: i32,
    },
    /// The job cannot be done.
    Refused(Error),
    /// All connections are made.
    Ready {
        /// How long that took.
        times: Box<ConnectingTimes>,
    },
    /// An interval that is whole.
    Interval {
        /// Which.
        id: IntervalId,
        /// What happened.
        recorder: R,
        /// The plan at its end, of the agent's workers; none in a closed loop.
        plan: Option<PlanAccount>,
    },
    /// A worker at a moment that divides a slice.
    Mark {
        /// Which moment.
        edge: Edge,
        /// When, on the agent's clock.
        at_ns: u64,
    },
    /// The load, or the slice, has ended.
    Finished(End),
    /// The load cannot go on.
    Failed(Failure),
}

/// A message as a line.
///
/// # Errors
/// When a value cannot be written as JSON.
pub fn line(message: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use dyno_loop::recorder::{Part, Slow};
    use dyno_loop::Phase;

    use super::*;
    use crate::sql::named::Reply;
    use crate::sql::record::record_statement;
    use crate::sql::{SqlRecorder, StatementKind};

    #[test]
    fn an_interval_arrives_with_all_that_it_had() {
        let mut recorder = SqlRecorder::new(2);
        recorder.counts.transactions = 3;
        recorder.response.record(1_000_000);
        let reply = Reply {
            columns: 1,
            rows: 10,
            affected_rows: 0,
        };
        record_statement(&mut recorder, StatementKind::PointSelect, 5_000, reply);
        recorder.connecting.record(Part::Tls, 700);
        recorder.extra.handshakes.record(&dyno_mysql::TlsInfo {
            version: "TLSv1.3",
            cipher_suite: "TLS_AES_128_GCM_SHA256",
            resumed: true,
        });
        recorder.errors.record(1213, "Deadlock found");
        recorder.traffic.wire_sent_bytes = 99;
        recorder.usage.busiest_cpu_us = 8;
        for response_ns in [5, 9, 7] {
            recorder.slowest.offer(Slow {
                response_ns,
                service_ns: 1,
                ended_ns: 2,
                number: u64::MAX,
            });
        }
        let id = IntervalId {
            phase: Phase::Measure,
            index: 4,
        };
        let plan = PlanAccount {
            planned: 4,
            ended: 3,
            in_flight: 1,
            ..PlanAccount::default()
        };
        let sent = Answer::Interval {
            id,
            recorder: &recorder,
            plan: Some(plan),
        };
        let arrived: Answer<Box<SqlRecorder>> = serde_json::from_slice(&line(&sent).unwrap()).unwrap();
        let Answer::Interval {
            id: seen,
            recorder: other,
            plan: other_plan,
        } = arrived
        else {
            panic!("{arrived:?}");
        };
        assert_eq!((seen, other_plan), (id, Some(plan)));
        assert_eq!(format!("{other:?}"), format!("{recorder:?}"));
    }
}
