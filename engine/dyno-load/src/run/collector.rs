//! Brings the workers' intervals together, off their threads.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use super::timeline::{IntervalId, Phase, Timeline};
use crate::recorder::{Handshakes, Recorder, ThreadUsage};
use crate::workload::StatementKind;

/// One interval of the whole run.
#[derive(Debug)]
pub struct Interval<'a> {
    /// Its phase.
    pub phase: Phase,
    /// Its number in the phase.
    pub index: u64,
    /// Seconds from the start of the measurement to its start; negative in the warm-up.
    pub start_s: f64,
    /// Its length.
    pub length_s: f64,
    /// What happened.
    pub recorder: &'a Recorder,
}

/// Who wants to see each interval when it is complete.
pub trait Observer {
    /// Called in the order of time.
    ///
    /// # Errors
    /// When the output fails; the run then ends.
    fn interval(&mut self, interval: &Interval<'_>) -> std::io::Result<()>;
}

/// Sums over the run.
#[derive(Debug)]
pub struct Totals {
    /// The measurement. In an open loop its latencies include transactions of its plan that ended after the stop.
    pub measured: Recorder,
    /// Everything from the first statement to the last, for the comparison with the server's counters.
    pub all: crate::recorder::Counts,
    /// The same by kind of statement.
    pub all_by_kind: [u64; StatementKind::COUNT],
    /// What only memcached has, from the first operation to the last; empty for SQL.
    pub all_kv: crate::kv::KvCounts,
    /// TLS handshakes from the first connection to the last.
    pub all_handshakes: Handshakes,
    /// Transactions of the measurement's plan that ended after the stop; they are in the latencies, not in the rates.
    pub ended_after_stop: u64,
    /// Highest CPU use of one worker in one interval of the measurement, percent of one CPU.
    pub busiest_worker_cpu_pct: f64,
    /// Intervals of the measurement.
    pub intervals: u64,
}

struct Pending {
    reports: usize,
    recorder: Box<Recorder>,
}

/// Collects, and passes on.
pub(super) struct Collector<'a> {
    workers: usize,
    open_loop: bool,
    timeline: Timeline,
    pending: BTreeMap<IntervalId, Pending>,
    totals: Totals,
    spares: &'a [Sender<Box<Recorder>>],
    observer: &'a mut dyn Observer,
}

impl<'a> Collector<'a> {
    pub fn new(
        timeline: Timeline,
        open_loop: bool,
        slowest: usize,
        spares: &'a [Sender<Box<Recorder>>],
        observer: &'a mut dyn Observer,
    ) -> Self {
        Self {
            workers: spares.len(),
            open_loop,
            timeline,
            pending: BTreeMap::new(),
            totals: Totals {
                measured: Recorder::new(slowest),
                all: crate::recorder::Counts::default(),
                all_by_kind: [0; StatementKind::COUNT],
                all_kv: crate::kv::KvCounts::default(),
                all_handshakes: Handshakes::default(),
                ended_after_stop: 0,
                busiest_worker_cpu_pct: 0.0,
                intervals: 0,
            },
            spares,
            observer,
        }
    }

    /// Takes one worker's interval; passes the interval on when it was the last.
    pub fn take(&mut self, id: IntervalId, worker: usize, recorder: Box<Recorder>) -> std::io::Result<()> {
        self.note_cpu(id, &recorder.usage);
        match self.pending.get_mut(&id) {
            None => {
                self.pending.insert(id, Pending { reports: 1, recorder });
            }
            Some(pending) => {
                pending.reports += 1;
                pending.recorder.merge(&recorder);
                self.give_back(worker, recorder);
            }
        }
        if self
            .pending
            .get(&id)
            .is_some_and(|pending| pending.reports == self.workers)
        {
            // A worker that skipped an interval reports nothing for it: everything before a complete one is complete.
            while let Some(entry) = self.pending.first_entry().filter(|entry| *entry.key() <= id) {
                let (id, pending) = entry.remove_entry();
                self.complete(id, worker, pending.recorder)?;
            }
        }
        Ok(())
    }

    /// Passes on what is left, and gives the sums.
    pub fn finish(mut self) -> std::io::Result<Totals> {
        while let Some((id, pending)) = self.pending.pop_first() {
            self.complete(id, 0, pending.recorder)?;
        }
        Ok(self.totals)
    }

    fn note_cpu(&mut self, id: IntervalId, usage: &ThreadUsage) {
        let (start, end) = self.timeline.interval_bounds(id);
        if id.phase == Phase::Measure && end > start {
            let percent = usage.busiest_cpu_us as f64 * 1e5 / (end - start) as f64;
            self.totals.busiest_worker_cpu_pct = self.totals.busiest_worker_cpu_pct.max(percent);
        }
    }

    fn complete(&mut self, id: IntervalId, worker: usize, recorder: Box<Recorder>) -> std::io::Result<()> {
        self.totals.all.add(&recorder.counts);
        self.totals.all_kv.add(&recorder.kv.counts);
        self.totals.all_handshakes.merge(&recorder.handshakes);
        for (sum, histogram) in self.totals.all_by_kind.iter_mut().zip(&recorder.statements) {
            *sum += histogram.count();
        }
        match id.phase {
            Phase::Warmup => {}
            Phase::Measure => {
                self.totals.intervals += 1;
                self.totals.measured.merge(&recorder);
            }
            Phase::Drain if self.open_loop => {
                self.totals.ended_after_stop = recorder.counts.transactions;
                // Dropped only now, but of the measurement's plan.
                self.totals.measured.counts.dropped_late += recorder.counts.dropped_late;
                self.totals.measured.response.merge(&recorder.response);
                self.totals.measured.service.merge(&recorder.service);
                self.totals.measured.lag.merge(&recorder.lag);
                self.totals.measured.slowest.merge(&recorder.slowest);
                self.totals.measured.kv.merge_latencies(&recorder.kv);
                self.totals.measured.by_type.merge_latencies(&recorder.by_type);
            }
            Phase::Drain => self.totals.ended_after_stop = recorder.counts.transactions,
        }
        let (start, end) = self.timeline.interval_bounds(id);
        self.observer.interval(&Interval {
            phase: id.phase,
            index: id.index,
            start_s: (start as f64 - self.timeline.measure_ns as f64) / 1e9,
            length_s: (end - start) as f64 / 1e9,
            recorder: &recorder,
        })?;
        self.give_back(worker, recorder);
        Ok(())
    }

    fn give_back(&self, worker: usize, mut recorder: Box<Recorder>) {
        recorder.clear();
        // A worker that is done needs no spare.
        let _ = self.spares[worker].send(recorder);
    }
}
