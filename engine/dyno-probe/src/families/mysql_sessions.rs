//! Sessions. Measured: connections, threads and protocol bytes of a MySQL or MariaDB server, and how long it takes to
//! answer the probe. Costs no more than the shared status statement. Wrong: the probe's own connection and bytes are
//! counted.

use crate::collector::{Family, Subject};
use crate::metric::Metric;
use crate::mysql::status_family::{metrics_of, Entry, StatusFamily};
use crate::status;

static ENTRIES: [Entry; 9] = [
    status!(Gauge "uptime_s" = "Uptime"; None; "Seconds since the server started."; ""),
    status!(Gauge "threads_connected" = "Threads_connected"; None; "Open connections."; "Includes the probe's."),
    status!(Gauge "threads_running" = "Threads_running"; None;
        "Connections that are running a statement.";
        "One instant per sample, and the probe's own is always running."),
    status!(Rate "connections_per_s" = "Connections"; None; "Attempts to connect, successful or not."; ""),
    status!(Rate "aborted_connects_per_s" = "Aborted_connects"; Lower; "Failed attempts to connect."; ""),
    status!(Rate "aborted_clients_per_s" = "Aborted_clients"; Lower;
        "Connections that ended without being closed by the client.";
        ""),
    status!(Rate "protocol_received_bytes_per_s" = "Bytes_received"; None;
        "Bytes of the protocol received from clients.";
        "After protocol compression, before TLS: neither what the client sent nor what the wire carried."),
    status!(Rate "protocol_sent_bytes_per_s" = "Bytes_sent"; None;
        "Bytes of the protocol sent to clients.";
        "After protocol compression, before TLS."),
    status!(Gauge "status_round_trip_us" = "probe:round_trip_us"; Lower;
        "Time from the probe's request for the status to the complete reply.";
        "Measured by the probe, not a status variable; it includes the wait for a CPU on both sides."),
];
const METRICS: [Metric; 9] = metrics_of(&ENTRIES);
static STATUS: StatusFamily = StatusFamily {
    entries: &ENTRIES,
    derived: None,
};

/// The family.
pub const FAMILY: Family = Family {
    name: "mysql_sessions",
    subject: Subject::Status(&STATUS),
    metrics: &[&METRICS],
};
