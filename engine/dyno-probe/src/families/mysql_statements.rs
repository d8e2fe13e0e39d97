//! Statements. Measured: how many statements of which kind a MySQL or MariaDB server ran, from its status. Costs no
//! more than the one status statement that all such families share (mysql/session.rs). Wrong: the probe's own statement
//! is counted once a sample; statements within stored programs count in some of the variables and not in others, as
//! each metric says.

use crate::collector::{Family, Subject};
use crate::metric::Metric;
use crate::mysql::status_family::{metrics_of, Entry, StatusFamily};
use crate::status;

static ENTRIES: [Entry; 13] = [
    status!(Rate "qps" = "Questions"; Higher;
        "Statements that clients sent.";
        "Preparing, closing and resetting a statement and pings do not count; the probe's own do."),
    status!(Rate "queries_per_s" = "Queries"; None;
        "Commands of every kind, and statements within stored programs.";
        "A client that prepares, executes and closes each time counts three times."),
    status!(Rate "tps" = "Com_commit" + "Com_rollback"; Higher;
        "Transactions ended by an explicit COMMIT or ROLLBACK.";
        "0 under autocommit; a COMMIT of an empty or read-only transaction counts."),
    status!(Rate "com_commit_per_s" = "Com_commit"; None;
        "COMMIT statements.";
        "Autocommitted statements do not count."),
    status!(Rate "com_rollback_per_s" = "Com_rollback"; Lower;
        "ROLLBACK statements.";
        "Transactions that the server itself rolled back do not count."),
    status!(Rate "com_select_per_s" = "Com_select"; None; "SELECT statements."; ""),
    status!(Rate "com_insert_per_s" = "Com_insert"; None;
        "INSERT statements.";
        "INSERT … SELECT is counted elsewhere."),
    status!(Rate "com_update_per_s" = "Com_update"; None; "UPDATE statements of one table."; ""),
    status!(Rate "com_delete_per_s" = "Com_delete"; None; "DELETE statements of one table."; ""),
    status!(Rate "com_replace_per_s" = "Com_replace"; None; "REPLACE statements."; ""),
    status!(Rate "com_stmt_prepare_per_s" = "Com_stmt_prepare"; None; "Statements prepared."; ""),
    status!(Rate "com_stmt_execute_per_s" = "Com_stmt_execute"; None;
        "Prepared statements executed.";
        "They count in qps too, and in the metric of their kind."),
    status!(Rate "slow_queries_per_s" = "Slow_queries"; Lower; "Statements slower than long_query_time."; ""),
];
const METRICS: [Metric; 13] = metrics_of(&ENTRIES);
static STATUS: StatusFamily = StatusFamily {
    entries: &ENTRIES,
    derived: None,
};

/// The family.
pub const FAMILY: Family = Family {
    name: "mysql_statements",
    subject: Subject::Status(&STATUS),
    metrics: &[&METRICS],
};
