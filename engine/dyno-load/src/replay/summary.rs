//! The figures of a replay: the whole load, each digest, errors, and how far they can be believed.

use std::collections::BTreeMap;

use dyno_core::histogram::{self, Histogram};
use serde::Serialize;

use super::{LeftOut, NotSent, Outcome, Pace, Replayed};
use crate::quality::{Finding, RunQuality};

/// A table, column, schema, index, view, routine, definer or prepared statement is not there, or no default schema is.
const MISSING: [u16; 11] = [1046, 1049, 1051, 1054, 1109, 1146, 1176, 1243, 1305, 1356, 1449];
/// The account may not do it.
const DENIED: [u16; 7] = [1044, 1045, 1130, 1142, 1143, 1227, 1370];
/// The server allows no more connections.
const TOO_MANY: [u16; 3] = [1040, 1203, 1226];
/// More errors than this share, and the load was not the captured one.
const MOST_ERRORS: f64 = 0.1;
/// Lag of this program that no statement notices, µs.
const HARMLESS_LAG_US: f64 = 1000.0;

/// One digest.
#[derive(Debug, Clone, Serialize)]
pub struct ByDigest {
    /// Its short name.
    pub fingerprint: dyno_capture::Fingerprint,
    /// Its text.
    pub digest: String,
    /// Statements sent.
    pub count: u64,
    /// Statements that failed.
    pub errors: u64,
    /// Rows returned.
    pub rows: u64,
    /// Rows changed.
    pub affected_rows: u64,
    /// Service time of those that did not fail; absent where all did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<histogram::Summary>,
    /// Its sum, s.
    pub total_s: f64,
}

/// One kind of error.
#[derive(Debug, Clone, Serialize)]
pub struct ErrorSummary {
    /// The server's code, or the client's.
    pub code: u16,
    /// Statements.
    pub count: u64,
    /// Their digest.
    pub digest: String,
    /// The number of the first one's event in the capture, from 1 on.
    pub event: u64,
    /// Its session.
    pub session: u32,
    /// Its message.
    pub message: String,
}

/// Connections that could not be made, of one code.
#[derive(Debug, Clone, Serialize)]
pub struct Refused {
    /// The server's code, or the client's.
    pub code: u16,
    /// How many.
    pub count: u64,
    /// The first one's message.
    pub message: String,
}

/// How far the figures can be believed.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayQuality {
    /// The worst of the findings.
    pub verdict: RunQuality,
    /// What the rules found.
    pub findings: Vec<Finding>,
}

/// What a replay's result says.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Statements to replay.
    pub planned: u64,
    /// Statements that were sent.
    pub sent: u64,
    /// Statements that failed.
    pub errors: u64,
    /// Time of the replay, s.
    pub duration_s: f64,
    /// Time of the same part of the capture, s.
    pub captured_s: f64,
    /// Statements ended per second.
    pub qps: f64,
    /// From the time that a statement was due to the end of its answer; only with a pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<histogram::Summary>,
    /// From sending a statement to the end of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<histogram::Summary>,
    /// How late statements were sent; only with a pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<histogram::Summary>,
    /// The part of it that this program caused: the session was free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_lag: Option<histogram::Summary>,
    /// Statements of the capture that were not to be replayed.
    pub left_out: LeftOut,
    /// Statements that were not sent.
    pub not_sent: NotSent,
    /// Connections made.
    pub connections: u64,
    /// Connections lost.
    pub lost_connections: u64,
    /// Connections that could not be made.
    pub refused: Vec<Refused>,
    /// Errors, the most frequent first.
    pub errors_by_digest: Vec<ErrorSummary>,
    /// Digests, by their total service time.
    pub digests: Vec<ByDigest>,
    /// CPU time of this program's workers, s.
    pub cpu_s: f64,
    /// How far the figures can be believed.
    pub verdict: ReplayQuality,
}

impl Summary {
    /// The summary of a replay that has ended. Errors with an ignored code are counted and not judged.
    pub fn new(replayed: &Replayed, ignored: &[u16]) -> Self {
        let record = &replayed.record;
        let outcomes = &record.outcomes;
        let histogram = |of: &dyn Fn(&Outcome) -> u64| {
            let mut histogram = Histogram::new();
            outcomes.iter().for_each(|outcome| histogram.record(of(outcome)));
            histogram.summary()
        };
        let paced = |of: &dyn Fn(&Outcome) -> u64| (replayed.pace != Pace::Max).then(|| histogram(of)).flatten();
        let duration_s = replayed.duration_ns as f64 / 1e9;
        let mut summary = Self {
            planned: replayed.plan.statements.len() as u64,
            sent: outcomes.len() as u64,
            errors: outcomes.iter().filter(|outcome| outcome.error != 0).count() as u64,
            duration_s,
            captured_s: replayed.plan.end_us as f64 / 1e6,
            qps: outcomes.len() as f64 / duration_s.max(1e-9),
            response: paced(&|outcome| outcome.lag_ns + outcome.service_ns),
            service: histogram(&|outcome| outcome.service_ns),
            lag: paced(&|outcome| outcome.lag_ns),
            own_lag: paced(&|outcome| outcome.own_lag_ns),
            left_out: replayed.plan.left_out,
            not_sent: record.not_sent,
            connections: record.connections,
            lost_connections: record.lost_connections,
            refused: refused(replayed),
            errors_by_digest: errors_by_digest(replayed),
            digests: by_digest(replayed),
            cpu_s: record.cpu_ns as f64 / 1e9,
            verdict: ReplayQuality {
                verdict: RunQuality::Valid,
                findings: Vec::new(),
            },
        };
        let findings = judge(&summary, replayed, ignored);
        let worst = findings.iter().map(|finding| finding.level).max();
        summary.verdict = ReplayQuality {
            verdict: worst.unwrap_or(RunQuality::Valid),
            findings,
        };
        summary
    }
}

fn refused(replayed: &Replayed) -> Vec<Refused> {
    let entry = |(code, (count, message)): (&u16, &(u64, String))| Refused {
        code: *code,
        count: *count,
        message: message.clone(),
    };
    replayed.record.refused.iter().map(entry).collect()
}

fn digest_of(replayed: &Replayed, outcome: &Outcome) -> u32 {
    replayed.plan.statements[outcome.statement as usize].digest
}

fn errors_by_digest(replayed: &Replayed) -> Vec<ErrorSummary> {
    let mut counts: BTreeMap<(u16, u32), u64> = BTreeMap::new();
    for outcome in replayed.record.outcomes.iter().filter(|outcome| outcome.error != 0) {
        *counts.entry((outcome.error, digest_of(replayed, outcome))).or_default() += 1;
    }
    let entry = |((code, digest), first): (&(u16, u32), &super::FirstError)| {
        let statement = &replayed.plan.statements[first.statement as usize];
        ErrorSummary {
            code: *code,
            count: counts.get(&(*code, *digest)).copied().unwrap_or(0),
            digest: replayed.plan.digests[*digest as usize].text.clone(),
            event: statement.event,
            session: statement.session,
            message: first.message.clone(),
        }
    };
    let mut errors: Vec<ErrorSummary> = replayed.record.first_errors.iter().map(entry).collect();
    errors.sort_by_key(|error| (std::cmp::Reverse(error.count), error.event));
    errors
}

fn by_digest(replayed: &Replayed) -> Vec<ByDigest> {
    let mut outcomes: Vec<&Outcome> = replayed.record.outcomes.iter().collect();
    outcomes.sort_by_key(|outcome| digest_of(replayed, outcome));
    let mut service = Histogram::new();
    let mut digests = Vec::new();
    for same in outcomes.chunk_by(|left, right| digest_of(replayed, left) == digest_of(replayed, right)) {
        service.clear();
        let succeeded = || same.iter().filter(|outcome| outcome.error == 0);
        succeeded().for_each(|outcome| service.record(outcome.service_ns));
        let digest = &replayed.plan.digests[digest_of(replayed, same[0]) as usize];
        digests.push(ByDigest {
            fingerprint: digest.fingerprint,
            digest: digest.text.clone(),
            count: same.len() as u64,
            errors: (same.len() - succeeded().count()) as u64,
            rows: same.iter().map(|outcome| outcome.rows).sum(),
            affected_rows: same.iter().map(|outcome| outcome.affected_rows).sum(),
            service: service.summary(),
            total_s: same.iter().map(|outcome| outcome.service_ns).sum::<u64>() as f64 / 1e9,
        });
    }
    digests.sort_by(|left, right| right.total_s.total_cmp(&left.total_s));
    digests
}

fn judge(summary: &Summary, replayed: &Replayed, ignored: &[u16]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |rule, level, reason| findings.push(Finding { rule, level, reason });
    let errors: Vec<&ErrorSummary> = summary
        .errors_by_digest
        .iter()
        .filter(|error| !ignored.contains(&error.code))
        .collect();
    let class = |codes: &[u16]| {
        let of_class: Vec<&&ErrorSummary> = errors.iter().filter(|error| codes.contains(&error.code)).collect();
        let first = of_class.iter().min_by_key(|error| error.event)?;
        let count: u64 = of_class.iter().map(|error| error.count).sum();
        Some(format!(
            "{count} statements failed; the first one (event {}): {}",
            first.event, first.message
        ))
    };
    if let Some(text) = class(&MISSING) {
        let hint =
            "something that they use is not on this server: load a copy of the data, or --ignore-errors if they \
                    failed when they were captured too";
        find("missing", RunQuality::Invalid, format!("{text}; {hint}"));
    }
    if let Some(text) = class(&DENIED) {
        find(
            "denied",
            RunQuality::Invalid,
            format!("{text}; use an account with the captured ones' privileges"),
        );
    }
    let others: u64 = errors
        .iter()
        .filter(|error| !MISSING.contains(&error.code) && !DENIED.contains(&error.code))
        .map(|error| error.count)
        .sum();
    let share = others as f64 / summary.sent.max(1) as f64;
    if others > 0 {
        let level = if share > MOST_ERRORS {
            RunQuality::Invalid
        } else {
            RunQuality::Suspect
        };
        let reason = format!(
            "{others} statements ({:.1} %) failed; see the errors, and name those that the captured load had too with \
             --ignore-errors",
            share * 100.0
        );
        find("errors", level, reason);
    }
    for refused in &summary.refused {
        let (count, message) = (refused.count, &refused.message);
        let hint = if TOO_MANY.contains(&refused.code) {
            let limit = replayed
                .server
                .max_connections
                .map_or(String::new(), |limit| format!(" ({limit})"));
            format!("this is the server's limit of connections, max_connections{limit}: raise it, or use --connections")
        } else {
            "look at the server's log and --user".into()
        };
        let reason = format!(
            "{count} sessions could not connect, error {}: {message}; {hint}",
            refused.code
        );
        find("refused", RunQuality::Invalid, reason);
    }
    if let Some((count, message)) = &replayed.record.failed_selections {
        find(
            "schema",
            RunQuality::Invalid,
            format!("{count} times a default schema could not be selected: {message}"),
        );
    }
    if summary.lost_connections > 0 {
        let reason = format!(
            "{} connections were lost, with their transactions and variables",
            summary.lost_connections
        );
        find("lost", RunQuality::Suspect, reason);
    }
    if summary.not_sent.at_end > 0 && !replayed.interrupted {
        let reason = format!(
            "{} statements were not sent: their sessions waited for an answer when nothing had ended for --grace",
            summary.not_sent.at_end
        );
        find("unfinished", RunQuality::Invalid, reason);
    }
    if let (Some(own), Some(response)) = (&summary.own_lag, &summary.response) {
        if own.p99_us > (response.p99_us * 0.1).max(HARMLESS_LAG_US) {
            let reason = format!(
                "dynoload itself was late: 1 % of the statements were sent more than {:.0} µs after they were due although \
                 their session was free; it needs a CPU of its own or more --threads",
                own.p99_us
            );
            find("lag", RunQuality::Suspect, reason);
        }
    }
    findings
}
