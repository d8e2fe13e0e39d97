//! A run of memcached operations: filling, presets, and the parts that they consist of.

use std::sync::Arc;

use clap::Args;
use dyno_loop::{OperationLimit, Priority};
use serde::{Deserialize, Serialize};

use super::kv_data::share as share_of;
use super::kv_preset::{Preset, PresetSpec};
use super::load::{arrivals_word, ServerAddress};
use super::{KvData, KvDescription, KvMix, KvServer, LoadSpec};
use crate::error::Error;
use crate::kv::keys::{share, Choice, Keys};
use crate::kv::sizes::{Sizes, Values, What};
use crate::kv::{KvSettings, Mix, Shares, Workload};
use crate::parse::count;

/// What to run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct KvSpec {
    /// Where the server is.
    #[command(flatten)]
    pub server: KvServer,
    /// Keys and values.
    #[command(flatten)]
    pub data: KvData,
    /// The operations.
    #[command(flatten)]
    pub mix: KvMix,
    /// Store this share of the keys before the load
    #[arg(long, help_heading = "Keys and values")]
    pub fill: Option<String>,
    /// End after this total number of operations instead of --duration
    #[arg(long, value_parser = operations, conflicts_with_all = ["rate", "slices"], help_heading = "Load")]
    pub operations: Option<u64>,
    /// The preset.
    #[command(flatten)]
    pub preset: PresetSpec,
    /// How much load, and for how long.
    #[command(flatten)]
    pub load: LoadSpec,
}

fn operations(text: &str) -> Result<u64, String> {
    count(text).map(u64::from)
}

/// One part of a run: its settings, and these in the user's words.
#[derive(Debug)]
pub struct KvPart {
    /// The settings.
    pub settings: Arc<KvSettings>,
    /// The words.
    pub words: KvDescription,
    /// The share of keys read that should be found; none where every share is allowed.
    pub expected_hit_share: Option<f64>,
}

impl KvSpec {
    /// The parts in their order; those of filling come first.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn parts(&self) -> Result<Vec<KvPart>, Error> {
        let mut parts = Vec::new();
        let preset = self.preset.resolve(&self.load, self.operations.is_some())?;
        if let Some(text) = &self.fill {
            if preset.is_some() {
                // The share is checked first, as it stands first.
                share(text).map_err(|problem| Error::User(format!("--fill: {problem}")))?;
                return Err(Error::User(
                    "--fill and --preset exclude each other: a preset stores its own keys".into(),
                ));
            }
            parts.extend(fill(&self.server, &self.data, &self.load, text)?);
        }
        match preset {
            Some(preset) => parts.extend(preset_parts(self, &preset)?),
            None => parts.push(main_part(self)?),
        }
        Ok(parts)
    }

    /// Whether counters are to be stored before the load.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn fills_counters(&self) -> Result<bool, Error> {
        Ok(self.fill.is_some() && self.mix.mix()?.incr > 0.0)
    }
}

/// Longest time of a run that its operations end.
const LONGEST_RUN_NS: u64 = 100 * 3600 * 1_000_000_000;
/// Most operations under way on all connections together.
const MOST_UNDER_WAY: u64 = 20_000_000;
/// Operations under way on a connection while filling.
const FILL_DEPTH: u32 = 16;

/// The part that stores a share of the keys; none for a share of 0.
///
/// # Errors
/// With the option, its value and what is allowed.
pub fn fill(server: &KvServer, data: &KvData, load: &LoadSpec, text: &str) -> Result<Option<KvPart>, Error> {
    let share = share(text).map_err(|problem| Error::User(format!("--fill: {problem}")))?;
    let (workload, words) = Resolution {
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
    let mut settings = settings(server, load, workload, FILL_DEPTH)?;
    settings.name = "fill".into();
    settings.load.limit = Some(OperationLimit::new(operations));
    settings.load.shape.schedule = None;
    if settings.load.priority == Priority::Realtime {
        // Not planned: as fast as the server takes it.
        settings.load.priority = Priority::Raised;
    }
    Ok(Some(part(settings, words, None)))
}

fn main_part(spec: &KvSpec) -> Result<KvPart, Error> {
    let (workload, words) = Resolution {
        data: &spec.data,
        mix: Some(&spec.mix),
        choice: None,
        keys: None,
        sizes: ("64", "1024"),
        seed: spec.load.seed,
    }
    .resolve()?;
    let mut settings = settings(&spec.server, &spec.load, workload, spec.mix.depth)?;
    settings.load.limit = spec.operations.map(OperationLimit::new);
    let stored = spec.fill.as_deref().map_or(Ok(1.0), share).map_err(Error::User)?;
    let words = with_load(words, &spec.load);
    Ok(part(settings, words, spec.mix.expected_hit_share(stored)?))
}

fn preset_parts(spec: &KvSpec, preset: &Preset) -> Result<Vec<KvPart>, Error> {
    let mut parts = Vec::new();
    for phase in &preset.phases {
        let mix = KvMix {
            ratio: phase.ratio.into(),
            ..spec.mix.clone()
        };
        let (workload, words) = Resolution {
            data: &spec.data,
            mix: Some(&mix),
            choice: Some(phase.choice.clone()),
            keys: phase.keys,
            sizes: preset.sizes,
            seed: spec.load.seed,
        }
        .resolve()?;
        let mut settings = settings(&spec.server, &spec.load, workload, spec.mix.depth)?;
        settings.name = phase.name.into();
        settings.load.limit = phase.operations.map(OperationLimit::new);
        let words = KvDescription {
            preset: Some(preset.name.into()),
            ..with_load(words, &spec.load)
        };
        parts.push(part(settings, words, mix.expected_hit_share(1.0)?));
    }
    Ok(parts)
}

fn with_load(words: KvDescription, load: &LoadSpec) -> KvDescription {
    let open_loop = |text: &str| load.rate.as_ref().map(|_| text.to_string());
    KvDescription {
        rate: load.rate.clone(),
        arrivals: open_loop(arrivals_word(load)),
        overload: open_loop(&load.overload),
        think: load.think_time.clone().unwrap_or_else(|| "none".into()),
        ignore_errors: load.ignore_errors.clone(),
        ..words
    }
}

fn part(mut settings: KvSettings, words: KvDescription, expected_hit_share: Option<f64>) -> KvPart {
    if settings.load.limit.is_some() {
        let shape = &mut settings.load.shape;
        (shape.warmup_ns, shape.duration_ns) = (0, LONGEST_RUN_NS);
    }
    KvPart {
        settings: Arc::new(settings),
        words,
        expected_hit_share,
    }
}

fn settings(server: &KvServer, load: &LoadSpec, workload: Workload, depth: u32) -> Result<KvSettings, Error> {
    if u64::from(load.connections()) * u64::from(depth) > MOST_UNDER_WAY {
        return Err(Error::User(format!(
            "--connections {} times --depth {depth} is more than {MOST_UNDER_WAY} operations under way; lower one of them",
            load.connections()
        )));
    }
    let endpoint = server.endpoint();
    let address = ServerAddress {
        endpoint: endpoint.to_string(),
        address: server.address()?,
        connect_timeout: server.connect_timeout,
    };
    Ok(KvSettings {
        name: "kv".into(),
        protocol: server.protocol()?,
        load: load.resolve(address, false)?,
        endpoint,
        depth,
        workload,
    })
}

/// Keys, values and mix, resolved, with the words for the result.
struct Resolution<'a> {
    /// Keys and values.
    data: &'a KvData,
    /// The operations; none for filling.
    mix: Option<&'a KvMix>,
    /// Which keys, where a preset sets it.
    choice: Option<Choice>,
    /// Number of keys, where a preset sets it.
    keys: Option<u64>,
    /// Default sizes of keys and values.
    sizes: (&'static str, &'static str),
    /// Seed.
    seed: u64,
}

impl Resolution<'_> {
    /// The workload, and its words.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    fn resolve(&self) -> Result<(Workload, KvDescription), Error> {
        let data = self.data;
        let count = self.keys.unwrap_or(u64::from(data.keys));
        let key_size = data.key_size.as_deref().unwrap_or(self.sizes.0);
        let value_size = data.value_size.as_deref().unwrap_or(self.sizes.1);
        let wrong = |option: &'static str| move |problem: String| Error::User(format!("--{option}: {problem}"));
        let key_choice = self.mix.map_or(Ok("sequential"), KvMix::choice_of_keys)?;
        let choice = match &self.choice {
            Some(choice) => choice.clone(),
            None => Choice::parse(key_choice, count).map_err(wrong("key-choice"))?,
        };
        let key_sizes = Sizes::parse(key_size, What::Key).map_err(wrong("key-size"))?;
        let value_sizes = Sizes::parse(value_size, What::Value).map_err(wrong("value-size"))?;
        let keys = Keys::new(count, choice.clone(), &data.key_prefix, key_sizes).map_err(wrong("key-size"))?;
        let mix = match self.mix {
            Some(mix) => mix.mix()?,
            None => Mix {
                set: 1.0,
                ..Mix::default()
            },
        };
        let hit_ratio = self.mix.map_or(Ok(None), KvMix::hit_share)?;
        let verify = self.mix.map_or(Ok(0.0), |mix| share_of("verify", &mix.verify))?;
        let shares = Shares {
            mix,
            verify,
            absent: 1.0 - hit_ratio.unwrap_or(1.0),
        };
        let mut workload = Workload::new(keys, Values::new(value_sizes), shares, self.seed).map_err(Error::User)?;
        workload.counters = u64::from(data.counters);
        workload.ttl_s = data.ttl;
        if let Some(mix) = self.mix {
            workload.multi_get_keys = mix.multi_get_keys;
            workload.quiet_sets = mix.noreply;
        }
        let ycsb = self.mix.map_or(Ok(None), KvMix::of_ycsb)?;
        let words = KvDescription {
            preset: ycsb.map(|ycsb| ycsb.name.into()),
            mix,
            key_choice: match &choice {
                Choice::Window { size, .. } => format!("window:{size}"),
                _ => key_choice.into(),
            },
            key_size: key_size.into(),
            value_size: value_size.into(),
            verify,
            hit_ratio,
            ..KvDescription::default()
        };
        Ok((workload, words))
    }
}
