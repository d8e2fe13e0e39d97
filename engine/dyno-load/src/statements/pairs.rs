//! Which statement is executed next, how often, and in which order on the servers.
//!
//! A statement is visited again and again; in a visit it is executed some times, each time on every server within
//! milliseconds, in random order. The next one visited is that whose mean ratio gains most precision for its time: what
//! decides are variances and durations, never a mean.

use dyno_core::random::{Domain, RandomStream};

/// A visit of statements that take less lasts about so long on one server, ns.
const VISIT_NS: f64 = 3e6;
/// Most executions in a visit.
const MOST_EXECUTIONS: f64 = 32.0;
/// Visits that every statement has before any has more.
pub const FEWEST_VISITS: u64 = 4;
/// Standard error of the mean log ratio below which time is better spent on others.
const PRECISE: f64 = 0.002;

/// Mean log ratio from which on a statement is explained as slower; whether it is, is not decided here.
const SLOWER: f64 = 0.05;

/// What is known of the visits of one statement.
#[derive(Debug, Clone, Default)]
pub struct Visits {
    /// How many.
    pub count: u64,
    /// Time of one execution on all servers, ns: the mean so far.
    pub round_ns: f64,
    /// Mean and sum of squares of the log ratio to the first server, of each other one.
    ratios: Vec<(f64, f64)>,
    /// It is not visited any more: it failed, or there was no time.
    pub is_left_out: bool,
}

impl Visits {
    /// Takes the mean time of an execution on each server.
    pub fn add(&mut self, service_ns: &[f64]) {
        self.count += 1;
        let count = self.count as f64;
        self.round_ns += (service_ns.iter().sum::<f64>() - self.round_ns) / count;
        self.ratios.resize(service_ns.len().saturating_sub(1), (0.0, 0.0));
        let Some((first, others)) = service_ns.split_first() else {
            return;
        };
        for ((mean, squares), other) in self.ratios.iter_mut().zip(others) {
            let ratio = (other.max(1.0) / first.max(1.0)).ln();
            let from_mean = ratio - *mean;
            *mean += from_mean / count;
            *squares += from_mean * (ratio - *mean);
        }
    }

    /// Executions in the next visit.
    pub fn executions(&self, servers: usize) -> u64 {
        if self.count == 0 {
            return 1;
        }
        (VISIT_NS * servers as f64 / self.round_ns.max(1.0)).clamp(1.0, MOST_EXECUTIONS) as u64
    }

    /// Precision gained by a visit for its time; infinite for those that were hardly visited.
    fn gain(&self, servers: usize) -> f64 {
        if self.count < FEWEST_VISITS {
            return f64::INFINITY;
        }
        let count = self.count as f64;
        let variance = self
            .ratios
            .iter()
            .map(|(_, squares)| squares / (count - 1.0))
            .fold(0.0, f64::max);
        let gain = variance / (count * count) / (self.round_ns * self.executions(servers) as f64);
        if (variance / count).sqrt() < PRECISE {
            gain * 1e-3
        } else {
            gain
        }
    }
}

/// The statement to visit next: the least visited first, then the largest gain. None where all are left out, or none
/// would end within `left_ns`.
pub fn next(all: &[Visits], servers: usize, left_ns: f64) -> Option<usize> {
    let fits = |one: &Visits| !one.is_left_out && one.round_ns * one.executions(servers) as f64 <= left_ns;
    let candidates = || all.iter().enumerate().filter(|(_, one)| fits(one));
    let least = candidates()
        .filter(|(_, one)| one.count < FEWEST_VISITS)
        .min_by_key(|(_, one)| one.count);
    let found = least
        .or_else(|| candidates().max_by(|(_, left), (_, right)| left.gain(servers).total_cmp(&right.gain(servers))));
    found.map(|(index, _)| index)
}

/// The statements that take longer on another server than the first, those with the most time first.
pub fn slower(all: &[Visits], most: usize) -> Vec<usize> {
    let is_slower = |one: &Visits| one.ratios.iter().any(|(mean, _)| *mean > SLOWER);
    let mut found: Vec<usize> = (0..all.len()).filter(|index| is_slower(&all[*index])).collect();
    found.sort_by(|left, right| all[*right].round_ns.total_cmp(&all[*left].round_ns));
    found.truncate(most);
    found
}

/// The lane of each connection, from the server of each lane: every server has as many connections as any other, and so
/// executes a statement as often. One that did so more often would have warmer caches of the CPU. The first connections
/// are one of each lane.
pub fn connections<P: PartialEq>(servers: &[P]) -> Vec<usize> {
    let lanes_at = |server: &P| servers.iter().filter(|other| *other == server).count();
    let all = servers.iter().map(lanes_at).fold(1, least_common_multiple);
    let further = |(lane, server)| std::iter::repeat_n(lane, all / lanes_at(server) - 1);
    (0..servers.len())
        .chain(servers.iter().enumerate().flat_map(further))
        .collect()
}

fn least_common_multiple(left: usize, right: usize) -> usize {
    let (mut divisor, mut rest) = (left, right);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    left / divisor * right
}

/// A random order of so many servers.
pub fn order(servers: usize, stream: &mut RandomStream) -> Vec<usize> {
    let mut order: Vec<usize> = (0..servers).collect();
    for last in (1..servers).rev() {
        order.swap(last, (stream.next_u64() % (last as u64 + 1)) as usize);
    }
    order
}

/// The random numbers of a comparison.
pub fn random(seed: u64) -> RandomStream {
    RandomStream::of(seed, Domain::Operation, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(times: &[[f64; 2]]) -> Visits {
        let mut visits = Visits::default();
        times.iter().for_each(|one| visits.add(one));
        visits
    }

    #[test]
    fn every_statement_is_visited_before_the_noisiest_is_again() {
        let quiet = visited(&[[1e6, 1e6], [1e6, 1.001e6], [1e6, 1e6], [1e6, 1.001e6]]);
        let noisy = visited(&[[1e6, 2e6], [2e6, 1e6], [1e6, 3e6], [1e6, 1e6]]);
        assert_eq!(
            next(&[quiet.clone(), noisy.clone(), Visits::default()], 2, 1e9),
            Some(2)
        );
        assert_eq!(next(&[quiet.clone(), noisy.clone()], 2, 1e9), Some(1));
        let failed = Visits {
            is_left_out: true,
            ..noisy
        };
        assert_eq!(next(&[quiet, failed.clone()], 2, 1e9), Some(0));
        assert_eq!(next(&[failed], 2, 1e9), None);
    }

    #[test]
    fn a_statement_that_would_not_end_in_time_is_not_begun() {
        let slow = visited(&[[1e9, 1e9]]);
        assert_eq!(next(std::slice::from_ref(&slow), 2, 1e9), None);
        assert_eq!(next(&[slow], 2, 3e9), Some(0));
    }

    #[test]
    fn short_statements_are_executed_several_times_in_a_visit() {
        assert_eq!(Visits::default().executions(2), 1);
        assert_eq!(visited(&[[1e5, 1e5]]).executions(2), 30);
        assert_eq!(visited(&[[1e7, 1e7]]).executions(2), 1);
    }

    #[test]
    fn the_slower_ones_with_the_most_time_come_first() {
        let all = [
            visited(&[[1e6, 1e6]]),
            visited(&[[1e5, 2e5]]),
            visited(&[[2e6, 1e6]]),
            visited(&[[1e7, 2e7]]),
        ];
        assert_eq!(slower(&all, 5), [3, 1]);
        assert_eq!(slower(&all, 1), [3]);
    }

    #[test]
    fn every_server_executes_as_often() {
        assert_eq!(connections(&["a", "b", "c"]), [0, 1, 2]);
        assert_eq!(connections(&["a", "a", "b"]), [0, 1, 2, 2]);
        assert_eq!(
            connections(&["a", "a", "b", "b", "b"]),
            [0, 1, 2, 3, 4, 0, 0, 1, 1, 2, 3, 4]
        );
    }

    #[test]
    fn orders_are_permutations_and_each_comes() {
        let mut stream = random(7);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut one = order(3, &mut stream);
            seen.insert(one.clone());
            one.sort_unstable();
            assert_eq!(one, [0, 1, 2]);
        }
        assert_eq!(seen.len(), 6);
    }
}
