//! A process' memory. Measured: resident, virtual, swapped and huge memory of one process, from /proc/PID/status (proc_pid_status(5)). Costs one read of
//! about 60 lines. Wrong: resident memory counts shared pages in full and, since Linux 6.2, may be off by some pages a CPU; pages of hugetlbfs are not in it.

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::keyed::{metrics_of, Keyed, KeyedFile, Take};
use crate::machine::{Machine, Process};
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;

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
        "Reserved and never touched memory counts: allocators differ in this without any cost.",
    ),
    kb(
        "VmHWM",
        "rss_peak_bytes",
        Better::Lower,
        "The most that was ever resident.",
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
    subject: Subject::Process(open),
    metrics: &[&METRICS],
};

struct ProcessMemory {
    scope: String,
    prefix: &'static str,
    file: KeyedFile,
}

fn open(machine: &Machine, process: &Process) -> Opened {
    let file = PseudoFile::open(process.folder(machine).join("status"))?;
    Ok(Box::new(ProcessMemory {
        scope: process.scope(),
        prefix: process.prefix(),
        file: KeyedFile::new(file, &TABLE),
    }))
}

impl Collector for ProcessMemory {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let scope = sample.scope(&self.scope);
        self.file.read(moment, |metric, value| {
            scope.of_process(self.prefix, metric, value)
        })
    }
}
