//! InnoDB's redo log. Measured: how far the last checkpoint is behind, how far it may be, how much redo is written,
//! from the source that the server has (mysql/redo.rs). Costs, beyond the shared status statement, nothing on MariaDB
//! from 10.5 and MySQL from 8.0.30, one more statement on others. Wrong: as each metric says.

use crate::collector::{Family, Subject};
use crate::metric::{Better, Metric, Scope};
use crate::mysql::status_family::{metrics_of, Derived, Entry, StatusFamily, StatusView};
use crate::sample::ScopeValues;
use crate::status;

const LSN_SOURCE: &str = "MySQL from 8.0.30: Innodb_redo_log_*; MariaDB from 10.5, Percona Server to 5.7: Innodb_checkpoint_age, Innodb_lsn_current; others: \
                          INNODB_METRICS log_lsn_* when enabled, else SHOW ENGINE INNODB STATUS";
const MAX_SOURCE: &str = "MariaDB from 10.5, Percona Server to 5.7: Innodb_checkpoint_max_age; MySQL to 5.7: computed as log_calc_max_ages(); \
                          MySQL from 8.0.30: INNODB_METRICS log_max_modified_age_sync when enabled";

const fn metric(
    name: &'static str,
    source: &'static str,
    better: Better,
    meaning: &'static str,
    wrong: &'static str,
) -> Metric {
    Metric {
        name,
        scopes: &[Scope::Instance],
        better,
        meaning,
        source,
        wrong,
    }
}

const AGE: Metric = metric(
    "innodb_checkpoint_age_bytes",
    LSN_SOURCE,
    Better::Lower,
    "Redo since the last checkpoint: log sequence number - last checkpoint.",
    "",
);
const MAX_AGE: Metric = metric(
    "innodb_checkpoint_max_age_bytes",
    MAX_SOURCE,
    Better::None,
    "The age at which writes wait for a checkpoint.",
    "Absent on MySQL 8.0.0 to 8.0.29, and later unless the metric is enabled.",
);
const AGE_PCT: Metric = metric(
    "innodb_checkpoint_age_pct",
    MAX_SOURCE,
    Better::Lower,
    "innodb_checkpoint_age_bytes in percent of innodb_checkpoint_max_age_bytes.",
    "",
);
const CAPACITY: Metric = metric(
    "innodb_redo_capacity_bytes",
    "Innodb_redo_log_capacity_resized; others: innodb_log_file_size × innodb_log_files_in_group",
    Better::None,
    "Size of the redo log.",
    "",
);
const WRITTEN: Metric = metric(
    "innodb_redo_written_bytes_per_s",
    LSN_SOURCE,
    Better::None,
    "Growth of the log sequence number.",
    "Redo as InnoDB makes it, not what the device writes: blocks are padded and written again.",
);

static ENTRIES: [Entry; 5] = [
    status!(Rate "innodb_os_log_written_bytes_per_s" = "Innodb_os_log_written"; None;
        "Bytes that InnoDB wrote to its log files.";
        "Not what the device writes."),
    status!(Rate "innodb_os_log_fsyncs_per_s" = "Innodb_os_log_fsyncs"; None;
        "Calls of fsync for the log files.";
        "Absent on MariaDB 10.11."),
    status!(Rate "innodb_log_writes_per_s" = "Innodb_log_writes"; None; "Physical writes to the log files."; ""),
    status!(Rate "innodb_log_write_requests_per_s" = "Innodb_log_write_requests"; None; "Requests to write redo."; ""),
    status!(Rate "innodb_log_waits_per_s" = "Innodb_log_waits"; Lower;
        "Times that the log buffer was too small and a thread waited for it.";
        ""),
];
const METRICS: [Metric; 5] = metrics_of(&ENTRIES);

static STATUS: StatusFamily = StatusFamily {
    entries: &ENTRIES,
    derived: Some(Derived {
        counters: &["redo:lsn_current"],
        gauges: &["redo:checkpoint_age", "redo:checkpoint_max_age", "redo:capacity"],
        put,
    }),
};

/// The family.
pub const FAMILY: Family = Family {
    name: "innodb_redo",
    subject: Subject::Status(&STATUS),
    metrics: &[&[AGE, MAX_AGE, AGE_PCT, CAPACITY, WRITTEN], &METRICS],
};

fn put(view: &StatusView, scope: &mut ScopeValues) {
    let gauge = |name: &str| view.value(name).map(|value| value as f64);
    let (age, max_age) = (gauge("redo:checkpoint_age"), gauge("redo:checkpoint_max_age"));
    scope.real(&AGE, age);
    scope.real(&MAX_AGE, max_age);
    scope.real(&AGE_PCT, age.zip(max_age).map(|(age, max_age)| 100.0 * age / max_age));
    scope.real(&CAPACITY, gauge("redo:capacity"));
    scope.real(&WRITTEN, view.rate("redo:lsn_current"));
}
