//! A process' reads and writes. Measured: bytes and calls of one process, from /proc/PID/io (proc_pid_io(5)). Costs one
//! read, in which the kernel adds up all threads. Wrong: needs the right to trace the process (the same user, or root);
//! a buffered write counts for the process that dirtied the page, when it does, not when the disk is written; sockets
//! count in the calls and characters, not in the storage bytes.

use crate::collector::{Family, Subject};
use crate::keyed::{metrics_of, open_process, Keyed, Take};
use crate::metric::{Better, Metric, Scope};

const fn rate(key: &'static str, name: &'static str, meaning: &'static str, wrong: &'static str) -> Keyed {
    let scopes = &[Scope::Instance, Scope::Driver];
    let metric = Metric {
        name,
        scopes,
        better: Better::None,
        meaning,
        source: "/proc/PID/io",
        wrong,
    };
    Keyed {
        key,
        take: Take::Rate(1.0),
        metric,
    }
}

static TABLE: [Keyed; 4] = [
    rate(
        "syscr",
        "read_calls_per_s",
        "Calls of read and its relatives.",
        "recv is not among them, read on a socket is.",
    ),
    rate(
        "syscw",
        "write_calls_per_s",
        "Calls of write and its relatives.",
        "send is not among them, write on a socket is.",
    ),
    rate(
        "read_bytes",
        "read_bytes_per_s",
        "Bytes that the process caused to be read from storage.",
        "Data found in the page cache does not count.",
    ),
    rate(
        "write_bytes",
        "write_bytes_per_s",
        "Bytes that the process caused to be written to storage.",
        "Buffered writes count when the page is dirtied, and even if it is truncated before it is written.",
    ),
];
const METRICS: [Metric; 4] = metrics_of(&TABLE);

/// The family.
pub const FAMILY: Family = Family {
    name: "process_io",
    subject: Subject::Process(|machine, process| open_process(machine, process, "io", &TABLE)),
    metrics: &[&METRICS],
};
