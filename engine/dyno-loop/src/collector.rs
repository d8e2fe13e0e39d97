//! Merges the workers' intervals, off their threads.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use super::recorder::{Counts, Extra, Latency, Recorder, ThreadUsage};
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
    /// Latencies of operations that were under way at the stop and are counted nevertheless, with what they have waited.
    pub counted_at_the_end: u64,
    /// Length of the longest time without a transaction, in whole intervals of the measurement.
    pub longest_silence_s: f64,
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
            counted_at_the_end: 0,
            longest_silence_s: 0.0,
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

/// What this program's own work at the end of a measurement hardly takes.
const OWN_WORK_NS: u64 = 100_000_000;

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
    /// How long there has been no transaction.
    silence_s: f64,
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
            silence_s: 0.0,
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
                self.silence_s = if recorder.counts.transactions > 0 {
                    0.0
                } else {
                    self.silence_s + length_s
                };
                self.totals.longest_silence_s = self.totals.longest_silence_s.max(self.silence_s);
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
            Phase::Drain => {
                self.totals.ended_after_stop = recorder.counts.transactions;
                self.totals.measured.cut.add(&recorder.cut);
            }
        }
        if id.phase == Phase::Drain {
            self.record_left(&recorder.left);
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

    /// Operations of a plan count with what they have waited. In a closed loop those do that lasted more than twice as long
    /// as any that ended in the measurement: to leave them out would hide a server that stopped answering, and what is a
    /// little longer is this program's own work at the end.
    fn record_left(&mut self, left: &[Latency]) {
        let measured = &mut self.totals.measured;
        let longest_ns = if self.open_loop {
            0
        } else {
            (2 * measured.response.max_ns()).max(OWN_WORK_NS)
        };
        for one in left.iter().filter(|one| one.response_ns > longest_ns) {
            measured.response.record(one.response_ns);
            measured.service.record(one.service_ns);
            self.totals.counted_at_the_end += 1;
        }
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::recorder::client_code;
    use crate::settings::LoadShape;

    const SECOND: u64 = 1_000_000_000;
    /// Measurements of 3.5 s with a warm-up of 1 s, in intervals of 1 s.
    const SHAPE: LoadShape = LoadShape {
        threads: 2,
        connections: 2,
        warmup_ns: SECOND,
        duration_ns: 3 * SECOND + SECOND / 2,
        grace_ns: SECOND,
        interval_ns: SECOND,
        schedule: None,
        catch_up: None,
        slowest: 0,
        has_terminals: false,
    };

    impl Extra for () {
        type Sums = ();

        fn add_to(&self, (): &mut ()) {}

        fn merge(&mut self, (): &Self) {}

        fn merge_latencies(&mut self, (): &Self) {}

        fn clear(&mut self) {}
    }

    /// Phase, start and transactions of each interval, and its plan.
    #[derive(Default)]
    struct Seen(Vec<(Phase, f64, u64, Option<PlanAccount>)>);

    impl Observer<()> for Seen {
        fn interval(&mut self, interval: &Interval<'_, ()>) -> std::io::Result<()> {
            let transactions = interval.recorder.counts.transactions;
            self.0
                .push((interval.phase, interval.start_s, transactions, interval.plan));
            Ok(())
        }
    }

    /// An interval with so many transactions and lost connections.
    fn recorder(transactions: u64, losses: u64) -> Recorder<()> {
        let mut recorder = Recorder::new(0);
        recorder.counts.transactions = transactions;
        (0..transactions).for_each(|_| recorder.response.record(1000));
        (0..losses).for_each(|_| recorder.errors.record(client_code::SERVER_LOST, "lost"));
        recorder
    }

    /// Collects workers' intervals, in the order of their reports: second since the start of the load, worker, what was
    /// recorded, and the plan.
    fn collect(
        open_loop: bool,
        reports: impl IntoIterator<Item = (u64, usize, Recorder<()>, Option<PlanAccount>)>,
    ) -> (Totals<()>, Seen) {
        let mut seen = Seen::default();
        let timeline = Timeline::new(10 * SECOND, &SHAPE);
        let (spares, _receivers): (Vec<_>, Vec<_>) = (0..SHAPE.threads).map(|_| channel()).unzip();
        let mut collector = Collector::new(timeline, open_loop, 0, &spares, &mut seen);
        for (second, worker, recorder, plan) in reports {
            let id = timeline.interval_at((10 + second) * SECOND);
            collector.take(id, worker, Box::new(recorder), plan).unwrap();
        }
        let totals = collector.finish().unwrap();
        (totals, seen)
    }

    #[test]
    fn the_server_is_away_from_a_loss_until_the_next_transaction_of_any_worker() {
        // Transactions and losses of both workers in a second.
        const BUSY: [(u64, u64); 2] = [(9, 0), (9, 0)];
        const LOST: [(u64, u64); 2] = [(0, 1), (0, 2)];
        const SILENT: [(u64, u64); 2] = [(0, 0), (0, 0)];
        const ONE_IS_BACK: [(u64, u64); 2] = [(0, 3), (1, 0)];
        // The last second of the measurement is half a one.
        for (seconds, unavailable_s) in [
            ([BUSY, BUSY, BUSY, BUSY], 0.0),
            ([BUSY, LOST, SILENT, ONE_IS_BACK], 2.0),
            ([BUSY, BUSY, BUSY, LOST], 0.5),
            ([SILENT, LOST, BUSY, SILENT], 1.0),
            ([LOST, ONE_IS_BACK, LOST, BUSY], 2.0),
            // Connections were lost and made again.
            ([BUSY, ONE_IS_BACK, ONE_IS_BACK, BUSY], 0.0),
            // A server that stalls has lost nothing.
            ([BUSY, SILENT, SILENT, BUSY], 0.0),
        ] {
            let of_second = |(second, workers): (u64, [(u64, u64); 2])| {
                [0, 1].map(|worker| (second, worker, recorder(workers[worker].0, workers[worker].1), None))
            };
            let (totals, seen) = collect(false, (1..).zip(seconds).flat_map(of_second));
            assert_eq!(totals.unavailable_s, unavailable_s, "{seconds:?}");
            assert_eq!((totals.intervals, seen.0.len()), (4, 4));
        }
        let since_warmup = [(0, 0, 1), (1, 0, 0), (2, 5, 0)];
        let of_second = |(second, transactions, losses)| (second, 0, recorder(transactions, losses), None);
        let (totals, _) = collect(false, since_warmup.map(of_second));
        assert_eq!(totals.unavailable_s, 1.0, "the warm-up itself does not count");
    }

    fn plan(planned: u64, ended: u64) -> Option<PlanAccount> {
        Some(PlanAccount {
            planned,
            ended,
            not_started: planned - ended,
            ..PlanAccount::default()
        })
    }

    #[test]
    fn intervals_are_passed_on_in_order_and_their_plans_are_the_last_of_every_worker() {
        let reports = [
            (0, 0, 4, plan(5, 4)),
            (0, 1, 5, plan(5, 5)),
            (1, 0, 10, plan(10, 10)),
            // The second worker has none for its first second, which it missed, and the first one is ahead by one.
            (2, 0, 8, plan(20, 18)),
            (3, 0, 9, plan(30, 27)),
            (2, 1, 7, plan(20, 7)),
            (3, 1, 11, plan(30, 18)),
        ];
        let reported = |(second, worker, transactions, plan)| (second, worker, recorder(transactions, 0), plan);
        let (totals, seen) = collect(true, reports.map(reported));
        assert_eq!(
            seen.0,
            [
                (Phase::Warmup, -1.0, 9, plan(10, 9)),
                // The measurement has a plan of its own.
                (Phase::Measure, 0.0, 10, plan(10, 10)),
                (Phase::Measure, 1.0, 15, plan(40, 25)),
                (Phase::Measure, 2.0, 20, plan(60, 45)),
            ]
        );
        assert_eq!(totals.measured.counts.transactions, 45);
        assert_eq!(totals.all.transactions, 54);
    }

    #[test]
    fn what_was_under_way_at_the_stop_counts_with_its_wait_where_it_is_the_slowest() {
        for (open_loop, counted) in [(true, 2), (false, 1)] {
            let mut drain = recorder(0, 0);
            drain.left = [500, 9_000_000_000]
                .map(|response_ns| Latency {
                    response_ns,
                    service_ns: response_ns,
                })
                .to_vec();
            let plan = plan(2, 0).filter(|_| open_loop);
            let (totals, _) = collect(open_loop, [(1, 0, recorder(6, 0), plan), (5, 0, drain, plan)]);
            assert_eq!(totals.counted_at_the_end, counted);
            assert_eq!(totals.measured.response.count(), 6 + counted);
            assert!(totals.measured.response.max_ns() >= 8_900_000_000);
            assert_eq!(totals.measured.counts.transactions, 6);
        }
    }

    #[test]
    fn the_longest_time_without_a_transaction_is_kept() {
        let of_second = |(second, transactions)| (second, 0, recorder(transactions, 0), None);
        let (totals, _) = collect(false, [(0, 0), (1, 0), (2, 0), (3, 5), (4, 0)].map(of_second));
        assert_eq!(totals.longest_silence_s, 2.0, "the warm-up does not count");
    }

    #[test]
    fn what_an_open_loop_does_after_the_stop_is_in_its_latencies_and_not_in_its_rate() {
        for (open_loop, responses, dropped_late) in [(true, 10, 3), (false, 6, 0)] {
            let mut drain = recorder(4, 0);
            drain.counts.dropped_late = 3;
            let plan = plan(13, 10).filter(|_| open_loop);
            let (totals, seen) = collect(open_loop, [(1, 0, recorder(6, 0), plan), (5, 0, drain, plan)]);
            assert_eq!(seen.0[1].0, Phase::Drain);
            assert_eq!((totals.measured.counts.transactions, totals.ended_after_stop), (6, 4));
            assert_eq!(totals.measured.response.count(), responses);
            assert_eq!(totals.measured.counts.dropped_late, dropped_late);
            assert_eq!(totals.all.transactions, 10);
        }
    }
}
