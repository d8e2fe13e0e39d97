//! A process' memory. Measured: resident, virtual, swapped and huge memory of one process, from /proc/PID/status
//! (proc_pid_status(5)). Costs one read of about 60 lines. Wrong: resident memory counts shared pages in full and,
//! since Linux 6.2, may be off by some pages a CPU; pages of hugetlbfs are not in it.

use crate::collector::{Family, Subject};
use crate::keyed::{metrics_of, open_process, Keyed, Take};
use crate::metric::{Better, Metric, Scope};

const fn kb(
    key: &'static str,
    name: &'static str,
    better: Better,
    meaning: &'static str,
    wrong: &'static str,
) -> Keyed {
    let scopes = &[Scope::Instance, Scope::Driver];
    let metric = Metric {
        name,
        scopes,
        better,
        meaning,
        source: "/proc/PID/status",
        wrong,
    };
    Keyed {
        key,
        take: Take::Gauge(1024.0),
        metric,
    }
}

static TABLE: [Keyed; 7] = [
    kb(
        "VmSize",
        "vsize_bytes",
        Better::None,
        "Address space of the process.",
        "Reserved and never touched memory counts: allocators differ in this without any cost, and MariaDB 10.11.19 reserves terabytes for a buffer pool that may grow.",
    ),
    kb(
        "VmHWM",
        "rss_peak_bytes",
        Better::Lower,
        "Largest resident memory so far.",
        "",
    ),
    kb(
        "VmRSS",
        "rss_bytes",
        Better::Lower,
        "Memory of the process that is resident.",
        "Shared pages count in full; persistent huge pages do not count: see hugetlb_bytes.",
    ),
    kb(
        "RssAnon",
        "rss_anonymous_bytes",
        Better::Lower,
        "Resident memory that is no file: heap, stacks, buffer pool.",
        "",
    ),
    kb(
        "RssFile",
        "rss_file_bytes",
        Better::None,
        "Resident pages of files: program and libraries.",
        "",
    ),
    kb(
        "VmSwap",
        "swap_bytes",
        Better::Lower,
        "Memory of the process that is swapped out.",
        "Shared memory does not count.",
    ),
    kb(
        "HugetlbPages",
        "hugetlb_bytes",
        Better::None,
        "Persistent huge pages that the process has touched.",
        "Reserved and untouched pages do not count.",
    ),
];
const METRICS: [Metric; 7] = metrics_of(&TABLE);

/// The family.
pub const FAMILY: Family = Family {
    name: "process_memory",
    subject: Subject::Process(|machine, process| open_process(machine, process, "status", &TABLE)),
    metrics: &[&METRICS],
};
