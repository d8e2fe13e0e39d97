//! The plan of an open loop: operation k has the intended time t0 + f(k), fixed before the run and never moved.
//!
//! One rate curve (constant pieces, linear ramps, sine waves) gives the expected number of operations by time t; its
//! inverse turns counts into times. Constant arrivals invert the whole numbers 0, 1, 2 …; Poisson arrivals invert a
//! unit-rate Poisson process (time rescaling: Daley and Vere-Jones, "An Introduction to the Theory of Point Processes",
//! §7.4), whose gaps come from the operation's number, so that the plan is the same for any number of workers. A trace
//! has no curve: its times are given.

use std::f64::consts::TAU;
use std::sync::Arc;

use crate::clock;
use crate::random::{self, Domain, RandomStream};

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

/// A rate curve with its kind of arrivals, or a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalSchedule {
    arrivals: Arrivals,
    segments: Vec<Segment>,
    seed: u64,
    /// Times of all operations, ns after the plan's start, in order; they stand for curve and arrivals.
    trace: Option<Vec<u64>>,
}

impl ArrivalSchedule {
    /// A plan from its pieces; a last finite piece is followed by its end rate, for ever, and a last wave by itself.
    ///
    /// # Errors
    /// A sentence that names the value: no piece, a rate that is negative or not finite, a wave higher than its rate, a
    /// curve that ends at rate 0 (it would never finish), or a length that is not above 0.
    pub fn new(arrivals: Arrivals, mut segments: Vec<Segment>, seed: u64) -> Result<Self, String> {
        for segment in &segments {
            for rate in [segment.start_per_s, segment.end_per_s] {
                if !(rate.is_finite() && rate >= 0.0) {
                    return Err(format!("{rate} is not a rate; use operations per second above 0"));
                }
            }
            if !(0.0..=segment.start_per_s).contains(&segment.amplitude_per_s) {
                return Err(format!(
                    "a wave of {} on a rate of {} would go below 0; use at most {}",
                    segment.amplitude_per_s, segment.start_per_s, segment.start_per_s
                ));
            }
            if segment.duration_s.is_nan() || segment.duration_s <= 0.0 {
                return Err(format!(
                    "{} s is not a length for a rate; use one above 0",
                    segment.duration_s
                ));
            }
        }
        let last = segments
            .last()
            .ok_or("the rate is empty; use operations per second, as in 5000")?;
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
                    format!("line {number}: '{value}' is not a time; write seconds after the start, as in 12.5")
                })?;
            let time = (seconds * 1e9).round() as u64;
            if times.last().is_some_and(|last| *last > time) {
                return Err(format!(
                    "line {number}: {value} is before the line above it; times must not decrease"
                ));
            }
            times.push(time);
        }
        if times.is_empty() {
            return Err("it contains no time; write one in seconds after the start on each line".into());
        }
        Ok(Self {
            arrivals: Arrivals::Constant,
            segments: Vec::new(),
            seed: 0,
            trace: Some(times),
        })
    }

    /// Seconds to the last operation of a trace; none of a rate.
    pub fn trace_s(&self) -> Option<f64> {
        Some(*self.trace.as_ref()?.last()? as f64 / 1e9)
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
                Some((rates, length)) => (rates, Some(clock::parse_duration(length)?.as_secs_f64())),
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

    /// The same kind of arrivals, with the same random gaps, at one rate for ever.
    ///
    /// # Errors
    /// When that is no rate above 0.
    pub fn at_rate(&self, per_s: f64) -> Result<Self, String> {
        let hold = Segment::linear(per_s, per_s, f64::INFINITY);
        Self::new(self.arrivals, vec![hold], self.seed)
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
    plan: Arc<ArrivalSchedule>,
    next: u64,
    workers: u64,
    passed: u64,
    count: f64,
    /// Number of the first gap: each stream of a Poisson plan has gaps of its own.
    first_gap: u64,
}

impl ArrivalCursor {
    /// The arrivals that fall to one worker of several: operations `worker`, `worker + workers`, …
    pub fn new(plan: Arc<ArrivalSchedule>, worker: u64, workers: u64) -> Self {
        Self::of_stream(plan, worker, workers, 0)
    }

    /// The same with the random gaps of a stream: the same stream has the same times, another one has others.
    pub fn of_stream(plan: Arc<ArrivalSchedule>, worker: u64, workers: u64, stream: u32) -> Self {
        Self {
            plan,
            next: worker,
            workers,
            passed: 0,
            count: 0.0,
            first_gap: random::first_number(stream, true),
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
    /// Skips the further arrivals before a time, ns after the plan's start: how many they are, and the arrival after them.
    ///
    /// Walks a Poisson plan, computes others.
    pub fn skip_before(&mut self, limit_ns: u64) -> (u64, Arrival) {
        let is_walked = self.plan.trace.is_none() && self.plan.arrivals == Arrivals::Poisson;
        let mut skipped = 0;
        if !is_walked {
            skipped = self.count_before(limit_ns);
            self.next += skipped * self.workers;
        }
        loop {
            let arrival = self.next_arrival();
            if !is_walked || arrival.intended_ns >= limit_ns {
                return (skipped, arrival);
            }
            skipped += 1;
        }
    }

    /// How many further arrivals come before a time; not of a Poisson plan.
    fn count_before(&self, limit_ns: u64) -> u64 {
        if let Some(times) = &self.plan.trace {
            let all = times.partition_point(|time| *time < limit_ns) as u64;
            return all.saturating_sub(self.next).div_ceil(self.workers);
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

/// Enough to halve any bracket below a nanosecond; Newton's steps need three to six.
const STEPS: u32 = 80;

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

    pub(super) fn operations(&self) -> f64 {
        (self.start_per_s + self.end_per_s) / 2.0 * self.duration_s
    }

    pub(super) fn is_wave(&self) -> bool {
        self.amplitude_per_s > 0.0
    }

    /// Expected number of operations by `time_s` into the piece.
    pub(super) fn operations_by(&self, time_s: f64) -> f64 {
        if self.is_wave() {
            return self.wave_operations_by(time_s);
        }
        let slope = if self.duration_s.is_finite() {
            (self.end_per_s - self.start_per_s) / self.duration_s
        } else {
            0.0
        };
        self.start_per_s * time_s + slope * time_s * time_s / 2.0
    }

    /// Time into the piece at which its expected number of operations reaches `count`.
    pub(super) fn time_of(&self, count: f64) -> f64 {
        if self.is_wave() {
            return self.wave_time_of(count);
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

    /// Expected number of operations by `time_s` into the wave: the integral of the rate.
    fn wave_operations_by(&self, time_s: f64) -> f64 {
        let turn = TAU / self.duration_s;
        self.start_per_s * time_s + self.amplitude_per_s / turn * (1.0 - (turn * time_s).cos())
    }

    /// Time into the wave at which its expected number of operations reaches `count`: Newton's method inside a bracket that
    /// bisection closes where the rate is near 0.
    fn wave_time_of(&self, count: f64) -> f64 {
        let turn = TAU / self.duration_s;
        // The wave is ahead of its mean by 0 to 2 · amplitude / turn operations.
        let mean_time = count / self.start_per_s;
        let lead = 2.0 * self.amplitude_per_s / turn / self.start_per_s;
        let (mut low, mut high) = ((mean_time - lead).max(0.0), mean_time.min(self.duration_s));
        let mut time_s = (low + high) / 2.0;
        for _ in 0..STEPS {
            let excess = self.wave_operations_by(time_s) - count;
            if excess > 0.0 {
                high = time_s;
            } else {
                low = time_s;
            }
            let rate = self.start_per_s + self.amplitude_per_s * (turn * time_s).sin();
            let newton = time_s - excess / rate;
            let next = if rate > 0.0 && newton > low && newton < high {
                newton
            } else {
                (low + high) / 2.0
            };
            if (next - time_s).abs() < 1e-10 {
                return next;
            }
            time_s = next;
        }
        time_s
    }
}

#[cfg(test)]
mod tests;
