//! Host paging. Measured: faults, swapping, reclaim, OOM kills and transparent huge pages, from /proc/vmstat (kernel:
//! admin-guide/mm/transhuge.rst for the thp_ counters). Costs one read of about 190 lines; the kernel sums each counter
//! over all CPUs. Wrong: it counts the whole host, whoever caused it.

use crate::collector::{Family, Subject};
use crate::keyed::{metrics_of, open_host, Keyed, Take};
use crate::metric::{Better, Metric, Scope};

const fn rate(key: &'static str, name: &'static str, better: Better, meaning: &'static str) -> Keyed {
    let metric = Metric {
        name,
        scopes: &[Scope::Host],
        better,
        meaning,
        source: "/proc/vmstat",
        wrong: "",
    };
    Keyed {
        key,
        take: Take::Rate(1.0),
        metric,
    }
}

static TABLE: [Keyed; 12] = [
    rate("pswpin", "swap_in_pages_per_s", Better::Lower, "Pages read from swap."),
    rate(
        "pswpout",
        "swap_out_pages_per_s",
        Better::Lower,
        "Pages written to swap.",
    ),
    rate(
        "pgfault",
        "page_faults_per_s",
        Better::None,
        "Page faults, minor and major.",
    ),
    rate(
        "pgmajfault",
        "major_page_faults_per_s",
        Better::Lower,
        "Page faults that had to read from a disk.",
    ),
    rate(
        "pgscan_direct",
        "direct_reclaim_pages_per_s",
        Better::Lower,
        "Pages scanned by allocating tasks in direct reclaim.",
    ),
    rate(
        "oom_kill",
        "oom_kills_per_s",
        Better::Lower,
        "Processes killed because memory ran out.",
    ),
    rate(
        "numa_pages_migrated",
        "numa_migrated_pages_per_s",
        Better::None,
        "Pages moved between NUMA nodes.",
    ),
    rate(
        "compact_stall",
        "compaction_stalls_per_s",
        Better::Lower,
        "Times that a task waited for memory to be compacted for a huge page.",
    ),
    rate(
        "thp_fault_alloc",
        "thp_fault_allocations_per_s",
        Better::None,
        "Transparent huge pages allocated at a page fault.",
    ),
    rate(
        "thp_fault_fallback",
        "thp_fault_fallbacks_per_s",
        Better::None,
        "Page faults that requested a huge page and received small ones.",
    ),
    rate(
        "thp_collapse_alloc",
        "thp_collapses_per_s",
        Better::None,
        "Huge pages that khugepaged made of small ones.",
    ),
    rate(
        "thp_split_page",
        "thp_splits_per_s",
        Better::None,
        "Huge pages split into small ones.",
    ),
];
const METRICS: [Metric; 12] = metrics_of(&TABLE);

/// The family.
pub const FAMILY: Family = Family {
    name: "host_paging",
    subject: Subject::Host(|machine| open_host(machine, "vmstat", &TABLE)),
    metrics: &[&METRICS],
};
