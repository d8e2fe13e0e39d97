//! The sine wave of a rate curve: rate(t) = mean + amplitude · sin(2πt / period), over one period.

use std::f64::consts::TAU;

use super::Segment;

/// Enough to halve any bracket below a nanosecond; Newton's steps need three to six.
const STEPS: u32 = 80;

/// Expected number of operations by `time_s` into the piece: the integral of the rate.
pub(super) fn operations_by(segment: &Segment, time_s: f64) -> f64 {
    let turn = TAU / segment.duration_s;
    segment.start_per_s * time_s + segment.amplitude_per_s / turn * (1.0 - (turn * time_s).cos())
}

/// Time into the piece at which its expected number of operations reaches `count`: Newton's method inside a bracket that
/// bisection closes where the rate is near 0.
pub(super) fn time_of(segment: &Segment, count: f64) -> f64 {
    let turn = TAU / segment.duration_s;
    // The wave is ahead of its mean by 0 to 2 · amplitude / turn operations.
    let mean_time = count / segment.start_per_s;
    let lead = 2.0 * segment.amplitude_per_s / turn / segment.start_per_s;
    let (mut low, mut high) = ((mean_time - lead).max(0.0), mean_time.min(segment.duration_s));
    let mut time_s = (low + high) / 2.0;
    for _ in 0..STEPS {
        let excess = operations_by(segment, time_s) - count;
        if excess > 0.0 {
            high = time_s;
        } else {
            low = time_s;
        }
        let rate = segment.start_per_s + segment.amplitude_per_s * (turn * time_s).sin();
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
