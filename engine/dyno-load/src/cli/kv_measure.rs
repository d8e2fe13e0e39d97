//! The parts of a key-value command in turn: load, compare with the server, judge, print.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use dyno_kv::blocking::Client;
use serde_json::{json, Value};

use super::kv_options::PlaceArguments;
use super::oltp_run::{exit_of, print_table, OutputArguments};
use crate::error::{Error, Exit};
use crate::kv::{self, server, KvSettings};
use crate::output::json::{self, Final};
use crate::output::kv::{self as kv_output, Words};
use crate::output::progress::Progress;
use crate::output::table;
use crate::report::Sinks;
use crate::run::{self, Interval, Observer, Outcome};
use crate::server::{CounterCheck, Facts};
use crate::verdict::{self, Evidence, TcpSegments, Verdict};

/// One part of a command: its settings and the words for its result.
pub struct Part {
    /// The settings.
    pub settings: Arc<KvSettings>,
    /// The words.
    pub words: Words,
}

/// Runs every part in turn; the last one's result is the command's.
pub fn execute(parts: &[Part], place: &PlaceArguments, output: &OutputArguments) -> Result<Exit, Error> {
    let Some(last) = parts.last() else {
        return Err(Error::User("there is nothing to store with a share of 0".into()));
    };
    let mut control = server::connect(&last.settings.endpoint, place.protocol()?)?;
    let facts = server::check(&mut control, &last.settings.endpoint, last.settings.protocol)?;
    crate::host::take_priority(last.settings.priority);
    crate::host::allow_open_files(u64::from(last.settings.pace.connections) + 64)?;
    let interrupted = crate::host::interruption()?;
    let shown = kv_output::settings(&last.settings, &last.words);
    let progress = Progress::new(output.quiet);
    let mut sinks = Sinks::start(&output.paths(), progress, &shown, &facts)?;
    let mut records = Vec::new();
    for (position, part) in parts.iter().enumerate() {
        let settings = &part.settings;
        sinks.progress().say(&format!(
            "{} on {} {} at {}: {} connections, {} threads, {} protocol, {} under way on each",
            settings.name,
            facts.kind,
            facts.version,
            settings.endpoint,
            settings.pace.connections,
            settings.pace.threads,
            settings.protocol.name(),
            settings.depth
        ));
        let result = measure(part, &facts, &mut control, &interrupted, &mut sinks)?;
        let only_filled = settings.name == "fill" && position + 1 < parts.len();
        if !only_filled || result.exit != Exit::Done {
            print_table(&result.text, output.json.as_deref())?;
        }
        let failed = !matches!(result.exit, Exit::Done | Exit::Invalid);
        if position + 1 < parts.len() && !failed {
            sinks.record("part", &result.record)?;
            records.push(result.record);
            continue;
        }
        let mut record = result.record;
        // What came before stands in the final record too, so that a reader needs no other.
        record["parts"] = records.iter().map(summary_of_part).collect();
        sinks.finish(&record)?;
        return Ok(result.exit);
    }
    Ok(Exit::Done)
}

fn summary_of_part(record: &Value) -> Value {
    json!({
        "workload": record["settings"]["workload"],
        "duration_s": record["duration_s"],
        "counts": record["counts"],
        "kv": record["kv"],
        "reconciliation": record["reconciliation"],
        "verdict": record["verdict"],
    })
}

struct Measured {
    record: Value,
    text: String,
    exit: Exit,
}

/// Passes intervals on; the last one of a run that its operations end is as long as they took.
struct Clamped<'a> {
    inner: &'a mut Sinks,
    ended_ns: &'a AtomicU64,
    /// When the load began: a run that its operations end has no warm-up.
    started_ns: &'a AtomicU64,
}

impl Observer for Clamped<'_> {
    fn interval(&mut self, interval: &Interval<'_>) -> io::Result<()> {
        let ended_ns = self.ended_ns.load(Ordering::Relaxed);
        let ended_s = ended_ns.saturating_sub(self.started_ns.load(Ordering::Relaxed)) as f64 / 1e9;
        let longest_s = if ended_ns == 0 {
            f64::MAX
        } else {
            (ended_s - interval.start_s).max(0.0)
        };
        self.inner.interval(&Interval {
            phase: interval.phase,
            index: interval.index,
            start_s: interval.start_s,
            length_s: interval.length_s.min(longest_s),
            recorder: interval.recorder,
        })
    }
}

fn measure(
    part: &Part,
    facts: &Facts,
    control: &mut Client,
    interrupted: &Arc<AtomicBool>,
    sinks: &mut Sinks,
) -> Result<Measured, Error> {
    let settings = &part.settings;
    let mut before = None;
    let tcp_before = crate::host::tcp_segments();
    let outcome = {
        let started_ns = AtomicU64::new(0);
        let mut read_counters = || {
            before = server::stats(control, "").ok();
            started_ns.store(dyno_core::clock::now_ns() + run::START_DELAY_NS, Ordering::Relaxed);
        };
        let mut observer = Clamped {
            inner: sinks,
            ended_ns: &settings.ended_ns,
            started_ns: &started_ns,
        };
        kv::run(settings, interrupted, &mut read_counters, &mut observer)?
    };
    sinks.progress().finish();
    let counters = reconcile(before.as_ref(), control, &outcome);
    let tcp = matches!(settings.address, run::socket::Address::Tcp(_))
        .then(|| crate::host::tcp_segments().zip(tcp_before))
        .flatten()
        .map(|(after, before)| TcpSegments {
            sent: after.sent.saturating_sub(before.sent),
            retransmitted: after.retransmitted.saturating_sub(before.retransmitted),
        });
    let duration_s = measured_s(settings, &outcome, interrupted);
    let (verdict, findings) = judge(part, &outcome, &counters, tcp, duration_s);
    let shown = kv_output::settings(settings, &part.words);
    let result = Final {
        settings: &shown,
        server: facts,
        outcome: &outcome,
        agents: &[],
        counters: &counters,
        verdict,
        findings: &findings,
        duration_s,
    };
    let mut record = json::final_record(&result);
    let mut text = table::render(&result);
    if let Some(totals) = &outcome.totals {
        record["kv"] = kv_output::body(settings, totals, duration_s);
        text.push_str(&kv_output::table(settings, totals, duration_s));
    }
    if let Some(operations) = settings.operations {
        record["kv"]["total_time_s"] = json!(duration_s);
        text.push_str(&format!("\n  {operations} operations: total time {duration_s:.3} s\n"));
    }
    Ok(Measured {
        record,
        text,
        exit: exit_of(&outcome, verdict),
    })
}

fn measured_s(settings: &KvSettings, outcome: &Outcome, interrupted: &AtomicBool) -> f64 {
    let planned_s = settings.pace.duration_ns as f64 / 1e9;
    let Some(timeline) = outcome.timeline else {
        return planned_s;
    };
    let until = |end_ns: u64| (end_ns.saturating_sub(timeline.measure_ns) as f64 / 1e9).clamp(1e-6, planned_s);
    if outcome.failure.is_some() || interrupted.load(Ordering::Relaxed) {
        return until(dyno_core::clock::now_ns());
    }
    match settings.ended_ns.load(Ordering::Relaxed) {
        0 => planned_s,
        ended_ns => until(ended_ns),
    }
}

fn reconcile(before: Option<&BTreeMap<String, String>>, control: &mut Client, outcome: &Outcome) -> Vec<CounterCheck> {
    let (Some(before), Some(totals)) = (before, &outcome.totals) else {
        return Vec::new();
    };
    // A server that is gone or hangs after the load has no counters: the comparison is absent then, not zero.
    let Ok(after) = server::stats(control, "") else {
        return Vec::new();
    };
    let cut_off = outcome.end.unfinished + outcome.end.in_flight_at_stop * u64::from(outcome.interrupted);
    server::reconcile(
        before,
        &after,
        &totals.all_kv,
        totals.all.ignored_errors + totals.all_kv.lost + cut_off,
    )
}

fn judge(
    part: &Part,
    outcome: &Outcome,
    counters: &[CounterCheck],
    tcp: Option<TcpSegments>,
    duration_s: f64,
) -> (Verdict, Vec<verdict::Finding>) {
    let Some(totals) = &outcome.totals else {
        let reason = "no load was started".to_string();
        let finding = verdict::Finding {
            rule: "empty",
            level: Verdict::Invalid,
            reason,
        };
        return (Verdict::Invalid, vec![finding]);
    };
    verdict::judge(&Evidence {
        totals,
        end: outcome.end,
        duration_s,
        failure: outcome.failure.as_ref(),
        threads: part.settings.pace.threads,
        open_loop: part.settings.pace.plan.is_some(),
        counters,
        agents: &[],
        tcp,
        asked_hit_share: part.words.hit_ratio,
    })
}
