//! InnoDB's transactions and row locks. Measured: waits for row locks, deadlocks, rows and undo history, from the
//! server's status. Costs no more than the shared status statement. Wrong: MariaDB from 10.5 has no counts of rows; use
//! the handler counts.

use crate::collector::{Family, Subject};
use crate::metric::{Better, Metric, Scope};
use crate::mysql::status_family::{metrics_of, Derived, Entry, StatusFamily, StatusView};
use crate::sample::ScopeValues;
use crate::status;

const LOCK_TIME: Metric = Metric {
    name: "innodb_row_lock_time_us_per_s",
    scopes: &[Scope::Instance],
    better: Better::Lower,
    meaning: "Time that transactions waited for row locks, summed over them.",
    source: "SHOW GLOBAL STATUS: Innodb_row_lock_time",
    wrong: "A wait is added when it ends; the server counts whole milliseconds.",
};

static ENTRIES: [Entry; 8] = [
    status!(Rate "innodb_row_lock_waits_per_s" = "Innodb_row_lock_waits"; Lower; "Row locks that had to wait."; ""),
    status!(Gauge "innodb_row_lock_current_waits" = "Innodb_row_lock_current_waits"; Lower;
        "Row locks being waited for.";
        "One instant per sample."),
    status!(Rate "innodb_deadlocks_per_s" = "Innodb_deadlocks"; Lower;
        "Deadlocks.";
        "MariaDB and Percona Server only."),
    status!(Rate "innodb_rows_read_per_s" = "Innodb_rows_read"; None; "Rows read."; "Absent on MariaDB from 10.5."),
    status!(Rate "innodb_rows_inserted_per_s" = "Innodb_rows_inserted"; None;
        "Rows inserted.";
        "Absent on MariaDB from 10.5."),
    status!(Rate "innodb_rows_updated_per_s" = "Innodb_rows_updated"; None;
        "Rows updated.";
        "Absent on MariaDB from 10.5."),
    status!(Rate "innodb_rows_deleted_per_s" = "Innodb_rows_deleted"; None;
        "Rows deleted.";
        "Absent on MariaDB from 10.5."),
    status!(Gauge "innodb_history_list_length" = "redo:history_list_length"; Lower;
        "Undo logs of committed transactions that are not yet purged.";
        "From SHOW ENGINE INNODB STATUS where that is read for the redo; absent on other MySQL servers."),
];
const METRICS: [Metric; 8] = metrics_of(&ENTRIES);

static STATUS: StatusFamily = StatusFamily {
    entries: &ENTRIES,
    derived: Some(Derived {
        counters: &["Innodb_row_lock_time"],
        gauges: &[],
        put,
    }),
};

/// The family.
pub const FAMILY: Family = Family {
    name: "innodb_locks",
    subject: Subject::Status(&STATUS),
    metrics: &[&[LOCK_TIME], &METRICS],
};

fn put(view: &StatusView, scope: &mut ScopeValues) {
    scope.real(
        &LOCK_TIME,
        view.rate("Innodb_row_lock_time").map(|milliseconds| milliseconds * 1e3),
    );
}
