//! The plan of an open loop: operation k has the intended time t0 + f(k), fixed before the run and never moved.
//!
//! One rate curve (constant pieces, linear ramps, sine waves) gives the expected number of operations by time t; its
//! inverse turns counts into times. Constant arrivals invert the whole numbers 0, 1, 2 …; Poisson arrivals invert a
//! unit-rate Poisson process (time rescaling: Daley and Vere-Jones, "An Introduction to the Theory of Point Processes",
//! §7.4), whose gaps come from the operation's number, so that the plan is the same for any number of workers. A trace
//! has no curve: its times are given.

mod wave;

use std::sync::Arc;

use crate::duration;
use crate::operation;
use crate::random::{Domain, RandomStream};

/// How operations follow one another under the rate curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly: operation k when the curve has passed k.
    Constant,
    /// Independently: exponential gaps.
    Poisson,
}

/// A time that no run reaches: where a trace is at its end.
const NEVER_NS: u64 = 1 << 62;

/// A piece of the rate curve: linear from `start_per_s` to `end_per_s`, with a sine wave of one period on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Rate where the piece begins, operations per second.
    pub start_per_s: f64,
    /// Rate where the piece ends, operations per second.
    pub end_per_s: f64,
    /// Height of the wave, operations per second; not above the rate, and 0 except where the rate is constant.
    pub amplitude_per_s: f64,
    /// Length in seconds; infinite for a last piece that holds.
    pub duration_s: f64,
}

impl Segment {
    /// A piece without a wave.
    pub fn linear(start_per_s: f64, end_per_s: f64, duration_s: f64) -> Self {
        Self {
            start_per_s,
            end_per_s,
            amplitude_per_s: 0.0,
            duration_s,
        }
    }

    fn operations(&self) -> f64 {
        (self.start_per_s + self.end_per_s) / 2.0 * self.duration_s
    }

    fn is_wave(&self) -> bool {
        self.amplitude_per_s > 0.0
    }

    /// Expected number of operations by `time_s` into the piece.
    fn operations_by(&self, time_s: f64) -> f64 {
        if self.is_wave() {
            return wave::operations_by(self, time_s);
        }
        let slope = if self.duration_s.is_finite() {
            (self.end_per_s - self.start_per_s) / self.duration_s
        } else {
            0.0
        };
        self.start_per_s * time_s + slope * time_s * time_s / 2.0
    }

    /// Time into the piece at which its expected number of operations reaches `count`.
    fn time_of(&self, count: f64) -> f64 {
        if self.is_wave() {
            return wave::time_of(self, count);
        }
        let slope = (self.end_per_s - self.start_per_s) / self.duration_s;
        if slope == 0.0 || !self.duration_s.is_finite() {
            return count / self.start_per_s;
        }
        // Root of slope/2·t² + start·t = count in the form that does not cancel.
        let root = (self.start_per_s * self.start_per_s + 2.0 * slope * count)
            .max(0.0)
            .sqrt();
        2.0 * count / (self.start_per_s + root)
    }
}

/// A rate curve with its kind of arrivals, or a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    arrivals: Arrivals,
    segments: Vec<Segment>,
    seed: u64,
    /// Times of all operations, ns after the plan's start, in order; they stand for curve and arrivals.
    trace: Option<Vec<u64>>,
}

impl Plan {
    /// A plan from its pieces; a last finite piece is followed by its end rate, for ever, and a last wave by itself.
    ///
    /// # Errors
    /// A sentence that names the value: no piece, a rate that is negative or not finite, a wave higher than its rate, a
    /// curve that ends at rate 0 (it would never finish), or a length that is not above 0.
    pub fn new(arrivals: Arrivals, mut segments: Vec<Segment>, seed: u64) -> Result<Self, String> {
        for segment in &segments {
            for rate in [segment.start_per_s, segment.end_per_s] {
                if !(rate.is_finite() && rate >= 0.0) {
                    return Err(format!("{rate} is no rate; give operations per second above 0"));
                }
            }
            if !(0.0..=segment.start_per_s).contains(&segment.amplitude_per_s) {
                return Err(format!(
                    "a wave of {} on a rate of {} would go below 0; give at most {}",
                    segment.amplitude_per_s, segment.start_per_s, segment.start_per_s
                ));
            }
            if segment.duration_s.is_nan() || segment.duration_s <= 0.0 {
                return Err(format!(
                    "{} s is no length for a rate; give one above 0",
                    segment.duration_s
                ));
            }
        }
        let last = segments
            .last()
            .ok_or("an empty rate; give operations per second, as in 5000")?;
        if last.end_per_s <= 0.0 {
            return Err(
                "a rate of 0 asks for nothing; give operations per second above 0, or no rate at all for a \
                        closed loop"
                    .into(),
            );
        }
        if last.duration_s.is_finite() && !last.is_wave() {
            let hold = Segment::linear(last.end_per_s, last.end_per_s, f64::INFINITY);
            segments.push(hold);
        }
        Ok(Self {
            arrivals,
            segments,
            seed,
            trace: None,
        })
    }

    /// Reads a trace: a line for each operation with its time in seconds after the start; empty lines and what follows a
    /// `#` are passed over.
    ///
    /// # Errors
    /// A sentence that names the line: no number, a negative one, one below the line before; or no time at all.
    pub fn from_trace(text: &str) -> Result<Self, String> {
        let mut times: Vec<u64> = Vec::new();
        for (position, line) in text.lines().enumerate() {
            let number = position + 1;
            let value = line.split('#').next().unwrap_or("").trim();
            if value.is_empty() {
                continue;
            }
            let seconds: f64 = value
                .parse()
                .ok()
                .filter(|seconds| (0.0..1e9).contains(seconds))
                .ok_or_else(|| {
                    format!("line {number}: '{value}' is no time; write seconds after the start, as in 12.5")
                })?;
            let time = (seconds * 1e9).round() as u64;
            if times.last().is_some_and(|last| *last > time) {
                return Err(format!(
                    "line {number}: {value} is before the line above it; times must not go back"
                ));
            }
            times.push(time);
        }
        if times.is_empty() {
            return Err("it holds no time; write one in seconds after the start on each line".into());
        }
        Ok(Self {
            arrivals: Arrivals::Constant,
            segments: Vec::new(),
            seed: 0,
            trace: Some(times),
        })
    }

    /// Reads a rate as people write it: `5000`; steps `1000@10s,2000@10s,4000`; a ramp `1000..5000@30s`; a sine wave
    /// around 5000, 2000 high, with a period of a minute, `5000~2000@60s`.
    ///
    /// # Errors
    /// A sentence that names the value and shows the form.
    pub fn parse(text: &str, arrivals: Arrivals, seed: u64) -> Result<Self, String> {
        let number = |value: &str| {
            value.trim().replace('_', "").parse::<f64>().map_err(|_| {
                format!(
                    "'{value}' in the rate '{text}' is no number; write 5000, 1000@10s,4000, 1000..5000@30s or \
                     5000~2000@60s"
                )
            })
        };
        let pieces: Vec<&str> = text.split(',').collect();
        let mut segments = Vec::with_capacity(pieces.len());
        for (position, piece) in pieces.iter().enumerate() {
            let (rates, length) = match piece.split_once('@') {
                Some((rates, length)) => (rates, Some(duration::parse(length)?.as_secs_f64())),
                None => (*piece, None),
            };
            let (start, end, amplitude) = match (rates.split_once(".."), rates.split_once('~')) {
                (Some((start, end)), _) => (number(start)?, number(end)?, 0.0),
                (None, Some((mean, amplitude))) => (number(mean)?, number(mean)?, number(amplitude)?),
                (None, None) => (number(rates)?, number(rates)?, 0.0),
            };
            if length.is_none() && (position + 1 < pieces.len() || start != end || amplitude != 0.0) {
                return Err(format!(
                    "'{piece}' in the rate '{text}' needs a length, as in {piece}@10s"
                ));
            }
            segments.push(Segment {
                start_per_s: start,
                end_per_s: end,
                amplitude_per_s: amplitude,
                duration_s: length.unwrap_or(f64::INFINITY),
            });
        }
        Self::new(arrivals, segments, seed)
    }

    /// Seconds after the plan's start at which `count` operations are expected.
    pub fn time_of(&self, mut count: f64) -> f64 {
        let mut start_s = 0.0;
        for segment in &self.segments {
            let operations = segment.operations();
            if count < operations {
                return start_s + segment.time_of(count);
            }
            count -= operations;
            start_s += segment.duration_s;
        }
        // Only a wave is last and finite: it comes again.
        self.segments.last().map_or(start_s, |wave| {
            let periods = (count / wave.operations()).floor();
            start_s + periods * wave.duration_s + wave.time_of(count - periods * wave.operations())
        })
    }

    /// Expected number of operations by `time_s` seconds after the plan's start.
    pub fn operations_by(&self, mut time_s: f64) -> f64 {
        let mut count = 0.0;
        for segment in &self.segments {
            if time_s <= segment.duration_s {
                return count + segment.operations_by(time_s);
            }
            count += segment.operations();
            time_s -= segment.duration_s;
        }
        self.segments.last().map_or(count, |wave| {
            let periods = (time_s / wave.duration_s).floor();
            count + periods * wave.operations() + wave.operations_by(time_s - periods * wave.duration_s)
        })
    }
}

/// One planned operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The operation's number in the whole plan.
    pub number: u64,
    /// Its intended time, ns after the plan's start.
    pub intended_ns: u64,
}

/// Walks a worker's share of the plan without end; a few ns a step for constant, one logarithm per operation of the
/// whole plan for Poisson.
#[derive(Debug, Clone)]
pub struct ArrivalCursor {
    plan: Arc<Plan>,
    next: u64,
    workers: u64,
    passed: u64,
    count: f64,
    /// Number of the first gap: each stream of a Poisson plan has gaps of its own.
    first_gap: u64,
}

impl ArrivalCursor {
    /// The arrivals that fall to one worker of several: operations `worker`, `worker + workers`, …
    pub fn new(plan: Arc<Plan>, worker: u64, workers: u64) -> Self {
        Self::of_stream(plan, worker, workers, 0)
    }

    /// The same with the random gaps of a stream: the same stream has the same times, another one has others.
    pub fn of_stream(plan: Arc<Plan>, worker: u64, workers: u64, stream: u32) -> Self {
        Self {
            plan,
            next: worker,
            workers,
            passed: 0,
            count: 0.0,
            first_gap: operation::base(stream, true),
        }
    }

    /// The next arrival; a plan has no end, and what follows a trace comes at a time that no run reaches.
    #[inline]
    pub fn next_arrival(&mut self) -> Arrival {
        let number = self.next;
        self.next += self.workers;
        if let Some(times) = &self.plan.trace {
            let intended_ns = times.get(number as usize).copied().unwrap_or(NEVER_NS);
            return Arrival { number, intended_ns };
        }
        let count = match self.plan.arrivals {
            Arrivals::Constant => number as f64,
            Arrivals::Poisson => {
                while self.passed <= number {
                    let gap = self.first_gap + self.passed;
                    self.count += RandomStream::of(self.plan.seed, Domain::Arrival, gap).next_exponential();
                    self.passed += 1;
                }
                self.count
            }
        };
        Arrival {
            number,
            intended_ns: (self.plan.time_of(count) * 1e9).round() as u64,
        }
    }
}

impl ArrivalCursor {
    /// How many further arrivals come before a time, ns after the plan's start. Walks a Poisson plan, computes others.
    pub fn count_before(&self, limit_ns: u64) -> u64 {
        if let Some(times) = &self.plan.trace {
            let all = times.partition_point(|time| *time < limit_ns) as u64;
            return all.saturating_sub(self.next).div_ceil(self.workers);
        }
        if self.plan.arrivals == Arrivals::Poisson {
            let before = |arrival: &Arrival| arrival.intended_ns < limit_ns;
            return self.clone().take_while(before).count() as u64;
        }
        // Times do not decrease with the number: double the step until one is too late, then halve the rest.
        let is_before = |place: u64| {
            let number = self.next + place * self.workers;
            ((self.plan.time_of(number as f64) * 1e9).round() as u64) < limit_ns
        };
        let mut end = 1;
        while is_before(end - 1) {
            end *= 2;
        }
        let mut start = end / 2;
        end -= 1;
        while start < end {
            let middle = start + (end - start) / 2;
            if is_before(middle) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }
}

impl Iterator for ArrivalCursor {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        Some(self.next_arrival())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn constant(text: &str) -> Plan {
        Plan::parse(text, Arrivals::Constant, 1).unwrap()
    }

    fn arrivals_of(plan: &Plan, worker: u64, workers: u64) -> ArrivalCursor {
        ArrivalCursor::new(Arc::new(plan.clone()), worker, workers)
    }

    #[test]
    fn each_stream_of_a_poisson_plan_has_times_of_its_own_and_keeps_them() {
        let plan = Arc::new(Plan::parse("5000", Arrivals::Poisson, 3).unwrap());
        let times = |stream| -> Vec<u64> {
            let cursor = ArrivalCursor::of_stream(Arc::clone(&plan), 0, 1, stream);
            cursor.take(100).map(|arrival| arrival.intended_ns).collect()
        };
        let plain: Vec<u64> = arrivals_of(&plan, 0, 1)
            .take(100)
            .map(|arrival| arrival.intended_ns)
            .collect();
        assert_eq!(times(0), plain);
        assert_eq!(times(7), times(7));
        assert_ne!(times(7), times(8));
    }

    #[test]
    fn a_constant_rate_is_evenly_spaced() {
        let plan = constant("4000");
        let times: Vec<u64> = arrivals_of(&plan, 0, 1)
            .take(4)
            .map(|arrival| arrival.intended_ns)
            .collect();
        assert_eq!(times, [0, 250_000, 500_000, 750_000]);
    }

    #[test]
    fn steps_and_ramps_follow_the_curve() {
        let steps = constant("10@1s,20@1s,40");
        assert!((steps.time_of(10.0) - 1.0).abs() < 1e-12);
        assert!((steps.time_of(30.0) - 2.0).abs() < 1e-12);
        assert!((steps.time_of(70.0) - 3.0).abs() < 1e-12);
        // From 0 to 100 in 10 s: 5 t² operations by t, then 100 a second.
        let ramp = constant("0..100@10s");
        assert!((ramp.time_of(125.0) - 5.0).abs() < 1e-12);
        assert!((ramp.time_of(600.0) - 11.0).abs() < 1e-12);
    }

    #[test]
    fn a_sine_wave_swings_about_its_rate_and_comes_again() {
        let wave = constant("100@1s,1000~800@10s");
        // Half a period holds its mean and the whole upper half of the wave: amplitude · period / π.
        let half = 100.0 + 5.0 * 1000.0 + 800.0 * 10.0 / std::f64::consts::PI;
        assert!((wave.operations_by(6.0) - half).abs() < 1e-6);
        assert!((wave.operations_by(11.0) - 10_100.0).abs() < 1e-6);
        assert!((wave.operations_by(26.0) - (20_000.0 + half)).abs() < 1e-6);
        assert!((wave.time_of(half) - 6.0).abs() < 1e-9);
        assert!((wave.time_of(20_000.0 + half) - 26.0).abs() < 1e-9);
        let to_nothing = constant("1000~1000@10s");
        assert!((to_nothing.operations_by(to_nothing.time_of(9_999.9)) - 9_999.9).abs() < 1e-3);
    }

    #[test]
    fn a_trace_gives_every_time_and_then_nothing() {
        let plan = Plan::from_trace("# from the proxy's log\n0.5\n\n0.5 # twice\n1.25\n").unwrap();
        let times: Vec<u64> = arrivals_of(&plan, 0, 1)
            .take(4)
            .map(|arrival| arrival.intended_ns)
            .collect();
        assert_eq!(times, [500_000_000, 500_000_000, 1_250_000_000, NEVER_NS]);
        let second: Vec<u64> = arrivals_of(&plan, 1, 2)
            .take(2)
            .map(|arrival| arrival.intended_ns)
            .collect();
        assert_eq!(second, [500_000_000, NEVER_NS]);
        for (text, told) in [
            ("", "no time"),
            ("1\n0.5", "line 2"),
            ("x", "line 1"),
            ("-1", "line 1"),
            ("NaN", "line 1"),
        ] {
            assert!(Plan::from_trace(text).unwrap_err().contains(told), "{text}");
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_the_process() {
        let plan = Plan::parse("1000", Arrivals::Poisson, 9).unwrap();
        let mut per_second = vec![0f64; 200];
        for arrival in arrivals_of(&plan, 0, 1) {
            match per_second.get_mut((arrival.intended_ns / 1_000_000_000) as usize) {
                Some(second) => *second += 1.0,
                None => break,
            }
        }
        let mean = per_second.iter().sum::<f64>() / 200.0;
        let variance = per_second.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 199.0;
        assert!((mean - 1000.0).abs() < 7.0, "{mean}");
        assert!((variance / mean - 1.0).abs() < 0.4, "{}", variance / mean);
    }

    #[test]
    fn rates_that_ask_for_nothing_or_are_no_rates_are_refused() {
        for text in [
            "0",
            "-5",
            "abc",
            "",
            "100..200",
            "100,200",
            "100@0s",
            "100..0@5s",
            "inf",
            "NaN",
            "5@x",
            "100~50",
            "100~200@5s",
            "100~-5@5s",
            "0~0@5s",
        ] {
            assert!(Plan::parse(text, Arrivals::Constant, 1).is_err(), "{text}");
        }
        assert!(Plan::parse("0", Arrivals::Constant, 1)
            .unwrap_err()
            .contains("closed loop"));
    }

    proptest! {
        #[test]
        fn arrivals_before_a_time_are_counted_as_a_walk_counts_them(
            workers in 1u64..5, worker in 0u64..5, passed in 0usize..50, poisson: bool, is_trace: bool,
            rate in 1.0f64..1e5, limit_ns in 0u64..20_000_000,
        ) {
            let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
            let plan = if is_trace {
                Plan::from_trace("0\n0.001\n0.001\n0.004\n0.015\n0.015\n0.019").unwrap()
            } else {
                Plan::parse(&format!("{rate}..{}@0.01s,{rate}", rate * 2.0), arrivals, 3).unwrap()
            };
            let mut cursor = arrivals_of(&plan, worker % workers, workers);
            for _ in 0..passed {
                cursor.next_arrival();
            }
            let walked = cursor.clone().take_while(|arrival| arrival.intended_ns < limit_ns).count() as u64;
            prop_assert_eq!(cursor.count_before(limit_ns), walked);
        }

        #[test]
        fn workers_share_the_plan_and_change_nothing(
            workers in 1u64..9, seed: u64, poisson: bool, first in 1.0f64..1e5, second in 1.0f64..1e5,
        ) {
            let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
            let plan = Plan::parse(&format!("{first}..{second}@0.01s"), arrivals, seed).unwrap();
            let whole: Vec<Arrival> = arrivals_of(&plan, 0, 1).take(200).collect();
            let mut shared: Vec<Arrival> =
                (0..workers).flat_map(|worker| arrivals_of(&plan, worker, workers).take(200)).collect();
            shared.sort_by_key(|arrival| arrival.number);
            prop_assert_eq!(&shared[..200], &whole[..]);
            prop_assert!(whole.windows(2).all(|pair| pair[0].intended_ns <= pair[1].intended_ns));
        }

        #[test]
        fn time_and_count_are_inverse(count in 0.0f64..1e6, start in 1.0f64..1e5, end in 1.0f64..1e5) {
            let plan = Plan::parse(&format!("{start}..{end}@3s"), Arrivals::Constant, 1).unwrap();
            let back = plan.operations_by(plan.time_of(count));
            prop_assert!((back - count).abs() <= 1e-6 * count.max(1.0), "{} for {}", back, count);
        }

        #[test]
        fn time_and_count_are_inverse_on_a_wave(count in 0.0f64..1e6, mean in 1.0f64..1e5, share in 0.001f64..0.999) {
            let plan = Plan::parse(&format!("{mean}~{}@3s", mean * share), Arrivals::Constant, 1).unwrap();
            let back = plan.operations_by(plan.time_of(count));
            prop_assert!((back - count).abs() <= 1e-6 * count.max(1.0), "{} for {}", back, count);
        }
    }
}
