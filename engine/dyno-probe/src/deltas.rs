//! Counters become changes: how much each grew since the reading before, over the time that truly passed.

/// The last reading of a group of counters, and what changed since the one before it.
#[derive(Debug)]
pub struct Deltas {
    previous_ns: Option<u64>,
    previous: Vec<Option<u64>>,
    changes: Vec<Option<u64>>,
    elapsed_s: f64,
    went_back: Vec<bool>,
}

impl Deltas {
    /// A group of `count` counters without a reading yet: all changes are absent.
    pub fn new(count: usize) -> Self {
        Self {
            previous_ns: None,
            previous: vec![None; count],
            changes: vec![None; count],
            elapsed_s: 0.0,
            went_back: vec![false; count],
        }
    }

    /// Takes a reading made at `at_ns` (monotonic). A change is absent at the first reading, when the counter is
    /// missing in either reading, when no time passed, and when it went backwards, which is counted.
    pub fn advance(&mut self, at_ns: u64, current: &[Option<u64>]) {
        let elapsed_ns = self.previous_ns.map_or(0, |previous| at_ns.saturating_sub(previous));
        self.elapsed_s = elapsed_ns as f64 / 1e9;
        for (index, change) in self.changes.iter_mut().enumerate() {
            let now = current.get(index).copied().flatten();
            self.went_back[index] = matches!((self.previous[index], now), (Some(before), Some(now)) if now < before);
            *change = match (self.previous[index], now) {
                (Some(before), Some(now)) if elapsed_ns > 0 => now.checked_sub(before),
                _ => None,
            };
            self.previous[index] = now;
        }
        self.previous_ns = Some(at_ns);
    }

    /// Makes every change of the last reading absent: the counters were set to zero, whatever each now shows.
    pub fn discard(&mut self) {
        self.changes.fill(None);
    }

    /// Growth of a counter since the reading before.
    pub fn change(&self, index: usize) -> Option<u64> {
        self.changes[index]
    }

    /// Growth of a counter per second of true time.
    pub fn rate(&self, index: usize) -> Option<f64> {
        self.changes[index].map(|change| change as f64 / self.elapsed_s)
    }

    /// `100 × part / whole` of two changes; absent when either is, or when the whole is 0.
    pub fn pct(&self, part: usize, whole: usize) -> Option<f64> {
        let (part, whole) = (self.changes[part]?, self.changes[whole]?);
        (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
    }

    /// Seconds between the last two readings; 0 at the first.
    pub fn elapsed_s(&self) -> f64 {
        self.elapsed_s
    }

    /// How many counters went backwards at the last reading.
    pub fn backwards(&self) -> u32 {
        self.went_back.iter().map(|back| u32::from(*back)).sum()
    }

    /// Whether that counter went backwards at the last reading.
    pub fn backwards_at(&self, index: usize) -> bool {
        self.went_back[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reading_has_no_rates() {
        let mut deltas = Deltas::new(1);
        deltas.advance(5, &[Some(7)]);
        assert_eq!(deltas.rate(0), None);
        assert_eq!(deltas.backwards(), 0);
    }

    #[test]
    fn a_rate_uses_the_time_that_truly_passed() {
        let mut deltas = Deltas::new(1);
        deltas.advance(0, &[Some(100)]);
        deltas.advance(2_500_000_000, &[Some(200)]);
        assert_eq!(deltas.rate(0), Some(40.0));
    }

    #[test]
    fn a_counter_that_goes_backwards_is_absent_once_and_counted() {
        let mut deltas = Deltas::new(2);
        deltas.advance(0, &[Some(100), Some(1)]);
        deltas.advance(1_000_000_000, &[Some(10), Some(2)]);
        assert_eq!((deltas.rate(0), deltas.rate(1)), (None, Some(1.0)));
        assert_eq!(deltas.backwards(), 1);
        deltas.advance(2_000_000_000, &[Some(15), Some(2)]);
        assert_eq!((deltas.rate(0), deltas.backwards()), (Some(5.0), 0));
    }

    #[test]
    fn a_counter_that_was_missing_has_no_rate_over_the_gap() {
        let mut deltas = Deltas::new(1);
        deltas.advance(0, &[Some(1)]);
        deltas.advance(1_000_000_000, &[None]);
        deltas.advance(2_000_000_000, &[Some(9)]);
        assert_eq!(deltas.change(0), None);
    }

    #[test]
    fn two_readings_at_the_same_time_have_no_rate() {
        let mut deltas = Deltas::new(1);
        deltas.advance(4, &[Some(1)]);
        deltas.advance(4, &[Some(3)]);
        assert_eq!(deltas.rate(0), None);
    }
}
