//! `dynoload kv run`: fill, check, load, measure, judge, print.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use clap::Args;

use super::kv_measure::{execute, Part};
use super::kv_options::{Asked, DataArguments, MixArguments, PlaceArguments};
use super::kv_preset::{Preset, PresetArguments};
use super::oltp_run::OutputArguments;
use super::parse::count;
use super::run_settings::{
    arrivals_word, catch_up, ignored_errors, one_of, overload, plan, priority, think, threads, LoadArguments,
};
use super::slices::SliceArguments;
use crate::error::{Error, Exit};
use crate::kv::keys::{share, Choice};
use crate::kv::{self, server, KvSettings};
use crate::output::kv::{self as kv_output, Words};
use crate::run::{Pace, Priority};
use crate::slices::{Input, KvTarget, Unobserved};

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
    #[arg(long, value_parser = count, conflicts_with_all = ["rate", "slices"], help_heading = "Load")]
    operations: Option<u32>,
    #[command(flatten)]
    preset: PresetArguments,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    slices: SliceArguments,
    #[command(flatten)]
    output: OutputArguments,
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
    if arguments.slices.slices {
        return run_slices(&parts, arguments);
    }
    execute(&parts, &arguments.place, &arguments.output)
}

/// Fills, where that is asked for, then runs slices of the last part.
fn run_slices(parts: &[Part], arguments: &RunArguments) -> Result<Exit, Error> {
    let Some((last, fills)) = parts.split_last() else {
        return Err(Error::User("there is nothing to run".into()));
    };
    let settings = &last.settings;
    let mut control = server::connect(&settings.endpoint, settings.protocol)?;
    let facts = server::check(&mut control, &settings.endpoint, settings.protocol)?;
    crate::host::take_priority(settings.priority);
    let input = Input::open()?;
    for fill in fills {
        let outcome = kv::run(&fill.settings, &input.interrupted, &mut || {}, &mut Unobserved)?;
        if let Some(failure) = outcome.failure {
            return Err(Error::Server(format!("--fill: {failure}")));
        }
        if outcome.interrupted {
            return Err(Error::Interrupted("interrupted while filling".into()));
        }
    }
    let shown = kv_output::settings(settings, &last.words);
    let mut target = KvTarget::new(Arc::clone(settings), control);
    arguments.slices.run(&mut target, shown, &facts, &input)
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
    if settings.priority == Priority::Realtime {
        // Not planned: as fast as the server takes it.
        settings.priority = Priority::Raised;
    }
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
        arrivals: open_loop(arrivals_word(load)),
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
            catch_up: catch_up(load)?,
            slowest: load.slowest,
            terminals: None,
        },
        depth,
        operations: None,
        workload,
        overload: overload(load)?,
        think: think(load.think_time.as_deref())?,
        ignored_errors: ignored_errors(&load.ignore_errors)?,
        priority: priority(load, load.rate.is_some())?,
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
