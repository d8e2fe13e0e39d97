//! Block devices. Measured: requests, bytes, busy time, queue and waiting, from /sys/class/block/DEV/stat (kernel:
//! block/stat.rst). Costs one short read a disk. Wrong: busy time (util) says nothing of a device that serves many
//! requests at once, such as flash; requests throttled by a cgroup wait above this layer and are not seen; the host's
//! sums count twice when a device and one below it are both chosen.

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::deltas::Deltas;
use crate::machine::Machine;
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::{Sample, ScopeValues};
use crate::text::{lines, number, words};

const SOURCE: &str = "/sys/class/block/DEV/stat";
const BOTH: &[Scope] = &[Scope::Disk, Scope::Host];
const DISK: &[Scope] = &[Scope::Disk];

const fn metric(
    name: &'static str,
    scopes: &'static [Scope],
    better: Better,
    meaning: &'static str,
    wrong: &'static str,
) -> Metric {
    Metric {
        name,
        scopes,
        better,
        meaning,
        source: SOURCE,
        wrong,
    }
}

const SUMMED: [Metric; 4] = [
    metric(
        "disk_read_bytes_per_s",
        BOTH,
        Better::None,
        "Bytes read; of the host: of all chosen disks.",
        "",
    ),
    metric(
        "disk_write_bytes_per_s",
        BOTH,
        Better::None,
        "Bytes written; of the host: of all chosen disks.",
        "",
    ),
    metric(
        "disk_reads_per_s",
        BOTH,
        Better::None,
        "Read requests completed; of the host: of all chosen disks.",
        "After merging: not the program's calls.",
    ),
    metric(
        "disk_writes_per_s",
        BOTH,
        Better::None,
        "Write requests completed; of the host: of all chosen disks.",
        "After merging: not the program's calls.",
    ),
];
const UTIL: Metric = metric(
    "disk_util_pct",
    BOTH,
    Better::Lower,
    "Share of time with at least one request in flight; of the host: of the busiest chosen disk.",
    "100 is not saturation where requests are served in parallel. Whole ticks: it can pass 100 a little.",
);
const QUEUE: Metric = metric(
    "disk_queue_length",
    DISK,
    Better::Lower,
    "Requests in flight, averaged over the interval.",
    "",
);
const IN_FLIGHT: Metric = metric(
    "disk_in_flight",
    DISK,
    Better::None,
    "Requests in flight at the moment of reading.",
    "",
);
const READ_AWAIT: Metric = metric(
    "disk_read_await_us",
    DISK,
    Better::Lower,
    "Mean time of a read from queueing to completion.",
    "Whole milliseconds per request: coarse on flash.",
);
const WRITE_AWAIT: Metric = metric(
    "disk_write_await_us",
    DISK,
    Better::Lower,
    "Mean time of a write from queueing to completion.",
    "Whole milliseconds per request: coarse on flash.",
);
const FLUSHES: Metric = metric(
    "disk_flushes_per_s",
    DISK,
    Better::None,
    "Cache flushes completed (issued by fsync to a disk with a write cache).",
    "Absent before Linux 5.5.",
);
const FLUSH_AWAIT: Metric = metric(
    "disk_flush_await_us",
    DISK,
    Better::Lower,
    "Mean time of a cache flush.",
    "Absent before Linux 5.5.",
);
const DISCARDS: Metric = metric(
    "disk_discards_per_s",
    DISK,
    Better::None,
    "Discard requests completed.",
    "Absent before Linux 4.18.",
);

/// The family.
pub const FAMILY: Family = Family {
    name: "disk",
    subject: Subject::Host(open),
    metrics: &[
        &SUMMED,
        &[
            UTIL,
            QUEUE,
            IN_FLIGHT,
            READ_AWAIT,
            WRITE_AWAIT,
            FLUSHES,
            FLUSH_AWAIT,
            DISCARDS,
        ],
    ],
};

/// A sector of /sys/block is 512 bytes, whatever the device's own.
const SECTOR_BYTES: f64 = 512.0;

// Columns of block/stat.rst.
const READS: usize = 0;
const READ_SECTORS: usize = 2;
const READ_MS: usize = 3;
const WRITES: usize = 4;
const WRITE_SECTORS: usize = 6;
const WRITE_MS: usize = 7;
const NOW_IN_FLIGHT: usize = 8;
const BUSY_MS: usize = 9;
const QUEUE_MS: usize = 10;
const DISCARD_COUNT: usize = 11;
const FLUSH_COUNT: usize = 15;
const FLUSH_MS: usize = 16;
const COLUMNS: usize = 17;

fn parse(content: &[u8]) -> [Option<u64>; COLUMNS] {
    let mut columns = [None; COLUMNS];
    let line = lines(content).next().unwrap_or_default();
    for (slot, word) in columns.iter_mut().zip(words(line)) {
        *slot = number(word);
    }
    columns
}

struct Watched {
    scope: String,
    file: PseudoFile,
    deltas: Deltas,
}

struct Disks(Vec<Watched>);

fn open(machine: &Machine) -> Opened {
    let disks = machine.disks.as_ref().map_err(|reason| Failure::Gone(reason.clone()))?;
    if disks.is_empty() {
        return Err(Failure::Gone("no disk was named (--disk)".into()));
    }
    let mut watched = Vec::new();
    for disk in disks {
        let file = PseudoFile::open(disk.folder.join("stat"))?;
        watched.push(Watched {
            scope: format!("disk:{}", disk.name),
            file,
            deltas: Deltas::new(COLUMNS),
        });
    }
    Ok(Box::new(Disks(watched)))
}

impl Watched {
    fn collect(
        &mut self,
        moment: &mut Moment<'_>,
        sample: &mut Sample,
    ) -> Result<([Option<f64>; 4], Option<f64>), Failure> {
        let content = self.file.read(moment.buffer)?;
        let at_ns = moment.clock.monotonic_ns();
        let mut columns = parse(content);
        let in_flight = columns[NOW_IN_FLIGHT].take();
        if columns[QUEUE_MS].is_none() {
            return Err(self.file.malformed("has fewer than eleven columns"));
        }
        self.deltas.advance(at_ns, &columns);
        moment.backwards += self.deltas.backwards();
        let deltas = &self.deltas;
        let bytes = |column| deltas.rate(column).map(|sectors| sectors * SECTOR_BYTES);
        let summed = [
            bytes(READ_SECTORS),
            bytes(WRITE_SECTORS),
            deltas.rate(READS),
            deltas.rate(WRITES),
        ];
        let util = deltas.rate(BUSY_MS).map(|rate| rate / 10.0);
        let scope = sample.scope(&self.scope);
        put_summed(scope, summed, util);
        scope.real(&QUEUE, deltas.rate(QUEUE_MS).map(|rate| rate / 1e3));
        scope.real(&IN_FLIGHT, in_flight.map(|count| count as f64));
        scope.real(&READ_AWAIT, mean_us(deltas, READ_MS, READS));
        scope.real(&WRITE_AWAIT, mean_us(deltas, WRITE_MS, WRITES));
        scope.real(&FLUSHES, deltas.rate(FLUSH_COUNT));
        scope.real(&FLUSH_AWAIT, mean_us(deltas, FLUSH_MS, FLUSH_COUNT));
        scope.real(&DISCARDS, deltas.rate(DISCARD_COUNT));
        Ok((summed, util))
    }
}

fn put_summed(scope: &mut ScopeValues, summed: [Option<f64>; 4], util: Option<f64>) {
    for (metric, value) in SUMMED.iter().zip(summed) {
        scope.real(metric, value);
    }
    scope.real(&UTIL, util);
}

/// Mean milliseconds a request as microseconds; absent when there was no request.
fn mean_us(deltas: &Deltas, time_ms: usize, count: usize) -> Option<f64> {
    deltas.pct(time_ms, count).map(|pct| pct * 10.0)
}

impl Collector for Disks {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let mut totals = [Some(0.0); 4];
        let mut busiest = Some(0.0_f64);
        let mut failed = None;
        for disk in &mut self.0 {
            // A disk that cannot be read makes the sums absent: a part of them would look like less work.
            let (summed, util) = disk.collect(moment, sample).unwrap_or_else(|failure| {
                failed = Some(failure);
                Default::default()
            });
            for (total, value) in totals.iter_mut().zip(summed) {
                *total = total.zip(value).map(|(total, value)| total + value);
            }
            busiest = busiest.zip(util).map(|(busiest, util)| busiest.max(util));
        }
        put_summed(sample.scope("host"), totals, busiest);
        failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_taken_by_place_and_old_kernels_have_fewer() {
        let columns = parse(
            b"   62815    11574  7188642    30432    43006    34049  4265648    11632        0    10708    43025\n",
        );
        assert_eq!(columns[READ_SECTORS], Some(7_188_642));
        assert_eq!(columns[QUEUE_MS], Some(43_025));
        assert_eq!(columns[FLUSH_COUNT], None);
    }

    #[test]
    fn the_mean_wait_is_absent_without_requests() {
        let mut deltas = Deltas::new(2);
        deltas.advance(0, &[Some(0), Some(0)]);
        deltas.advance(1_000_000_000, &[Some(6), Some(4)]);
        assert_eq!(mean_us(&deltas, 0, 1), Some(1500.0));
        deltas.advance(2_000_000_000, &[Some(6), Some(4)]);
        assert_eq!(mean_us(&deltas, 0, 1), None);
    }
}
