//! Merges the workers' intervals, off their threads.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use super::recorder::{Counts, Extra, Recorder, ThreadUsage};
use super::report::PlanAccount;
use super::timeline::{IntervalId, Phase, Timeline};

/// One interval of the whole run.
#[derive(Debug)]
pub struct Interval<'a, E> {
    /// Its phase.
    pub phase: Phase,
    /// Its number in the phase.
    pub index: u64,
    /// Seconds from the start of the measurement to its start; negative in the warm-up.
    pub start_s: f64,
    /// Its length.
    pub length_s: f64,
    /// What happened.
    pub recorder: &'a Recorder<E>,
    /// The plan at its end, of all workers; none in a closed loop.
    pub plan: Option<PlanAccount>,
}

/// Receives each interval when it is complete.
pub trait Observer<E> {
    /// Called in the order of time.
    ///
    /// # Errors
    /// When the output fails; the run then ends.
    fn interval(&mut self, interval: &Interval<'_, E>) -> std::io::Result<()>;
}

/// Sums over the run.
#[derive(Debug)]
pub struct Totals<E: Extra> {
    /// The measurement. In an open loop its latencies include operations of its schedule that ended after the stop.
    pub measured: Recorder<E>,
    /// Everything from the first operation to the last, for the comparison with the server's counters.
    pub all: Counts,
    /// The same of what only this family of workloads has.
    pub sums: E::Sums,
    /// Operations of the measurement's schedule that ended after the stop; they are in the latencies, not in the rates.
    pub ended_after_stop: u64,
    /// Highest CPU use of one worker in one interval of the measurement, percent of one CPU.
    pub busiest_worker_cpu_pct: f64,
    /// Intervals of the measurement.
    pub intervals: u64,
    /// Length of those in which no transaction ended while connections were lost, or could not be made again.
    pub unavailable_s: f64,
}

impl<E: Extra> Totals<E> {
    /// Nothing yet; keeps the `slowest` slowest operations.
    pub fn new(slowest: usize) -> Self {
        Self {
            measured: Recorder::new(slowest),
            all: Counts::default(),
            sums: E::Sums::default(),
            ended_after_stop: 0,
            busiest_worker_cpu_pct: 0.0,
            intervals: 0,
            unavailable_s: 0.0,
        }
    }
}

struct Pending<E> {
    reports: usize,
    recorder: Box<Recorder<E>>,
    /// By worker.
    plans: Vec<(usize, PlanAccount)>,
}

/// Collects, and passes on.
pub(super) struct Collector<'a, E: Extra> {
    workers: usize,
    open_loop: bool,
    timeline: Timeline,
    pending: BTreeMap<IntervalId, Pending<E>>,
    /// The last account of each worker in the phase; empty in a closed loop.
    plans: Vec<PlanAccount>,
    is_warmup: bool,
    totals: Totals<E>,
    /// Whether connections were lost since the last transaction.
    is_away: bool,
    spares: &'a [Sender<Box<Recorder<E>>>],
    observer: &'a mut dyn Observer<E>,
}

impl<'a, E: Extra> Collector<'a, E> {
    pub fn new(
        timeline: Timeline,
        open_loop: bool,
        slowest: usize,
        spares: &'a [Sender<Box<Recorder<E>>>],
        observer: &'a mut dyn Observer<E>,
    ) -> Self {
        Self {
            workers: spares.len(),
            open_loop,
            timeline,
            pending: BTreeMap::new(),
            plans: vec![PlanAccount::default(); if open_loop { spares.len() } else { 0 }],
            is_warmup: true,
            totals: Totals::new(slowest),
            is_away: false,
            spares,
            observer,
        }
    }

    /// Takes one worker's interval; passes the interval on when it was the last.
    pub fn take(
        &mut self,
        id: IntervalId,
        worker: usize,
        recorder: Box<Recorder<E>>,
        plan: Option<PlanAccount>,
    ) -> std::io::Result<()> {
        self.note_cpu(id, &recorder.usage);
        let plan = plan.map(|plan| (worker, plan));
        match self.pending.get_mut(&id) {
            None => {
                let first = Pending {
                    reports: 1,
                    recorder,
                    plans: plan.into_iter().collect(),
                };
                self.pending.insert(id, first);
            }
            Some(pending) => {
                pending.reports += 1;
                pending.plans.extend(plan);
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
                self.complete(id, worker, pending)?;
            }
        }
        Ok(())
    }

    /// Passes on what is left, and returns the sums.
    pub fn finish(mut self) -> std::io::Result<Totals<E>> {
        while let Some((id, pending)) = self.pending.pop_first() {
            self.complete(id, 0, pending)?;
        }
        Ok(self.totals)
    }

    fn note_cpu(&mut self, id: IntervalId, usage: &ThreadUsage) {
        if id.phase == Phase::Measure {
            let percent = usage.busiest_cpu_ppm as f64 / 1e4;
            self.totals.busiest_worker_cpu_pct = self.totals.busiest_worker_cpu_pct.max(percent);
        }
    }

    fn complete(&mut self, id: IntervalId, worker: usize, pending: Pending<E>) -> std::io::Result<()> {
        let plan = self.plan_at(id, &pending.plans);
        let recorder = pending.recorder;
        self.totals.all.add(&recorder.counts);
        recorder.extra.add_to(&mut self.totals.sums);
        let (start, end) = self.timeline.interval_bounds(id);
        let length_s = (end - start) as f64 / 1e9;
        self.is_away = recorder.counts.transactions == 0 && (self.is_away || recorder.errors.has_losses());
        match id.phase {
            Phase::Warmup => {}
            Phase::Measure => {
                self.totals.intervals += 1;
                self.totals.unavailable_s += if self.is_away { length_s } else { 0.0 };
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
                self.totals.measured.extra.merge_latencies(&recorder.extra);
            }
            Phase::Drain => self.totals.ended_after_stop = recorder.counts.transactions,
        }
        self.observer.interval(&Interval {
            phase: id.phase,
            index: id.index,
            start_s: (start as f64 - self.timeline.measure_ns as f64) / 1e9,
            length_s,
            recorder: &recorder,
            plan,
        })?;
        self.give_back(worker, recorder);
        Ok(())
    }

    /// The sum of the workers' accounts. A worker that was too late to report the interval has that of its last one.
    fn plan_at(&mut self, id: IntervalId, reported: &[(usize, PlanAccount)]) -> Option<PlanAccount> {
        if self.is_warmup && id.phase != Phase::Warmup {
            self.is_warmup = false;
            self.plans.fill(PlanAccount::default());
        }
        for (worker, plan) in reported {
            self.plans[*worker] = *plan;
        }
        let mut sum = PlanAccount::default();
        self.plans.iter().for_each(|plan| sum.add(plan));
        self.open_loop.then_some(sum)
    }

    fn give_back(&self, worker: usize, mut recorder: Box<Recorder<E>>) {
        recorder.clear();
        // A worker that is done needs no spare.
        let _ = self.spares[worker].send(recorder);
    }
}
