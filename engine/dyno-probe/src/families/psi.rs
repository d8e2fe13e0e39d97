//! Pressure stall information. Measured: the share of time in which tasks waited for CPU, memory or I/O, from the
//! `total` of /proc/pressure/* (kernel: accounting/psi.rst). Costs a read of two lines each. Wrong: absent before Linux
//! 4.20, without CONFIG_PSI, or with psi=0; the whole host's tasks count, the load program's too.

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::deltas::Deltas;
use crate::machine::Machine;
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;
use crate::text::{lines, number, words};

const fn metric(name: &'static str, source: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        scopes: &[Scope::Host],
        better: Better::Lower,
        meaning,
        source,
        wrong: "Counts all tasks of the host.",
    }
}

const CPU: Metric = metric(
    "psi_cpu_some_pct",
    "/proc/pressure/cpu",
    "Share of time in which at least one task waited for a CPU.",
);
const MEMORY: [Metric; 2] = [
    metric(
        "psi_memory_some_pct",
        "/proc/pressure/memory",
        "Share of time in which at least one task waited for memory.",
    ),
    metric(
        "psi_memory_full_pct",
        "/proc/pressure/memory",
        "Share of time in which all tasks that were not idle waited for memory.",
    ),
];
const IO: [Metric; 2] = [
    metric(
        "psi_io_some_pct",
        "/proc/pressure/io",
        "Share of time in which at least one task waited for I/O.",
    ),
    metric(
        "psi_io_full_pct",
        "/proc/pressure/io",
        "Share of time in which all tasks that were not idle waited for I/O.",
    ),
];

/// The family. The host's `full` line for CPU is always 0 (psi.rst) and is not reported.
pub const FAMILY: Family = Family {
    name: "psi",
    subject: Subject::Host(open),
    metrics: &[&[CPU], &MEMORY, &IO],
};

/// Microseconds in total of the lines `some` and `full`.
pub fn parse(content: &[u8]) -> [Option<u64>; 2] {
    let mut totals = [None; 2];
    for line in lines(content) {
        let mut words = words(line);
        let slot = match words.next() {
            Some(b"some") => 0,
            Some(b"full") => 1,
            _ => continue,
        };
        totals[slot] = words.find_map(|word| word.strip_prefix(b"total=")).and_then(number);
    }
    totals
}

struct Psi {
    files: [(PseudoFile, Deltas, &'static [Metric]); 3],
}

fn open(machine: &Machine) -> Opened {
    let pressure = |name: &str| {
        PseudoFile::open(machine.proc_root.join("pressure").join(name)).map_err(|failure| {
            Failure::Gone(format!(
                "{failure}; it needs Linux 4.20 or later with CONFIG_PSI, and not psi=0"
            ))
        })
    };
    let files = [
        (pressure("cpu")?, Deltas::new(2), &[CPU] as &[Metric]),
        (pressure("memory")?, Deltas::new(2), &MEMORY),
        (pressure("io")?, Deltas::new(2), &IO),
    ];
    Ok(Box::new(Psi { files }))
}

impl Collector for Psi {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let host = sample.scope("host");
        for (file, deltas, metrics) in &mut self.files {
            let totals = parse(file.read(moment.buffer)?);
            deltas.advance(moment.clock.monotonic_ns(), &totals);
            moment.backwards += deltas.backwards();
            for (index, metric) in metrics.iter().enumerate() {
                // Microseconds per second / 10^6 × 100 %.
                host.real(metric, deltas.rate(index).map(|rate| rate / 1e4));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_of_both_lines_are_read() {
        let text =
            b"some avg10=0.10 avg60=0.35 avg300=0.23 total=3590011\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse(text), [Some(3_590_011), Some(7)]);
        assert_eq!(parse(b"some avg10=0.1 total=\n"), [None, None]);
    }
}
