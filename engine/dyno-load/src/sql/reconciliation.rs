//! What the server counted against what we counted, over the whole load: warm-up, measurement and drain.
//!
//! From SHOW GLOBAL STATUS before the first statement and after the last. Other clients of the same server are in its
//! counters too: a surplus of the server can be theirs.

use std::collections::BTreeMap;

use dyno_loop::Totals;
use dyno_mysql::blocking::Client;

use super::definition::StatementKind;
use super::record::SqlRecord;
use super::server::failed;
use crate::error::Error;
use crate::server::{compare, CounterCheck};

/// The server's counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerCounters(BTreeMap<String, u64>);

/// Difference up to which questions are the same: less than what makes a run suspect.
const AGREES_PCT: f64 = 0.1;
/// The counter of CALL.
const CALLS: &str = "Com_call_procedure";

/// The counter of what the query cache answers: MySQL counts it there alone, MariaDB in Com_select, too.
const CACHED: &str = "Qcache_hits";

/// Which kinds of statement raise which counters: each statement one of them. The first one names the check.
const COUNTERS: [(&[&str], &[StatementKind]); 8] = [
    (
        &["Com_select", CACHED],
        &[
            StatementKind::PointSelect,
            StatementKind::SimpleRange,
            StatementKind::SumRange,
            StatementKind::OrderRange,
            StatementKind::DistinctRange,
            StatementKind::RandomPoints,
            StatementKind::RandomRanges,
            StatementKind::Select,
            StatementKind::SelectForUpdate,
        ],
    ),
    (
        &["Com_update", "Com_update_multi"],
        &[
            StatementKind::IndexUpdate,
            StatementKind::NonIndexUpdate,
            StatementKind::Update,
        ],
    ),
    (&["Com_delete", "Com_delete_multi"], &[StatementKind::Delete]),
    (&["Com_insert", "Com_insert_select"], &[StatementKind::Insert]),
    (&["Com_begin"], &[StatementKind::Begin]),
    (&["Com_commit"], &[StatementKind::Commit]),
    (
        &["Com_rollback", "Com_rollback_to_savepoint"],
        &[StatementKind::Rollback],
    ),
    (&[CALLS], &[StatementKind::Procedure]),
];

impl ServerCounters {
    /// Reads them.
    ///
    /// # Errors
    /// When the question fails.
    pub fn read(client: &mut Client) -> Result<Self, Error> {
        let names: Vec<String> = COUNTERS
            .iter()
            .flat_map(|(names, _)| names.iter())
            .map(|name| format!("'{name}'"))
            .collect();
        let question = format!(
            "SHOW GLOBAL STATUS WHERE Variable_name IN ({}, 'Questions')",
            names.join(", ")
        );
        let answer = client.query(&question).map_err(|error| failed(&question, &error))?;
        let pair = |row: Vec<Option<String>>| {
            let mut row = row.into_iter();
            Some((row.next()??, row.next()??.parse().ok()?))
        };
        Ok(Self(answer.texts().into_iter().filter_map(pair).collect()))
    }

    /// How much each counter grew since `earlier`; without the question of this reading.
    pub fn growth(&self, earlier: &Self) -> BTreeMap<String, u64> {
        let mut growth: BTreeMap<String, u64> = self
            .0
            .keys()
            .filter_map(|name| Some((name.clone(), self.added(earlier, name)?)))
            .collect();
        if let Some(questions) = growth.get_mut("Questions") {
            *questions = questions.saturating_sub(1);
        }
        growth
    }

    fn added(&self, earlier: &Self, name: &str) -> Option<u64> {
        Some(self.0.get(name)?.saturating_sub(*earlier.0.get(name)?))
    }

    /// Compares what was added since `earlier` with the client's counts. Counters that the server has not are left out.
    ///
    /// `uncertain` statements may or may not have been counted by the server: errors, and those cut off at the end.
    /// `of_reconnecting` questions may have been sent to make connections again.
    pub fn reconcile(
        &self,
        earlier: &Self,
        totals: &Totals<SqlRecord>,
        uncertain: u64,
        of_reconnecting: u64,
    ) -> Vec<CounterCheck> {
        let mut checks = Vec::new();
        // The second reading is itself a question.
        let asked = self.added(earlier, "Questions").map(|count| count.saturating_sub(1));
        let sent = totals.sums.by_kind.iter().sum::<u64>() - totals.sums.by_kind[StatementKind::Connect as usize];
        let aside = uncertain + of_reconnecting + totals.sums.questions_aside;
        let questions = asked
            .filter(|_| sent > 0)
            .map(|asked| compare("Questions", asked, sent, aside));
        // Questions are only what clients send: where they agree, a surplus is of triggers, functions and procedures.
        let agrees = questions
            .as_ref()
            .is_some_and(|check| check.difference_pct.abs() < AGREES_PCT);
        let uncertain = if agrees { u64::MAX } else { uncertain };
        // What a procedure does inside the server is in the counters of its statements, and not known to the client.
        let calls = totals.sums.by_kind[StatementKind::Procedure as usize] > 0;
        for (counters, kinds) in COUNTERS {
            let counter = counters[0];
            if calls && counter != CALLS {
                continue;
            }
            let client: u64 = kinds.iter().map(|kind| totals.sums.by_kind[*kind as usize]).sum();
            let others = counters[1..].iter().filter_map(|counter| self.added(earlier, counter));
            if let (Some(server), true) = (self.added(earlier, counter), client > 0) {
                let mut others: u64 = others.sum();
                if counters.contains(&CACHED) {
                    others = others.min(client.saturating_sub(server));
                }
                checks.push(compare(counter, server + others, client, uncertain));
            }
        }
        checks.extend(questions);
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The differences of a thousand inserts, as a server counts them with so many questions and inserts.
    fn differences(questions: u64, inserts: u64) -> Vec<f64> {
        let counters =
            |pairs: &[(&str, u64)]| ServerCounters(pairs.iter().map(|(n, v)| ((*n).to_string(), *v)).collect());
        let before = counters(&[("Questions", 0), ("Com_insert", 0)]);
        let after = counters(&[("Questions", questions + 1), ("Com_insert", inserts)]);
        let mut totals = Totals::<SqlRecord>::new(0);
        totals.sums.by_kind[StatementKind::Insert as usize] = 1000;
        let checks = after.reconcile(&before, &totals, 0, 0);
        checks.iter().map(|check| check.difference_pct).collect()
    }

    #[test]
    fn hits_of_the_query_cache_are_reads_that_com_select_may_lack() {
        for (selects, hits, difference_pct) in [(10, 990, 0.0), (1000, 990, 0.0), (10, 0, -99.0)] {
            let counters =
                |names: [(&str, u64); 3]| ServerCounters(names.iter().map(|(n, v)| ((*n).to_string(), *v)).collect());
            let before = counters([("Questions", 0), ("Com_select", 0), (CACHED, 0)]);
            let after = counters([("Questions", 1001), ("Com_select", selects), (CACHED, hits)]);
            let mut totals = Totals::<SqlRecord>::new(0);
            totals.sums.by_kind[StatementKind::PointSelect as usize] = 1000;
            let checks = after.reconcile(&before, &totals, 0, 0);
            assert_eq!(checks[0].difference_pct, difference_pct, "{selects} and {hits}");
        }
    }

    #[test]
    fn what_triggers_do_is_no_statement_of_others() {
        assert_eq!(differences(1000, 1000), [0.0, 0.0]);
        assert_eq!(differences(1000, 2000), [0.0, 0.0], "a trigger that inserts");
        assert_eq!(differences(1000, 900), [-10.0, 0.0], "lost");
        assert_eq!(differences(1200, 1200), [20.0, 20.0], "another client");
    }
}
