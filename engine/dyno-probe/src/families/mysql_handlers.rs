//! Row work above the engines. Measured: handler calls, temporary tables, sorts and table locks of a MySQL or MariaDB
//! server. Costs no more than the shared status statement. Wrong: handler counts are of all engines and of temporary
//! tables too, and the probe's own statement makes one temporary table a sample.

use crate::collector::{Family, Subject};
use crate::metric::Metric;
use crate::mysql::status_family::{metrics_of, Entry, StatusFamily};
use crate::status;

static ENTRIES: [Entry; 18] = [
    status!(Rate "handler_read_first_per_s" = "Handler_read_first"; None;
        "Reads of an index' first entry.";
        "Many mean full index scans."),
    status!(Rate "handler_read_key_per_s" = "Handler_read_key"; None; "Reads of a row by a key."; ""),
    status!(Rate "handler_read_next_per_s" = "Handler_read_next"; None;
        "Reads of the next row in an index' order.";
        ""),
    status!(Rate "handler_read_prev_per_s" = "Handler_read_prev"; None;
        "Reads of the row before in an index' order.";
        ""),
    status!(Rate "handler_read_rnd_per_s" = "Handler_read_rnd"; None; "Reads of a row by its position."; ""),
    status!(Rate "handler_read_rnd_next_per_s" = "Handler_read_rnd_next"; None;
        "Reads of the next row of a table scan.";
        "The probe's own scan of the status is among them."),
    status!(Rate "handler_write_per_s" = "Handler_write"; None;
        "Rows inserted.";
        "MariaDB counts temporary tables apart, MySQL here."),
    status!(Rate "handler_update_per_s" = "Handler_update"; None; "Rows updated."; ""),
    status!(Rate "handler_delete_per_s" = "Handler_delete"; None; "Rows deleted."; ""),
    status!(Rate "handler_commit_per_s" = "Handler_commit"; None;
        "Commits inside the server.";
        "No transactions per second: a statement's commit and each engine's count."),
    status!(Rate "handler_rollback_per_s" = "Handler_rollback"; None; "Rollbacks inside the server."; ""),
    status!(Rate "temporary_tables_per_s" = "Created_tmp_tables"; Lower;
        "Temporary tables made for statements.";
        "The probe's own statement makes one."),
    status!(Rate "temporary_disk_tables_per_s" = "Created_tmp_disk_tables"; Lower;
        "Temporary tables that went to disk.";
        ""),
    status!(Rate "sort_merge_passes_per_s" = "Sort_merge_passes"; Lower;
        "Merge passes of sorts that did not fit sort_buffer_size.";
        ""),
    status!(Rate "full_scans_per_s" = "Select_scan"; None;
        "Joins that scanned their first table.";
        "The probe's own statement is one."),
    status!(Rate "full_joins_per_s" = "Select_full_join"; Lower; "Joins without an index."; ""),
    status!(Rate "table_cache_misses_per_s" = "Table_open_cache_misses"; Lower;
        "Tables opened because they were not in the table cache.";
        "Absent on older servers."),
    status!(Rate "table_lock_waits_per_s" = "Table_locks_waited"; Lower;
        "Table locks that had to wait.";
        "Row locks do not count."),
];
const METRICS: [Metric; 18] = metrics_of(&ENTRIES);
static STATUS: StatusFamily = StatusFamily {
    entries: &ENTRIES,
    derived: None,
};

/// The family.
pub const FAMILY: Family = Family {
    name: "mysql_handlers",
    subject: Subject::Status(&STATUS),
    metrics: &[&METRICS],
};
