//! The sum of all slices of a load, as the rules on the load itself look at it.

use dyno_loop::recorder::{Counts, Extra, ThreadUsage};
use dyno_loop::{Load, LoadShape};

use crate::quality::{self, Finding, KvInputs, Measurement, OwnSql, QualityInputs};

/// What the measured parts add up to.
#[derive(Debug, Default)]
pub struct Sum {
    counts: Counts,
    usage: ThreadUsage,
    length_s: f64,
}

impl Sum {
    /// Adds a slice.
    pub fn add<E: Extra>(&mut self, load: &Load<E>, length_s: f64) {
        self.counts.add(&load.totals.measured.counts);
        self.usage.add(&load.totals.measured.usage);
        self.length_s += length_s;
    }

    /// What the rules find; `load` is the last slice, whose latencies they do not look at.
    pub fn judge<E: Extra>(
        &self,
        load: &Load<E>,
        shape: &LoadShape,
        kv: Option<KvInputs<'_>>,
        own_sql: Option<OwnSql>,
    ) -> Vec<Finding> {
        quality::judge_slices(&QualityInputs {
            measured: Measurement {
                counts: self.counts,
                usage: self.usage,
                ..Measurement::of(&load.totals)
            },
            end: load.end,
            duration_s: self.length_s,
            threads: shape.threads,
            failure: None,
            open_loop: shape.is_timed(),
            counters: &[],
            counters_read: false,
            agents: &[],
            tcp: None,
            kv,
            own_sql,
        })
    }
}
