//! The one clock of the engine: `CLOCK_MONOTONIC_RAW` in nanoseconds (clock_gettime(2)).
//!
//! Raw, so that NTP never slews an interval; 25 to 48 ns a reading through the vDSO. Its zero means nothing: only
//! differences do. Wall-clock time is for labels alone: it may be set at any moment.

use nix::time::{clock_gettime, ClockId};

/// Nanoseconds of the monotonic raw clock.
///
/// # Panics
/// When the kernel has no such clock (Linux before 2.6.28).
#[inline]
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC_RAW).expect("Linux has CLOCK_MONOTONIC_RAW since 2.6.28");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Seconds of `CLOCK_MONOTONIC`, with fractions: by it other programs of this host place what was measured here.
///
/// # Panics
/// When the kernel has no such clock (Linux before 2.6).
pub fn shared_monotonic_s() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has CLOCK_MONOTONIC");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Seconds since 1970 of the wall clock, with fractions: a label for people and logs, never a measure.
pub fn wall_clock_s() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
