//! A process' proportional memory. Measured: memory with shared pages divided among those who share them, and
//! transparent huge pages, from /proc/PID/smaps_rollup (proc_pid_smaps(5), Linux 4.14). Costs a walk over all page
//! tables of the process, about 19 ms a GiB of small pages (measured on Linux 6.18), with the address space locked
//! against changes: so it is read every 10 s, more rarely the more it costs (collector.rs), not at all beyond 8 GiB
//! resident, and its cost is reported. Wrong: needs the right to trace the process; the value belongs to one moment in
//! 10 s.

use crate::collector::{Collector, CostLimiter, Failure, Family, Moment, Opened, Subject};
use crate::keyed::{metrics_of, Keyed, KeyedFile, Take};
use crate::machine::{Machine, Process};
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;
use crate::text::{number, words};

const SCOPES: &[Scope] = &[Scope::Instance, Scope::Driver];
const SOURCE: &str = "/proc/PID/smaps_rollup";
const WRONG: &str = "In one sample of ten seconds or more; absent in the others.";

const fn kb(key: &'static str, name: &'static str, better: Better, meaning: &'static str) -> Keyed {
    let metric = Metric {
        name,
        scopes: SCOPES,
        better,
        meaning,
        source: SOURCE,
        wrong: WRONG,
    };
    Keyed {
        key,
        take: Take::Gauge(1024.0),
        metric,
    }
}

static TABLE: [Keyed; 4] = [
    kb(
        "Pss",
        "pss_bytes",
        Better::Lower,
        "Resident memory, each shared page divided by the number of processes that share it.",
    ),
    kb(
        "Private_Dirty",
        "private_dirty_bytes",
        Better::Lower,
        "Resident memory that only this process has, and changed.",
    ),
    kb(
        "AnonHugePages",
        "anonymous_huge_bytes",
        Better::None,
        "Memory of the process on transparent huge pages.",
    ),
    kb(
        "SwapPss",
        "swap_pss_bytes",
        Better::Lower,
        "Swapped memory, divided like pss_bytes.",
    ),
];
const METRICS: [Metric; 4] = metrics_of(&TABLE);
const COST: Metric = Metric {
    name: "pss_cost_us",
    scopes: SCOPES,
    better: Better::None,
    meaning: "CPU time that reading smaps_rollup took of the probe.",
    source: SOURCE,
    wrong: WRONG,
};

/// The family.
pub const FAMILY: Family = Family {
    name: "process_pss",
    subject: Subject::Process(open),
    metrics: &[&METRICS, &[COST]],
};

/// Beyond this, one walk would hold up a sample for more than about 150 ms.
const LARGEST_RESIDENT_BYTES: f64 = 8.0 * 1_073_741_824.0;

struct ProcessPss {
    statm: PseudoFile,
    page_bytes: f64,
    scope: String,
    prefix: &'static str,
    file: KeyedFile,
    limiter: CostLimiter,
}

fn open(machine: &Machine, process: &Process) -> Opened {
    let file = PseudoFile::open(process.folder(machine).join("smaps_rollup"))?;
    let statm = PseudoFile::open(process.folder(machine).join("statm"))?;
    Ok(Box::new(ProcessPss {
        statm,
        page_bytes: machine.page_bytes,
        scope: process.scope(),
        prefix: process.prefix(),
        file: KeyedFile::new(file, &TABLE),
        limiter: CostLimiter::default(),
    }))
}

impl ProcessPss {
    /// Resident bytes, by the second column of /proc/PID/statm, in pages.
    fn resident_bytes(&self, buffer: &mut Vec<u8>) -> Result<f64, Failure> {
        let content = self.statm.read(buffer)?;
        let pages = words(content).nth(1).and_then(number);
        let pages = pages.ok_or_else(|| self.statm.malformed("has no second column"))?;
        Ok(pages as f64 * self.page_bytes)
    }
}

impl Collector for ProcessPss {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let resident_bytes = self.resident_bytes(moment.buffer)?;
        if resident_bytes > LARGEST_RESIDENT_BYTES {
            return Err(self.statm.malformed(&format!(
                "tells of {resident_bytes} resident bytes; above {LARGEST_RESIDENT_BYTES} they are not walked"
            )));
        }
        let scope = sample.scope(&self.scope);
        let now_ns = moment.clock.monotonic_ns();
        let (file, prefix) = (&mut self.file, self.prefix);
        let reading = || file.read(moment, |metric, value| scope.of_process(prefix, metric, value));
        let Some((result, cost_ns)) = self.limiter.run(now_ns, reading) else {
            return Ok(());
        };
        result?;
        scope.of_process(prefix, &COST, Some(cost_ns as f64 / 1e3));
        Ok(())
    }
}
