//! `dynoload compare-replays`: two replays of the same capture, statement by statement.

mod shown;

pub use shown::run;

use std::collections::HashMap;

use dyno_capture::{nondeterministic, Fingerprint, Freedom, UniqueKeys, Varying};
use serde::Serialize;

use super::results::{Results, StatementResult};

/// In what a statement's results differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// One failed, or both with other codes.
    Error,
    /// Another number of rows was changed.
    Changed,
    /// Another number of rows was returned.
    Rows,
    /// The same number of rows with other contents.
    Contents,
    /// The same rows in another order.
    Order,
}

/// The first statement of a digest whose results differ.
#[derive(Debug, Clone, Serialize)]
pub struct Example {
    /// The number of its event in the capture, from 1 on.
    pub event: u64,
    /// Its session.
    pub session: u32,
    /// In what.
    pub difference: Difference,
    /// Rows returned or changed, A and B.
    pub rows: (u64, u64),
    /// Error codes, A and B; 0 for none.
    pub errors: (u16, u16),
}

/// One digest in both replays.
#[derive(Debug, Clone, Serialize)]
pub struct DigestComparison {
    /// Its short name.
    pub fingerprint: Fingerprint,
    /// Its text.
    pub digest: String,
    /// Statements in both.
    pub count: u64,
    /// Errors in A and in B.
    pub errors: (u64, u64),
    /// Median service time in A and in B, µs, of statements that failed in neither; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<(f64, f64)>,
    /// Geometric mean of the ratios B / A of each statement's service times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ratio: Option<f64>,
    /// Statements that changed another number of rows.
    pub changed_differ: u64,
    /// Statements that returned another number of rows.
    pub rows_differ: u64,
    /// Statements with the same number of rows and other contents.
    pub contents_differ: u64,
    /// Statements with ORDER BY and the same rows in another order.
    pub order_differ: u64,
    /// Statements of which only one failed, or that failed with other codes.
    pub errors_differ: u64,
    /// Differing statements whose difference may be on the same data.
    pub explained: u64,
    /// Why it may return other rows on the same data; absent where its result depends on the data alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nondeterministic: Option<String>,
    /// The first difference, of those that count if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<Example>,
}

impl DigestComparison {
    fn differing(&self) -> u64 {
        self.rows_differ + self.changed_differ + self.contents_differ + self.order_differ + self.errors_differ
    }

    fn unexplained(&self) -> u64 {
        self.differing() - self.explained
    }
}

/// Two replays.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Kind and version of the servers, A and B.
    pub servers: (String, String),
    /// Statements in both.
    pub statements: u64,
    /// Statements in A alone and in B alone.
    pub only: (u64, u64),
    /// Statements that failed in both with the same error: of their results nothing is known.
    pub failed_in_both: u64,
    /// Statements with different results.
    pub differ: u64,
    /// Differing statements whose difference may be on the same data.
    pub differ_nondeterministic: u64,
    /// Geometric mean of the ratios B / A of each statement's service times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ratio: Option<f64>,
    /// Digests: those with differences first, then by their time.
    pub digests: Vec<DigestComparison>,
}

/// Compares two replays of the same capture.
pub fn compare(a: &Results, b: &Results) -> Comparison {
    let of_b: HashMap<u64, &StatementResult> = b.statements.iter().map(|result| (result.event, result)).collect();
    let mut pairs: Vec<(&StatementResult, &StatementResult)> = a
        .statements
        .iter()
        .filter_map(|result| Some((result, *of_b.get(&result.event)?)))
        .collect();
    pairs.sort_by_key(|(a, _)| (a.digest, a.event));
    let same_digest = |left: &(&StatementResult, _), right: &(&StatementResult, _)| left.0.digest == right.0.digest;
    let keys = common_keys(&a.unique_keys, &b.unique_keys);
    let mut digests: Vec<DigestComparison> = pairs
        .chunk_by(same_digest)
        .map(|pairs| compare_digest(pairs, a, &keys))
        .collect();
    let time = |digest: &DigestComparison| digest.p50_us.map_or(0.0, |(a, b)| (a + b) * digest.count as f64);
    let rank = |digest: &DigestComparison| match (digest.differing(), digest.unexplained()) {
        (0, _) => 2,
        (_, 0) => 1,
        _ => 0,
    };
    digests.sort_by(|left, right| rank(left).cmp(&rank(right)).then(time(right).total_cmp(&time(left))));
    let statements = pairs.len() as u64;
    Comparison {
        servers: (a.server.clone(), b.server.clone()),
        statements,
        only: (
            a.statements.len() as u64 - statements,
            b.statements.len() as u64 - statements,
        ),
        failed_in_both: pairs.iter().filter(|(a, b)| a.error != 0 && a.error == b.error).count() as u64,
        differ: digests.iter().map(DigestComparison::differing).sum(),
        differ_nondeterministic: digests.iter().map(|digest| digest.explained).sum(),
        latency_ratio: ratio(&pairs),
        digests,
    }
}

fn difference(a: &StatementResult, b: &StatementResult) -> Option<Difference> {
    if a.error != b.error {
        Some(Difference::Error)
    } else if a.affected_rows != b.affected_rows {
        Some(Difference::Changed)
    } else if a.rows != b.rows {
        Some(Difference::Rows)
    } else if a.checksum != b.checksum {
        Some(Difference::Contents)
    } else {
        let (a, b) = a.order.zip(b.order)?;
        (a != b).then_some(Difference::Order)
    }
}

/// Whether a difference may be on the same data: never an error, nor another number of changed rows.
fn is_explained(difference: Difference, varying: Option<&Varying>) -> bool {
    let freedom = varying.map(|varying| varying.freedom);
    match difference {
        Difference::Error | Difference::Changed => false,
        Difference::Rows => freedom >= Some(Freedom::Number),
        Difference::Contents => freedom >= Some(Freedom::Contents),
        Difference::Order => freedom >= Some(Freedom::Order),
    }
}

/// The unique keys that tables have on both servers.
fn common_keys(a: &UniqueKeys, b: &UniqueKeys) -> UniqueKeys {
    let common =
        |(table, keys): (&String, &_)| Some((table.clone(), b.get(table)?.intersection(keys).cloned().collect()));
    a.iter().filter_map(common).collect()
}

fn compare_digest(pairs: &[(&StatementResult, &StatementResult)], a: &Results, keys: &UniqueKeys) -> DigestComparison {
    let fingerprint = pairs[0].0.digest;
    let digest = a
        .digests
        .get(&fingerprint)
        .cloned()
        .unwrap_or_else(|| fingerprint.to_string());
    let count = |wanted| pairs.iter().filter(|(a, b)| difference(a, b) == Some(wanted)).count() as u64;
    let varying = |of: &StatementResult| nondeterministic(digest.as_bytes(), keys, &of.extent, of.rows);
    let differing: Vec<(Example, bool)> = pairs
        .iter()
        .filter_map(|(a, b)| {
            let example = example(a, b)?;
            let is_explained = is_explained(example.difference, varying(a).as_ref());
            Some((example, is_explained))
        })
        .collect();
    let first_difference = differing.iter().find(|found| !found.1).or(differing.first());
    let median = |of: &dyn Fn(&(&StatementResult, &StatementResult)) -> f64| {
        let mut times: Vec<f64> = succeeded(pairs).map(of).collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len().saturating_sub(1) / 2).copied()
    };
    DigestComparison {
        fingerprint,
        first_difference: first_difference.map(|found| found.0.clone()),
        explained: differing.iter().filter(|found| found.1).count() as u64,
        nondeterministic: pairs.iter().find_map(|(a, _)| Some(varying(a)?.reason)),
        digest,
        count: pairs.len() as u64,
        errors: (
            pairs.iter().filter(|(a, _)| a.error != 0).count() as u64,
            pairs.iter().filter(|(_, b)| b.error != 0).count() as u64,
        ),
        p50_us: median(&|(a, _)| a.service_us).zip(median(&|(_, b)| b.service_us)),
        latency_ratio: ratio(pairs),
        changed_differ: count(Difference::Changed),
        rows_differ: count(Difference::Rows),
        contents_differ: count(Difference::Contents),
        order_differ: count(Difference::Order),
        errors_differ: count(Difference::Error),
    }
}

fn example(a: &StatementResult, b: &StatementResult) -> Option<Example> {
    let difference = difference(a, b)?;
    let rows = |result: &StatementResult| match difference {
        Difference::Changed => result.affected_rows,
        _ => result.rows,
    };
    Some(Example {
        event: a.event,
        session: a.session,
        difference,
        rows: (rows(a), rows(b)),
        errors: (a.error, b.error),
    })
}

fn succeeded<'a>(
    pairs: &'a [(&'a StatementResult, &'a StatementResult)],
) -> impl Iterator<Item = &'a (&'a StatementResult, &'a StatementResult)> {
    pairs.iter().filter(|(a, b)| a.error == 0 && b.error == 0)
}

/// Geometric mean of B / A; none without a statement that succeeded in both.
fn ratio(pairs: &[(&StatementResult, &StatementResult)]) -> Option<f64> {
    let logarithms: Vec<f64> = succeeded(pairs)
        .map(|(a, b)| (b.service_us.max(0.001) / a.service_us.max(0.001)).ln())
        .collect();
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use dyno_capture::Extent;

    use super::*;

    fn result(event: u64, digest: u64, service_us: f64, rows: u64, checksum: u64) -> StatementResult {
        StatementResult {
            event,
            session: 1,
            digest: Fingerprint(digest),
            service_us,
            lag_us: 0.0,
            rows,
            affected_rows: 0,
            error: 0,
            checksum: Fingerprint(checksum),
            order: None,
            extent: Extent::default(),
        }
    }

    fn results(statements: Vec<StatementResult>) -> Results {
        let digests = [
            (1, "SELECT a FROM t"),
            (2, "SELECT NOW()"),
            (3, "UPDATE t SET at = NOW()"),
            (4, "SELECT a FROM t WHERE b = ? LIMIT ?"),
            (5, "SELECT note FROM item WHERE id = ? LIMIT ?"),
            (6, "SELECT note, price FROM item ORDER BY note"),
            (7, "SELECT note FROM item ORDER BY id"),
            (8, "SELECT note FROM item ORDER BY price LIMIT ?"),
            (9, "SELECT note FROM item WHERE id IN (?+) LIMIT ?"),
        ];
        Results {
            capture_identity: Fingerprint(9),
            server: "mariadb".into(),
            invalid: None,
            unique_keys: [("item".into(), [[("id".into(), false)].into()].into())].into(),
            digests: digests
                .map(|(digest, text)| (Fingerprint(digest), text.to_string()))
                .into(),
            statements,
        }
    }

    #[test]
    fn differences_are_counted_by_kind_and_what_may_vary_is_kept_apart() {
        let a = results(vec![
            result(1, 1, 100.0, 1, 5),
            result(2, 1, 100.0, 1, 6),
            result(3, 2, 10.0, 1, 7),
        ]);
        let mut b = results(vec![
            result(1, 1, 200.0, 1, 5),
            result(2, 1, 200.0, 1, 8),
            result(3, 2, 20.0, 1, 9),
        ]);
        let comparison = compare(&a, &b);
        assert_eq!(
            (
                comparison.statements,
                comparison.differ,
                comparison.differ_nondeterministic
            ),
            (3, 2, 1)
        );
        assert!((comparison.latency_ratio.unwrap() - 2.0).abs() < 1e-9);
        let first = &comparison.digests[0];
        assert_eq!(
            (first.contents_differ, first.first_difference.as_ref().unwrap().event),
            (1, 2)
        );
        assert_eq!(first.p50_us, Some((100.0, 200.0)));
        assert_eq!(comparison.digests[1].nondeterministic.as_deref(), Some("NOW()"));
        b.statements[0].error = 1146;
        b.statements[1].rows = 4;
        let digest = &compare(&a, &b).digests[0];
        assert_eq!(
            (digest.errors_differ, digest.rows_differ, digest.contents_differ),
            (1, 1, 0)
        );
        assert_eq!(
            digest.p50_us,
            Some((100.0, 200.0)),
            "of statements that failed in neither"
        );
    }

    #[test]
    fn statements_of_one_replay_alone_are_counted() {
        let a = results(vec![result(1, 1, 1.0, 1, 5), result(2, 1, 1.0, 1, 5)]);
        let b = results(vec![result(2, 1, 1.0, 1, 5)]);
        assert_eq!(compare(&a, &b).only, (1, 0));
    }

    #[test]
    fn errors_and_changed_rows_are_never_explained_and_a_limit_explains_contents_only() {
        let same = result(1, 1, 1.0, 1, 5);
        let other = |digest, change: &dyn Fn(&mut StatementResult)| {
            let a = StatementResult { digest, ..same.clone() };
            let mut b = a.clone();
            change(&mut b);
            let a = results(vec![a]);
            let comparison = compare(&a, &results(vec![b]));
            (comparison.differ, comparison.differ_nondeterministic)
        };
        let (now, update, limit, by_key) = (Fingerprint(2), Fingerprint(3), Fingerprint(4), Fingerprint(5));
        assert_eq!(other(now, &|b| b.error = 1054), (1, 0), "a column that is missing");
        assert_eq!(other(update, &|b| b.affected_rows = 2), (1, 0));
        assert_eq!(other(now, &|b| b.rows = 2), (1, 1));
        assert_eq!(other(limit, &|b| b.checksum = Fingerprint(6)), (1, 1));
        assert_eq!(other(limit, &|b| b.rows = 0), (1, 0));
        assert_eq!(other(by_key, &|b| b.checksum = Fingerprint(6)), (1, 0));
    }

    #[test]
    fn another_order_counts_where_a_unique_key_orders_and_contents_where_it_bounds_a_limit() {
        let compared = |digest: u64, rows: u64, extent: &Extent, change: &dyn Fn(&mut StatementResult)| {
            let a = StatementResult {
                order: Some(Fingerprint(7)),
                extent: extent.clone(),
                ..result(1, digest, 1.0, rows, 5)
            };
            let mut b = a.clone();
            change(&mut b);
            let comparison = compare(&results(vec![a]), &results(vec![b]));
            (comparison.differ, comparison.differ_nondeterministic)
        };
        let (moved, other, fewer) = (
            |b: &mut StatementResult| b.order = Some(Fingerprint(8)),
            |b: &mut StatementResult| (b.checksum, b.order) = (Fingerprint(6), Some(Fingerprint(8))),
            |b: &mut StatementResult| b.rows -= 1,
        );
        let without = |b: &mut StatementResult| b.order = None;
        let none = Extent::default();
        let (by_note, by_id, by_price, listed) = (6, 7, 8, 9);
        assert_eq!(compared(by_note, 3, &none, &moved), (1, 1), "among rows of one note");
        assert_eq!(compared(by_note, 3, &none, &other), (1, 0));
        assert_eq!(compared(by_id, 3, &none, &moved), (1, 0));
        assert_eq!(
            compared(by_id, 3, &none, &without),
            (0, 0),
            "results of an earlier version"
        );
        let limit = |limit, values: &[(&str, u64)]| Extent {
            limit: Some(limit),
            values: values
                .iter()
                .map(|(column, count)| (column.to_string(), *count))
                .collect(),
        };
        assert_eq!(compared(by_price, 3, &limit(3, &[]), &other), (1, 1));
        assert_eq!(compared(by_price, 3, &limit(3, &[]), &fewer), (1, 0));
        assert_eq!(compared(by_price, 3, &limit(4, &[]), &other), (1, 0), "all rows");
        assert_eq!(compared(listed, 1, &limit(1, &[("id", 1)]), &other), (1, 0));
        assert_eq!(compared(listed, 1, &limit(1, &[("id", 2)]), &other), (1, 1));
        assert_eq!(compared(listed, 2, &limit(2, &[("id", 2)]), &other), (1, 0));
    }

    #[test]
    fn a_key_that_one_server_does_not_have_makes_no_statement_certain() {
        let a = results(vec![result(1, 5, 1.0, 1, 5)]);
        let mut b = results(vec![result(1, 5, 1.0, 1, 6)]);
        b.unique_keys.clear();
        assert_eq!(compare(&a, &b).differ_nondeterministic, 1);
    }

    #[test]
    fn the_same_error_in_both_is_no_equal_result() {
        let failed = |event| StatementResult {
            error: 1146,
            ..result(event, 1, 1.0, 0, 0)
        };
        let a = results(vec![failed(1), result(2, 1, 1.0, 1, 5)]);
        let comparison = compare(&a, &results(vec![failed(1), result(2, 1, 1.0, 1, 5)]));
        assert_eq!((comparison.differ, comparison.failed_in_both), (0, 1));
    }
}
