//! What a worker records of SQL, beside what every load records.

mod by_type;
mod handshakes;
mod named;

pub use by_type::{ByType, TypeRecorder};
pub use handshakes::Handshakes;
pub use named::{Named, NamedLatency};

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::{Extra, Recorder};

use super::definition::StatementKind;

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
