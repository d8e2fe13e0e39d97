//! Host memory. Measured: free, cached, dirty and huge pages, from /proc/meminfo (kernel: filesystems/proc.rst,
//! "meminfo"). Costs one read of about 50 lines. Wrong: MemAvailable is the kernel's estimate; huge pages of hugetlbfs
//! are in no process' resident set.

use crate::collector::{Family, Subject};
use crate::keyed::{metrics_of, open_host, Keyed, Take};
use crate::metric::{Better, Metric, Scope};

const fn keyed(key: &'static str, factor: f64, name: &'static str, better: Better, meaning: &'static str) -> Keyed {
    let metric = Metric {
        name,
        scopes: &[Scope::Host],
        better,
        meaning,
        source: "/proc/meminfo",
        wrong: "",
    };
    Keyed {
        key,
        take: Take::Gauge(factor),
        metric,
    }
}

const KB: f64 = 1024.0;

static TABLE: [Keyed; 13] = [
    keyed(
        "MemTotal",
        KB,
        "memory_total_bytes",
        Better::None,
        "Memory that the kernel manages.",
    ),
    keyed(
        "MemFree",
        KB,
        "memory_free_bytes",
        Better::None,
        "Unused memory, not even used for caching.",
    ),
    keyed(
        "MemAvailable",
        KB,
        "memory_available_bytes",
        Better::None,
        "Memory that new work could have without swapping, as the kernel estimates it.",
    ),
    keyed(
        "Cached",
        KB,
        "memory_cached_bytes",
        Better::None,
        "Page cache, shared memory included.",
    ),
    keyed("SwapTotal", KB, "swap_total_bytes", Better::None, "Swap space."),
    keyed(
        "SwapFree",
        KB,
        "swap_free_bytes",
        Better::Higher,
        "Swap space not in use.",
    ),
    keyed(
        "Dirty",
        KB,
        "memory_dirty_bytes",
        Better::None,
        "Page cache that waits to be written to disk.",
    ),
    keyed(
        "Writeback",
        KB,
        "memory_writeback_bytes",
        Better::None,
        "Page cache that is being written to disk.",
    ),
    keyed(
        "AnonHugePages",
        KB,
        "memory_anonymous_huge_bytes",
        Better::None,
        "Anonymous memory on transparent huge pages.",
    ),
    keyed(
        "HugePages_Total",
        1.0,
        "hugepages_total",
        Better::None,
        "Pages in the pool of persistent huge pages.",
    ),
    keyed(
        "HugePages_Free",
        1.0,
        "hugepages_free",
        Better::None,
        "Persistent huge pages not allocated; reserved ones are among them.",
    ),
    keyed(
        "HugePages_Rsvd",
        1.0,
        "hugepages_reserved",
        Better::None,
        "Persistent huge pages promised and not yet allocated; in use = total - free + reserved.",
    ),
    keyed(
        "Hugepagesize",
        KB,
        "hugepage_size_bytes",
        Better::None,
        "Size of a persistent huge page.",
    ),
];
const METRICS: [Metric; 13] = metrics_of(&TABLE);

/// The family.
pub const FAMILY: Family = Family {
    name: "host_memory",
    subject: Subject::Host(|machine| open_host(machine, "meminfo", &TABLE)),
    metrics: &[&METRICS],
};
