//! One load with what is read around it: the server's counters, the host's TCP segments, and how long it lasted, also
//! where a number of operations ended it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use dyno_core::clock::now_ns;
use dyno_loop::recorder::Extra;
use dyno_loop::{Address, Interval, LoadSettings, Observer, Outcome, Rest, Session, Totals, START_DELAY_NS};
use serde_json::Value;

use crate::agents::{AgentFacts, Coordinator, Shippable};
use crate::error::Error;
use crate::host::TcpSegments;
use crate::output::sql::warehouses;
use crate::output::{json, table, Final, Shown};
use crate::quality::{self, KvInputs, Measurement, OwnSql, QualityInputs, RunQuality};
use crate::server::{CounterCheck, Facts};

/// Passes intervals on; the last one of a run that its operations end is as long as they took.
pub struct ClampedObserver<'a, E> {
    /// Where to.
    pub inner: &'a mut dyn Observer<E>,
    /// When the last operation ended, 0 before; none where time alone ends the run.
    pub ended_ns: Option<&'a AtomicU64>,
    /// When the load began: a run that its operations end has no warm-up.
    pub started_ns: &'a AtomicU64,
}

impl<E> Observer<E> for ClampedObserver<'_, E> {
    fn interval(&mut self, interval: &Interval<'_, E>) -> io::Result<()> {
        let ended_ns = self.ended_ns.map_or(0, |ended_ns| ended_ns.load(Ordering::Relaxed));
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
            plan: interval.plan,
        })
    }
}

/// How long the measurement lasted.
pub fn measured_s<E: Extra>(load: &LoadSettings, outcome: &Outcome<E>, interrupted: &AtomicBool) -> f64 {
    let planned_s = load.shape.duration_ns as f64 / 1e9;
    let Some(timeline) = outcome.timeline else {
        return planned_s;
    };
    let until = |end_ns: u64| (end_ns.saturating_sub(timeline.measure_ns) as f64 / 1e9).clamp(1e-6, planned_s);
    if outcome.failure.is_some() || interrupted.load(Ordering::Relaxed) {
        return until(now_ns());
    }
    match load
        .limit
        .as_ref()
        .map_or(0, |limit| limit.ended_ns.load(Ordering::Relaxed))
    {
        0 => planned_s,
        ended_ns => until(ended_ns),
    }
}

/// A load that has ended; `C` are the server's counters.
pub struct ObservedLoad<E: Shippable, C> {
    /// How it went.
    pub outcome: Outcome<E>,
    /// The agents that loaded; empty where this program did it itself.
    pub agents: Vec<AgentFacts>,
    /// The server's counters before the load; none when they could not be read.
    pub before: Option<C>,
    /// The same after it; also none when the load did not end in order.
    pub after: Option<C>,
    /// TCP segments of this host; none over a Unix socket, and where agents loaded.
    pub tcp: Option<TcpSegments>,
    /// How long the measurement lasted.
    pub duration_s: f64,
}

/// Runs the load, here or on the hosts of a team.
///
/// # Errors
/// When a thread cannot be started, or the observer's output fails.
pub fn observe_load<S, C>(
    settings: &Arc<S::Settings>,
    team: Option<Coordinator<S::Extra>>,
    interrupted: &AtomicBool,
    read_counters: &mut dyn FnMut() -> Option<C>,
    observer: &mut dyn Observer<S::Extra>,
) -> Result<ObservedLoad<S::Extra, C>, Error>
where
    S: Session,
    S::Extra: Shippable,
{
    let load = S::load(settings);
    let (mut before, mut after) = (None, None);
    let tcp_before = crate::host::tcp_segments();
    let started_ns = AtomicU64::new(0);
    // A server that is gone after the load has no counters: the comparison is absent then, not zero.
    let mut at_rest = |rest| match rest {
        Rest::BeforeLoad => {
            before = read_counters();
            started_ns.store(now_ns() + START_DELAY_NS, Ordering::Relaxed);
        }
        Rest::AfterLoad => after = read_counters(),
    };
    let mut clamped = ClampedObserver {
        inner: observer,
        ended_ns: load.limit.as_ref().map(|limit| &*limit.ended_ns),
        started_ns: &started_ns,
    };
    let (outcome, agents) = match team {
        Some(team) => team.run(load, &mut at_rest, &mut clamped)?,
        None => {
            let outcome = dyno_loop::run::<S>(settings, interrupted, &mut at_rest, &mut clamped)?;
            (outcome, Vec::new())
        }
    };
    // The kernel's counts are of this host, and the load of an agent is not on it.
    let is_local_tcp = agents.is_empty() && matches!(load.address, Address::Tcp(_));
    Ok(ObservedLoad {
        tcp: super::tcp_segments_since(tcp_before.filter(|_| is_local_tcp)),
        duration_s: measured_s(load, &outcome, interrupted),
        outcome,
        agents,
        before,
        after,
    })
}

/// What a load ends with.
pub struct Conclusion {
    /// The final record.
    pub record: Value,
    /// The table.
    pub text: String,
    /// How far the figures can be believed.
    pub quality: RunQuality,
}

impl<E: Shippable + Shown, C> ObservedLoad<E, C> {
    /// The server's counters against ours; empty where there is nothing to compare. `compare` is given the server's counters
    /// before and after, the sums, and how many operations were cut off, so that the server may have done them.
    pub fn reconcile(&self, compare: impl FnOnce(&C, &C, &Totals<E>, u64) -> Vec<CounterCheck>) -> Vec<CounterCheck> {
        let (Some(before), Some(after), Some(totals)) = (&self.before, &self.after, &self.outcome.totals) else {
            return Vec::new();
        };
        let cut_off = self.outcome.end.in_flight_at_stop * u64::from(self.outcome.interrupted);
        compare(before, after, totals, cut_off)
    }

    /// The result, judged; `kv` is what only memcached has, `own_sql` what only a user's statements have.
    pub fn conclude(
        &self,
        load: &LoadSettings,
        (settings, server): (&Value, &Facts),
        counters: &[CounterCheck],
        kv: Option<KvInputs<'_>>,
        own_sql: Option<OwnSql>,
    ) -> Conclusion {
        let (quality, findings) = match &self.outcome.totals {
            None => quality::without_load(),
            Some(totals) => quality::judge(&QualityInputs {
                measured: Measurement::of(totals),
                end: self.outcome.end,
                duration_s: self.duration_s,
                failure: self.outcome.failure.as_ref(),
                threads: load.shape.threads,
                open_loop: load.shape.is_timed(),
                counters,
                counters_read: self.before.is_some() && self.after.is_some(),
                agents: &self.agents,
                tcp: self.tcp,
                kv,
                own_sql,
                trace_s: load.shape.schedule.as_ref().and_then(|schedule| schedule.trace_s()),
                warehouses: warehouses(&settings["options"]),
            }),
        };
        let result = Final {
            settings,
            server,
            outcome: &self.outcome,
            agents: &self.agents,
            counters,
            quality,
            findings: &findings,
            duration_s: self.duration_s,
        };
        Conclusion {
            record: json::final_record(&result),
            text: table::render(&result),
            quality,
        }
    }
}
