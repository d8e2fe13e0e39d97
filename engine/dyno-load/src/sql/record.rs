//! What a worker records of SQL, beside what every load records.

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::{Extra, Recorder};
use dyno_loop::Latency;
use dyno_mysql::TlsInfo;
use serde::{Deserialize, Serialize};

use super::definition::StatementKind;
use super::named::{Named, Reply};
use crate::sql::tpcc::{Execution, Kind};

/// A recorder of SQL.
pub type SqlRecorder = Recorder<SqlRecord>;

/// Statements by kind, transactions by type, handshakes.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct SqlRecord {
    /// Service time per kind of statement.
    pub statements: Vec<Histogram>,
    /// Transactions by type (TPC-C).
    pub by_type: ByType,
    /// TLS handshakes; none in plain text.
    pub handshakes: Handshakes,
    /// Statements and transactions by the names of a user's file.
    #[serde(default)]
    pub named: Named,
    /// Questions of connections that a script made and ended itself, beside its statements.
    #[serde(default)]
    pub questions_aside: u64,
    /// How long scripts held the worker's thread.
    #[serde(default)]
    pub held_ns: u64,
}

impl Default for SqlRecord {
    fn default() -> Self {
        Self {
            statements: (0..StatementKind::COUNT).map(|_| Histogram::new()).collect(),
            by_type: ByType::default(),
            handshakes: Handshakes::default(),
            named: Named::default(),
            questions_aside: 0,
            held_ns: 0,
        }
    }
}

/// Sums over a whole load.
#[derive(Debug, Clone, Default)]
pub struct SqlSums {
    /// Statements by kind.
    pub by_kind: [u64; StatementKind::COUNT],
    /// TLS handshakes from the first connection to the last.
    pub handshakes: Handshakes,
    /// See [`SqlRecord::questions_aside`].
    pub questions_aside: u64,
}

impl Extra for SqlRecord {
    type Sums = SqlSums;

    fn add_to(&self, sums: &mut SqlSums) {
        for (sum, histogram) in sums.by_kind.iter_mut().zip(&self.statements) {
            *sum += histogram.count();
        }
        sums.handshakes.merge(&self.handshakes);
        sums.questions_aside += self.questions_aside;
    }

    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.statements.iter_mut().zip(&other.statements) {
            mine.merge(theirs);
        }
        self.by_type.merge(&other.by_type);
        self.named.merge(&other.named);
        self.handshakes.merge(&other.handshakes);
        self.questions_aside += other.questions_aside;
        self.held_ns += other.held_ns;
    }

    fn merge_latencies(&mut self, other: &Self) {
        self.by_type.merge_latencies(&other.by_type);
    }

    fn clear(&mut self) {
        self.clear_after_connecting();
        self.handshakes.clear();
    }

    /// Discards everything recorded before the first interval except the connections' handshakes.
    fn clear_after_connecting(&mut self) {
        self.statements.iter_mut().for_each(Histogram::clear);
        self.by_type.clear();
        self.named.clear();
        (self.questions_aside, self.held_ns) = (0, 0);
    }
}

/// Counts one statement that succeeded.
#[inline]
pub fn record_statement(recorder: &mut SqlRecorder, kind: StatementKind, service_ns: u64, reply: Reply) {
    let counts = &mut recorder.counts;
    if kind == StatementKind::Procedure {
        // What it reads and writes is not in its answer.
        counts.other += 1;
    } else if reply.columns > 0 {
        counts.reads += 1;
        counts.rows += reply.rows;
        let is_empty = u64::from(reply.rows == 0);
        counts.empty_reads += is_empty;
        counts.missing_rows += is_empty * u64::from(kind.has_prepared_rows());
    } else if reply.affected_rows > 0 {
        counts.writes += 1;
    } else {
        counts.other += 1;
        counts.unchanged += u64::from(kind.changes_rows());
        counts.missing_rows += u64::from(kind.has_prepared_rows());
    }
    recorder.extra.statements[kind as usize].record(service_ns);
}

/// Counts of one type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeCounts {
    /// Committed, late ones too.
    pub committed: u64,
    /// Rolled back because the input asked for it (1 % of the New-Orders).
    pub rolled_back: u64,
    /// Ended, but with a response time above the standard's limit.
    pub late: u64,
    /// Attempts that failed and were made again.
    pub retries: u64,
    /// Districts that a Delivery found without a new order.
    pub skipped_districts: u64,
}

/// One type.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TypeRecorder {
    /// Counts.
    pub counts: TypeCounts,
    /// From the intended time to the end.
    pub response: Histogram,
    /// From the first byte sent to the last received.
    pub service: Histogram,
}

/// All types; empty until the first transaction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ByType(Vec<TypeRecorder>);

impl ByType {
    fn all(&mut self) -> &mut [TypeRecorder] {
        if self.0.is_empty() {
            self.0 = Kind::ALL.iter().map(|_| TypeRecorder::default()).collect();
        }
        &mut self.0
    }

    /// Counts one transaction that has ended.
    #[inline]
    pub fn record(&mut self, execution: &Execution, latency: Latency) {
        let kind = execution.kind();
        let recorder = &mut self.all()[kind as usize];
        if execution.is_rolled_back() {
            recorder.counts.rolled_back += 1;
        } else {
            recorder.counts.committed += 1;
        }
        recorder.counts.late += u64::from(latency.response_ns > kind.limit_ns());
        recorder.counts.retries += execution.retries();
        recorder.counts.skipped_districts += u64::from(execution.skipped());
        recorder.service.record(latency.service_ns);
        recorder.response.record(latency.response_ns);
    }

    /// Adds everything of another.
    pub fn merge(&mut self, other: &Self) {
        self.merge_latencies(other);
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.counts.committed += theirs.counts.committed;
            mine.counts.rolled_back += theirs.counts.rolled_back;
            mine.counts.late += theirs.counts.late;
            mine.counts.retries += theirs.counts.retries;
            mine.counts.skipped_districts += theirs.counts.skipped_districts;
        }
    }

    /// Adds another's latencies alone.
    pub fn merge_latencies(&mut self, other: &Self) {
        if other.0.is_empty() {
            return;
        }
        for (mine, theirs) in self.all().iter_mut().zip(&other.0) {
            mine.response.merge(&theirs.response);
            mine.service.merge(&theirs.service);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        for recorder in &mut self.0 {
            recorder.counts = TypeCounts::default();
            recorder.response.clear();
            recorder.service.clear();
        }
    }

    /// Each type with its record; none when there was no transaction.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &TypeRecorder)> {
        Kind::ALL.into_iter().zip(&self.0)
    }

    /// Transactions that ended, of all types.
    pub fn ended(&self) -> u64 {
        self.0
            .iter()
            .map(|recorder| recorder.counts.committed + recorder.counts.rolled_back)
            .sum()
    }

    /// New-Orders committed.
    pub fn new_orders(&self) -> u64 {
        self.0.first().map_or(0, |recorder| recorder.counts.committed)
    }
}

/// Handshakes counted when their connection was logged in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    /// With a key exchange and the server's certificate.
    pub full: u64,
    /// That went on with an earlier session.
    pub resumed: u64,
    /// What was agreed on, in the order of its first appearance; one entry where version and suite were fixed.
    pub negotiated: Vec<Negotiated>,
}

/// A protocol version with a suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Negotiated {
    /// As in the server's Ssl_version.
    pub version: String,
    /// As in the server's Ssl_cipher.
    pub cipher_suite: String,
    /// Connections that have them.
    pub connections: u64,
}

impl Handshakes {
    /// All of them.
    pub fn count(&self) -> u64 {
        self.full + self.resumed
    }

    /// Counts one.
    pub fn record(&mut self, info: &TlsInfo) {
        self.full += u64::from(!info.resumed);
        self.resumed += u64::from(info.resumed);
        self.agreed(info.version, info.cipher_suite, 1);
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
        for one in &other.negotiated {
            self.agreed(&one.version, &one.cipher_suite, one.connections);
        }
    }

    /// Forgets all, without giving memory back.
    pub fn clear(&mut self) {
        self.full = 0;
        self.resumed = 0;
        self.negotiated.clear();
    }

    fn agreed(&mut self, version: &str, cipher_suite: &str, connections: u64) {
        let known = |one: &&mut Negotiated| one.version == version && one.cipher_suite == cipher_suite;
        match self.negotiated.iter_mut().find(known) {
            Some(one) => one.connections += connections,
            None => self.negotiated.push(Negotiated {
                version: version.to_string(),
                cipher_suite: cipher_suite.to_string(),
                connections,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_add_up_by_kind_and_by_what_was_agreed_on() {
        let info = |version, resumed| TlsInfo {
            version,
            cipher_suite: "TLS_AES_128_GCM_SHA256",
            resumed,
        };
        let (mut one, mut other) = (Handshakes::default(), Handshakes::default());
        one.record(&info("TLSv1.3", false));
        other.record(&info("TLSv1.3", true));
        other.record(&info("TLSv1.2", true));
        one.merge(&other);
        assert_eq!((one.count(), one.full, one.resumed), (3, 1, 2));
        let agreed: Vec<_> = one
            .negotiated
            .iter()
            .map(|one| (&*one.version, one.connections))
            .collect();
        assert_eq!(agreed, [("TLSv1.3", 2), ("TLSv1.2", 1)]);
        one.clear();
        assert_eq!(one, Handshakes::default());
    }
}
