//! InnoDB's file I/O. Measured: reads, writes, syncs and the double-write buffer, from the server's status. Costs no
//! more than the shared status statement. Wrong: InnoDB's own counts of what it asked of the kernel, not of what a
//! device did.

use crate::collector::{Family, Subject};
use crate::metric::Metric;
use crate::mysql::status_family::{metrics_of, Entry, StatusFamily};
use crate::status;

static ENTRIES: [Entry; 10] = [
    status!(Rate "innodb_data_reads_per_s" = "Innodb_data_reads"; None; "Reads from data files."; ""),
    status!(Rate "innodb_data_writes_per_s" = "Innodb_data_writes"; None; "Writes to files."; ""),
    status!(Rate "innodb_data_fsyncs_per_s" = "Innodb_data_fsyncs"; None;
        "Calls of fsync and fdatasync.";
        "With O_DIRECT_NO_FSYNC or O_DSYNC a write can be durable without one."),
    status!(Rate "innodb_data_read_bytes_per_s" = "Innodb_data_read"; None; "Bytes read from data files."; ""),
    status!(Rate "innodb_data_written_bytes_per_s" = "Innodb_data_written"; None;
        "Bytes written to files.";
        "With the double-write buffer, pages count twice."),
    status!(Gauge "innodb_pending_fsyncs" = "Innodb_data_pending_fsyncs"; Lower;
        "Syncs under way.";
        "One instant per sample."),
    status!(Gauge "innodb_pending_reads" = "Innodb_data_pending_reads"; Lower;
        "Reads under way.";
        "One instant per sample."),
    status!(Gauge "innodb_pending_writes" = "Innodb_data_pending_writes"; Lower;
        "Writes under way.";
        "One instant per sample."),
    status!(Rate "innodb_pages_written_per_s" = "Innodb_pages_written"; None; "Pages written."; ""),
    status!(Rate "innodb_doublewrite_pages_per_s" = "Innodb_dblwr_pages_written"; None;
        "Pages written to the double-write buffer.";
        ""),
];
const METRICS: [Metric; 10] = metrics_of(&ENTRIES);
static STATUS: StatusFamily = StatusFamily {
    entries: &ENTRIES,
    derived: None,
};

/// The family.
pub const FAMILY: Family = Family {
    name: "innodb_io",
    subject: Subject::Status(&STATUS),
    metrics: &[&METRICS],
};
