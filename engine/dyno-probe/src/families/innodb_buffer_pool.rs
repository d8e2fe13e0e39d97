//! InnoDB's buffer pool. Measured: pages in it, how many are dirty, and how often a page had to be read, from the
//! server's status. Costs no more than the shared status statement. Wrong: three definitions of "dirty" are in use
//! elsewhere; see the two metrics here.

use crate::collector::{Family, Subject};
use crate::metric::{Better, Metric, Scope};
use crate::mysql::status_family::{metrics_of, Derived, Entry, StatusFamily, StatusView};
use crate::sample::ScopeValues;
use crate::status;

const PAGES: &str = "SHOW GLOBAL STATUS: Innodb_buffer_pool_pages_dirty, _data, _free";
const READS: &str = "SHOW GLOBAL STATUS: Innodb_buffer_pool_reads, Innodb_buffer_pool_read_requests";

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

const DIRTY: Metric = metric(
    "innodb_dirty_pages_pct",
    PAGES,
    Better::None,
    "Dirty pages in percent of pages with data and free pages: the value that InnoDB compares with innodb_max_dirty_pages_pct.",
    "Lower than innodb_dirty_pages_of_data_pct as long as the pool is not full. InnoDB adds 1 to the divisor.",
);
const DIRTY_OF_DATA: Metric = metric(
    "innodb_dirty_pages_of_data_pct",
    PAGES,
    Better::None,
    "Dirty pages in percent of pages with data.",
    "Near 100 just after a load, while the pool is mostly free.",
);
const HIT: Metric = metric(
    "innodb_buffer_pool_hit_pct",
    READS,
    Better::Higher,
    "Page requests that found their page in the pool, in percent of all, over the interval.",
    "Pages read ahead do not count as misses. Absent without requests.",
);
const MISS: Metric = metric(
    "innodb_buffer_pool_miss_pct",
    READS,
    Better::Lower,
    "100 - innodb_buffer_pool_hit_pct, which keeps its digits when it is small.",
    "Pages read ahead do not count as misses. Absent without requests.",
);

static ENTRIES: [Entry; 11] = [
    status!(Gauge "innodb_buffer_pool_pages_total" = "Innodb_buffer_pool_pages_total"; None; "Pages of the pool."; ""),
    status!(Gauge "innodb_buffer_pool_pages_data" = "Innodb_buffer_pool_pages_data"; None;
        "Pages with data, dirty or clean.";
        ""),
    status!(Gauge "innodb_buffer_pool_pages_dirty" = "Innodb_buffer_pool_pages_dirty"; None;
        "Pages changed and not yet written.";
        ""),
    status!(Gauge "innodb_buffer_pool_pages_free" = "Innodb_buffer_pool_pages_free"; None; "Pages without data."; ""),
    status!(Rate "innodb_buffer_pool_read_requests_per_s" = "Innodb_buffer_pool_read_requests"; None;
        "Logical page reads.";
        ""),
    status!(Rate "innodb_buffer_pool_reads_per_s" = "Innodb_buffer_pool_reads"; Lower;
        "Page reads that had to go to a file.";
        ""),
    status!(Rate "innodb_buffer_pool_read_ahead_per_s" = "Innodb_buffer_pool_read_ahead"; None;
        "Pages read ahead.";
        ""),
    status!(Rate "innodb_buffer_pool_write_requests_per_s" = "Innodb_buffer_pool_write_requests"; None;
        "Page changes.";
        ""),
    status!(Rate "innodb_buffer_pool_flushed_pages_per_s" = "Innodb_buffer_pool_pages_flushed"; None;
        "Pages flushed.";
        ""),
    status!(Rate "innodb_buffer_pool_wait_free_per_s" = "Innodb_buffer_pool_wait_free"; Lower;
        "Times that a thread waited because no page was free.";
        ""),
    status!(Rate "innodb_pages_created_per_s" = "Innodb_pages_created"; None; "Pages created."; ""),
];
const METRICS: [Metric; 11] = metrics_of(&ENTRIES);

static STATUS: StatusFamily = StatusFamily {
    entries: &ENTRIES,
    derived: Some(Derived {
        counters: &[],
        gauges: &[],
        put,
    }),
};

/// The family.
pub const FAMILY: Family = Family {
    name: "innodb_buffer_pool",
    subject: Subject::Status(&STATUS),
    metrics: &[&[DIRTY, DIRTY_OF_DATA, HIT, MISS], &METRICS],
};

fn put(view: &StatusView, scope: &mut ScopeValues) {
    let pages = |name: &str| view.value(name).map(|value| value as f64);
    let dirty = pages("Innodb_buffer_pool_pages_dirty");
    let data = pages("Innodb_buffer_pool_pages_data");
    let free = pages("Innodb_buffer_pool_pages_free");
    let usable = data.zip(free).map(|(data, free)| data + free);
    let pct = |whole: Option<f64>| dirty.zip(whole).map(|(dirty, whole)| 100.0 * dirty / whole);
    scope.real(&DIRTY, pct(usable));
    scope.real(&DIRTY_OF_DATA, pct(data));
    let requests = view
        .change("Innodb_buffer_pool_read_requests")
        .filter(|requests| *requests > 0);
    let reads = view.change("Innodb_buffer_pool_reads");
    let miss = reads
        .zip(requests)
        .map(|(reads, requests)| 100.0 * reads as f64 / requests as f64);
    scope.real(&HIT, miss.map(|miss| 100.0 - miss));
    scope.real(&MISS, miss);
}
