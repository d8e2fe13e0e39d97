//! `dynoload kv run`: fill, check, load, measure, judge, print.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use clap::Args;
use dyno_kv::blocking::Client;
use serde_json::{json, Value};

use super::kv_options::{Asked, DataArguments, MixArguments, PlaceArguments};
use super::kv_preset::{Preset, PresetArguments};
use super::oltp_run::{exit_of, print_table, OutputArguments};
use super::parse::count;
use super::run_settings::{ignored_errors, one_of, overload, plan, think, threads, LoadArguments};
use crate::error::{Error, Exit};
use crate::kv::keys::{share, Choice};
use crate::kv::{self, server, KvSettings};
use crate::output::json::{self, Final};
use crate::output::kv::{self as kv_output, Words};
use crate::output::progress::Progress;
use crate::output::table;
use crate::report::Sinks;
use crate::run::{self, Interval, Observer, Outcome, Pace};
use crate::server::{CounterCheck, Facts};
use crate::verdict::{self, Evidence, TcpSegments, Verdict};

const EXAMPLES: &str = "Examples:
  dynoload kv run --port 11211 --connections 32 --keys 100000 --fill 100% --ratio 90:10 --duration 60s
      Fill 100,000 keys, then get and set as fast as 32 connections go (closed loop).
  dynoload kv run --connections 64 --rate 50000 --arrivals poisson --warmup 5s --hit-ratio 95% --json result.json
      50,000 operations a second come whether or not the server keeps up; one key in twenty is not there.
  dynoload kv run --preset memaslap --connections 32 --duration 2m --overwrite 0.2
      What memaslap -t 2m -c 32 -o 0.2 asks: a window of 10,000 keys for each connection, 90/10, 64 B, 1024 B.
  dynoload kv run --preset memslap --connections 32 --execute-number 10000
      What memslap --concurrency 32 --execute-number 10000 asks: set, then get, total time of each.

The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 1 failed, 2 wrong input, 3 cannot be done here, 4 INVALID, 130 interrupted.";

/// Longest time of a run that its operations end.
const LONGEST_RUN_NS: u64 = 100 * 3600 * 1_000_000_000;
/// Operations under way on a connection while filling.
const FILL_DEPTH: u32 = 16;

/// The options of `kv run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("db_ps_mode", |option| option.hide(true)))]
#[command(mut_arg("ignore_errors", |option| option
    .default_value("none")
    .help("Errors that only cost their operation: numbers of the binary protocol's statuses, or all. 2003,2013 connect again")))]
pub struct RunArguments {
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    mix: MixArguments,
    /// Store this share of the keys before the load
    #[arg(long, help_heading = "Keys and values")]
    fill: Option<String>,
    /// End after this many operations in all instead of --duration
    #[arg(long, value_parser = count, conflicts_with = "rate", help_heading = "Load")]
    operations: Option<u32>,
    #[command(flatten)]
    preset: PresetArguments,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// One part of a command: its settings and the words for its result.
pub struct Part {
    /// The settings.
    pub settings: Arc<KvSettings>,
    /// The words.
    pub words: Words,
}

/// Runs it.
pub fn run(arguments: &RunArguments) -> Result<Exit, Error> {
    let mut parts = Vec::new();
    let preset = arguments
        .preset
        .resolve(&arguments.load, arguments.operations.is_some())?;
    if let Some(text) = &arguments.fill {
        let filled = share(text).map_err(|problem| Error::User(format!("--fill: {problem}")))?;
        if preset.is_some() {
            return Err(Error::User(
                "--fill and --preset exclude each other: a preset says what is stored".into(),
            ));
        }
        parts.extend(fill(&arguments.place, &arguments.data, &arguments.load, filled)?);
    }
    match preset {
        Some(preset) => parts.extend(preset_parts(arguments, &preset)?),
        None => parts.push(main_part(arguments)?),
    }
    if arguments.fill.is_some() && arguments.mix.mix()?.incr > 0.0 {
        set_counters(&arguments.place, &parts[0].settings)?;
    }
    execute(&parts, &arguments.place, &arguments.output)
}

/// The part that stores a share of the keys; none for a share of 0.
pub fn fill(
    place: &PlaceArguments,
    data: &DataArguments,
    load: &LoadArguments,
    share: f64,
) -> Result<Option<Part>, Error> {
    let (workload, words) = Asked {
        data,
        mix: None,
        choice: Some(Choice::Sequential),
        keys: None,
        sizes: ("64", "1024"),
        seed: load.seed,
    }
    .resolve()?;
    let operations = (share * workload.keys.count as f64).round() as u64;
    if operations == 0 {
        return Ok(None);
    }
    let mut settings = settings(place, load, workload, FILL_DEPTH)?;
    (settings.name, settings.operations) = ("fill".into(), Some(operations));
    settings.pace.plan = None;
    Ok(Some(part(settings, words)))
}

fn main_part(arguments: &RunArguments) -> Result<Part, Error> {
    let (workload, words) = Asked {
        data: &arguments.data,
        mix: Some(&arguments.mix),
        choice: None,
        keys: None,
        sizes: ("64", "1024"),
        seed: arguments.load.seed,
    }
    .resolve()?;
    let mut settings = settings(&arguments.place, &arguments.load, workload, arguments.mix.depth)?;
    settings.operations = arguments.operations.map(u64::from);
    let words = with_load(words, &arguments.load);
    Ok(part(settings, words))
}

fn preset_parts(arguments: &RunArguments, preset: &Preset) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::new();
    for phase in &preset.phases {
        let mix = MixArguments {
            ratio: phase.ratio.into(),
            ..arguments.mix.clone()
        };
        let (workload, words) = Asked {
            data: &arguments.data,
            mix: Some(&mix),
            choice: Some(phase.choice.clone()),
            keys: phase.keys,
            sizes: preset.sizes,
            seed: arguments.load.seed,
        }
        .resolve()?;
        let mut settings = settings(&arguments.place, &arguments.load, workload, arguments.mix.depth)?;
        (settings.name, settings.operations) = (phase.name.into(), phase.operations);
        let words = Words {
            preset: Some(preset.name.into()),
            ..with_load(words, &arguments.load)
        };
        parts.push(part(settings, words));
    }
    Ok(parts)
}

fn with_load(words: Words, load: &LoadArguments) -> Words {
    let open_loop = |text: &str| load.rate.as_ref().map(|_| text.to_string());
    Words {
        rate: load.rate.clone(),
        arrivals: open_loop(&load.arrivals),
        overload: open_loop(&load.overload),
        think: load.think_time.clone().unwrap_or_else(|| "none".into()),
        ignore_errors: load.ignore_errors.clone(),
        ..words
    }
}

fn part(mut settings: KvSettings, words: Words) -> Part {
    if settings.operations.is_some() {
        (settings.pace.warmup_ns, settings.pace.duration_ns) = (0, LONGEST_RUN_NS);
    }
    Part {
        settings: Arc::new(settings),
        words,
    }
}

fn settings(
    place: &PlaceArguments,
    load: &LoadArguments,
    workload: kv::workload::Workload,
    depth: u32,
) -> Result<KvSettings, Error> {
    let nanoseconds = |value: std::time::Duration| value.as_nanos() as u64;
    Ok(KvSettings {
        name: "kv".into(),
        endpoint: place.endpoint(),
        address: place.address()?,
        protocol: place.protocol()?,
        pace: Pace {
            threads: threads(load),
            connections: load.connections,
            warmup_ns: nanoseconds(load.warmup),
            duration_ns: nanoseconds(load.duration),
            grace_ns: nanoseconds(load.grace),
            interval_ns: nanoseconds(load.interval),
            plan: plan(load)?,
            slowest: load.slowest,
        },
        depth,
        operations: None,
        workload,
        overload: overload(load)?,
        think: think(load.think_time.as_deref())?,
        ignored_errors: ignored_errors(&load.ignore_errors)?,
        spin: one_of("--pacing", &load.pacing, &["sleep", "spin"])? == "spin",
        connect_timeout_ns: nanoseconds(load.connect_timeout),
        ended_ns: Arc::new(AtomicU64::new(0)),
    })
}

/// Stores 0 under every counter.
pub fn set_counters(place: &PlaceArguments, settings: &KvSettings) -> Result<(), Error> {
    let mut control = server::connect(&settings.endpoint, place.protocol()?)?;
    let mut key = Vec::new();
    for number in 0..settings.workload.counters {
        key.clear();
        settings.workload.write_counter(number, &mut key);
        let item = dyno_kv::Item {
            key: &key,
            flags: 0,
            ttl_s: 0,
            value: b"0",
        };
        control
            .exchange(|connection| connection.store(dyno_kv::Store::Set, &item, false), |_| {})
            .map_err(|error| Error::Server(format!("counter {number} could not be stored: {error}")))?;
    }
    Ok(())
}

/// Runs every part in turn; the last one's result is the command's.
pub fn execute(parts: &[Part], place: &PlaceArguments, output: &OutputArguments) -> Result<Exit, Error> {
    let Some(last) = parts.last() else {
        return Err(Error::User("there is nothing to store with a share of 0".into()));
    };
    let mut control = server::connect(&last.settings.endpoint, place.protocol()?)?;
    let facts = server::check(&mut control, &last.settings.endpoint, last.settings.protocol)?;
    crate::host::allow_open_files(u64::from(last.settings.pace.connections) + 64)?;
    let interrupted = crate::host::interruption()?;
    let shown = kv_output::settings(&last.settings, &last.words);
    let progress = Progress::new(output.quiet);
    let mut sinks = Sinks::start(output.json.as_deref(), output.hdr.as_deref(), progress, &shown, &facts)?;
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
        threads: part.settings.pace.threads,
        open_loop: part.settings.pace.plan.is_some(),
        counters,
        tcp,
        asked_hit_share: part.words.hit_ratio,
    })
}
