//! Deadlines of tests in time that the host could give them: one that is busy, or whose CPUs are taken away, gets longer.
//!
//! For waits that end only where something is wrong, never for what is measured.

use std::time::{Duration, Instant};

/// By the clock, a wait is never longer than this many times its limit.
const LONGEST: u32 = 10;
/// This part of a time counts in which all tasks but those on a CPU had to wait for one.
const PRESSED_SHARE: f64 = 0.25;

/// The rest of a limit.
pub struct Patience {
    limit: Duration,
    began: Instant,
    before: Reading,
}

impl Patience {
    /// Begins now.
    pub fn seconds(limit_s: f64) -> Self {
        Self {
            limit: Duration::from_secs_f64(limit_s),
            began: Instant::now(),
            before: Reading::now(),
        }
    }

    /// Whether the host has given the whole limit.
    pub fn is_over(&self) -> bool {
        let passed = self.began.elapsed();
        let given = passed.mul_f64(self.before.share_given(Reading::now(), passed));
        given >= self.limit || passed >= LONGEST * self.limit
    }

    /// Fails when the whole limit is over: `what` did not happen in time.
    pub fn check(&self, what: &str) {
        assert!(
            !self.is_over(),
            "{what}: not within {:?} ({:?} by the clock)",
            self.limit,
            self.began.elapsed()
        );
    }
}

/// Looks every 10 ms until it is so; fails when the limit is over.
pub fn wait_until(limit_s: f64, what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Patience::seconds(limit_s);
    while !is_so() {
        patience.check(what);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A reading of /proc/stat and /proc/pressure/cpu, since the host's start. What cannot be read is 0.
#[derive(Clone, Copy, Default)]
struct Reading {
    stolen_ticks: f64,
    all_ticks: f64,
    pressed_us: f64,
}

impl Reading {
    fn now() -> Self {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::of(&text("/proc/stat"), &text("/proc/pressure/cpu"))
    }

    fn of(stat: &str, pressure: &str) -> Self {
        // user nice system idle iowait irq softirq steal; the times of guests are within user and nice (proc_stat(5)).
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).take(8).collect();
        let total = pressure.lines().next().and_then(|line| line.rsplit_once("total="));
        Self {
            stolen_ticks: ticks.get(7).copied().unwrap_or_default(),
            all_ticks: ticks.iter().sum(),
            pressed_us: total.map_or(0.0, |(_, number)| number.parse().unwrap_or_default()),
        }
    }

    /// Which part of the time between two readings, `passed` apart, the host could give to a task.
    fn share_given(self, after: Self, passed: Duration) -> f64 {
        let stolen = (after.stolen_ticks - self.stolen_ticks) / (after.all_ticks - self.all_ticks).max(1.0);
        let pressed = (after.pressed_us - self.pressed_us) / (passed.as_secs_f64() * 1e6).max(1.0);
        (1.0 - stolen) * (1.0 - (1.0 - PRESSED_SHARE) * pressed.min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Reading = Reading {
        stolen_ticks: 500.0,
        all_ticks: 100_000.0,
        pressed_us: 7e6,
    };

    fn share(stolen_ticks: f64, pressed_us: f64) -> f64 {
        let after = Reading {
            stolen_ticks: BEFORE.stolen_ticks + stolen_ticks,
            all_ticks: BEFORE.all_ticks + 2000.0,
            pressed_us: BEFORE.pressed_us + pressed_us,
        };
        BEFORE.share_given(after, Duration::from_secs(10))
    }

    #[test]
    fn an_idle_host_gives_all_time_and_others_less() {
        assert_eq!(share(0.0, 0.0), 1.0);
        assert_eq!(share(1000.0, 0.0), 0.5);
        assert_eq!(share(0.0, 10e6), 0.25);
        assert_eq!(share(1000.0, 20e6), 0.125);
        assert_eq!(BEFORE.share_given(BEFORE, Duration::ZERO), 1.0);
    }

    #[test]
    fn the_kernels_files_are_read() {
        let stat = "cpu  10 20 30 40 50 60 70 80 5 5\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        let pressure = "some avg10=1.00 avg60=2.00 avg300=3.00 total=123456\nfull avg10=0.00 total=9\n";
        let read = Reading::of(stat, pressure);
        assert_eq!(
            (read.stolen_ticks, read.all_ticks, read.pressed_us),
            (80.0, 360.0, 123_456.0)
        );
        let nothing = Reading::of("", "");
        assert_eq!((nothing.all_ticks, nothing.pressed_us), (0.0, 0.0));
    }

    #[test]
    fn a_wait_ends_when_it_is_so_or_fails_with_what_it_waited_for() {
        let mut looks = 0;
        wait_until(60.0, "three looks", || {
            looks += 1;
            looks == 3
        });
        let failure = std::panic::catch_unwind(|| wait_until(0.02, "nothing", || false)).unwrap_err();
        let words = failure.downcast_ref::<String>().unwrap();
        assert!(words.starts_with("nothing: not within 20ms"), "{words}");
    }
}
