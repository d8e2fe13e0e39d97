//! What is recorded by name: the transactions and statements of a user's file, the digests of a capture.

use dyno_core::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// The server's reply to one statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reply {
    /// Columns of its result; 0 where it returns none.
    pub columns: u64,
    /// Rows of its result.
    pub rows: u64,
    /// Rows that it changed.
    pub affected_rows: u64,
}

/// One name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NamedLatency {
    /// The name.
    pub name: String,
    /// Service time.
    pub service: Histogram,
    /// Results with columns: statements that read.
    #[serde(default)]
    pub reads: u64,
    /// Those among them without a row.
    #[serde(default)]
    pub empty_reads: u64,
    /// Statements that failed; they have no service time.
    #[serde(default)]
    pub errors: u64,
    /// Rows that its statements returned or changed; none for transactions, and until one has succeeded.
    #[serde(default)]
    pub rows: Option<Rows>,
}

/// Rows of statements: of each, those that it returned, or else those that it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// Of all statements together.
    pub sum: u64,
    /// Of the one with the fewest.
    pub least: u64,
    /// Of the one with the most.
    pub most: u64,
}

impl Rows {
    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }
}

impl NamedLatency {
    #[inline]
    fn add_rows(&mut self, count: u64) {
        self.merge_rows(Rows {
            sum: count,
            least: count,
            most: count,
        });
    }

    #[inline]
    fn merge_rows(&mut self, other: Rows) {
        match &mut self.rows {
            Some(rows) => rows.merge(other),
            None => self.rows = Some(other),
        }
    }
}

/// All names; empty for workloads of dynoload's own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Named(Vec<Option<NamedLatency>>);

impl Named {
    /// Counts one under the number that its name has in the file.
    #[inline]
    pub fn record(&mut self, number: usize, name: &str, service_ns: u64) {
        self.at(number, name).service.record(service_ns);
    }

    /// Counts one statement that succeeded.
    #[inline]
    pub fn record_statement(&mut self, number: usize, name: &str, service_ns: u64, reply: Reply) {
        let one = self.at(number, name);
        let reads = reply.columns > 0;
        one.service.record(service_ns);
        one.reads += u64::from(reads);
        one.empty_reads += u64::from(reads && reply.rows == 0);
        one.add_rows(if reads { reply.rows } else { reply.affected_rows });
    }

    /// Counts one statement that failed.
    #[cold]
    pub fn record_error(&mut self, number: usize, name: &str) {
        self.at(number, name).errors += 1;
    }

    fn at(&mut self, number: usize, name: &str) -> &mut NamedLatency {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number].get_or_insert_with(|| NamedLatency {
            name: name.to_string(),
            service: Histogram::new(),
            reads: 0,
            empty_reads: 0,
            errors: 0,
            rows: None,
        })
    }

    /// Adds everything of another.
    pub fn merge(&mut self, other: &Self) {
        for (number, one) in (0..).zip(&other.0) {
            if let Some(one) = one {
                let mine = self.at(number, &one.name);
                mine.service.merge(&one.service);
                mine.reads += one.reads;
                mine.empty_reads += one.empty_reads;
                mine.errors += one.errors;
                if let Some(rows) = one.rows {
                    mine.merge_rows(rows);
                }
            }
        }
    }

    /// Forgets all counts.
    pub fn clear(&mut self) {
        for one in self.0.iter_mut().flatten() {
            one.service.clear();
            (one.reads, one.empty_reads, one.errors, one.rows) = (0, 0, 0, None);
        }
    }

    /// Each name that has counts.
    pub fn iter(&self) -> impl Iterator<Item = &NamedLatency> {
        self.0
            .iter()
            .flatten()
            .filter(|one| one.service.count() + one.errors > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_name_times_rows_and_errors_are_counted_and_add_up() {
        let reply = |columns, rows, affected_rows| Reply {
            columns,
            rows,
            affected_rows,
        };
        let (mut one, mut other) = (Named::default(), Named::default());
        one.record_statement(1, "SELECT ?", 10_000, reply(1, 3, 0));
        one.record_statement(1, "SELECT ?", 30_000, reply(1, 0, 0));
        other.record_statement(1, "SELECT ?", 20_000, reply(1, 5, 0));
        other.record_statement(0, "DELETE FROM t", 20_000, reply(0, 0, 7));
        other.record_error(2, "INSERT INTO t VALUES (?+)");
        one.merge(&other);
        let found: Vec<_> = one
            .iter()
            .map(|one| (one.name.as_str(), one.service.count(), one.errors, one.rows))
            .collect();
        let rows = |sum, least, most| Some(Rows { sum, least, most });
        let expected = [
            ("DELETE FROM t", 1, 0, rows(7, 7, 7)),
            ("SELECT ?", 3, 0, rows(8, 0, 5)),
            ("INSERT INTO t VALUES (?+)", 0, 1, None),
        ];
        assert_eq!(found, expected);
        one.clear();
        assert_eq!(one.iter().count(), 0);
    }
}
