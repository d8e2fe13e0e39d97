//! A piece of a rate curve, and its sine wave: rate(t) = mean + amplitude · sin(2πt / period), over one period.

use std::f64::consts::TAU;

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
