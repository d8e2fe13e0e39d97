//! Host CPU. Measured: where all CPUs spent their time, and what the scheduler did, from /proc/stat (kernel:
//! filesystems/proc.rst, "Miscellaneous kernel statistics"). Costs one read, longer with more CPUs and interrupt
//! sources. Wrong: in ticks of mostly 10 ms, so a share of a second on few CPUs is coarse; in a guest without steal
//! accounting, time taken by the hypervisor looks like work.

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::deltas::Deltas;
use crate::machine::Machine;
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;
use crate::text::{lines, number, words};

const fn metric(name: &'static str, better: Better, meaning: &'static str, wrong: &'static str) -> Metric {
    Metric {
        name,
        scopes: &[Scope::Host],
        better,
        meaning,
        source: "/proc/stat",
        wrong,
    }
}

const USER: Metric = metric(
    "cpu_user_pct",
    Better::None,
    "Share of all CPUs' time in user space, niced work and guests included; all CPUs busy is 100.",
    "",
);
const SYSTEM: Metric = metric(
    "cpu_system_pct",
    Better::None,
    "Share of all CPUs' time in the kernel, interrupts included, as sar's %system.",
    "Network processing is charged to the interrupted task.",
);
const INTERRUPT: Metric = metric(
    "cpu_interrupt_pct",
    Better::None,
    "Share of all CPUs' time in hard and soft interrupts; a part of cpu_system_pct.",
    "0 on kernels without interrupt time accounting.",
);
const IOWAIT: Metric = metric(
    "cpu_iowait_pct",
    Better::Lower,
    "Share of all CPUs' time idle while a task of that CPU waited for a disk.",
    "A busy CPU has no I/O wait however long tasks wait: pressure (psi_io_some_pct) is more informative.",
);
const STEAL: Metric = metric(
    "cpu_steal_pct",
    Better::Lower,
    "Share of all CPUs' time that the hypervisor used for other virtual machines.",
    "0 when the hypervisor does not report it.",
);
const IDLE: Metric = metric(
    "cpu_idle_pct",
    Better::None,
    "Share of all CPUs' time with nothing to do.",
    "",
);
const SWITCHES: Metric = metric(
    "context_switches_per_s",
    Better::None,
    "Context switches of all CPUs.",
    "",
);
const INTERRUPTS: Metric = metric("interrupts_per_s", Better::None, "Hard interrupts serviced.", "");
const FORKS: Metric = metric("forks_per_s", Better::None, "Processes and threads created.", "");
const RUNNING: Metric = metric(
    "processes_running",
    Better::None,
    "Threads running or ready to run.",
    "Counts the probe itself.",
);
const BLOCKED: Metric = metric(
    "processes_blocked",
    Better::Lower,
    "Threads waiting in uninterruptible sleep, mostly for a disk.",
    "",
);

/// The family.
pub const FAMILY: Family = Family {
    name: "host_cpu",
    subject: Subject::Host(open),
    metrics: &[&[
        USER, SYSTEM, INTERRUPT, IOWAIT, STEAL, IDLE, SWITCHES, INTERRUPTS, FORKS, RUNNING, BLOCKED,
    ]],
};

const TIMES: usize = 8;

/// What /proc/stat says: the eight times of the `cpu` line (user, nice, system, idle, iowait, irq, softirq, steal;
/// guest time is within user and nice), then context switches, interrupts, forks; and the two gauges.
#[derive(Debug, Default, PartialEq)]
struct Stat {
    counters: [Option<u64>; TIMES + 3],
    running: Option<u64>,
    blocked: Option<u64>,
}

fn parse(content: &[u8]) -> Option<Stat> {
    let mut stat = Stat::default();
    for line in lines(content) {
        let mut words = words(line);
        match words.next() {
            Some(b"cpu") => {
                for (slot, word) in stat.counters[..TIMES].iter_mut().zip(&mut words) {
                    *slot = number(word);
                }
            }
            Some(b"ctxt") => stat.counters[TIMES] = words.next().and_then(number),
            Some(b"intr") => stat.counters[TIMES + 1] = words.next().and_then(number),
            Some(b"processes") => stat.counters[TIMES + 2] = words.next().and_then(number),
            Some(b"procs_running") => stat.running = words.next().and_then(number),
            Some(b"procs_blocked") => stat.blocked = words.next().and_then(number),
            _ => {}
        }
    }
    stat.counters[0].is_some().then_some(stat)
}

struct HostCpu {
    file: PseudoFile,
    deltas: Deltas,
}

fn open(machine: &Machine) -> Opened {
    let file = PseudoFile::open(machine.proc_root.join("stat"))?;
    Ok(Box::new(HostCpu {
        file,
        deltas: Deltas::new(TIMES + 3),
    }))
}

impl Collector for HostCpu {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let content = self.file.read(moment.buffer)?;
        let at_ns = moment.clock.monotonic_ns();
        let stat = parse(content).ok_or_else(|| self.file.malformed("has no cpu line"))?;
        self.deltas.advance(at_ns, &stat.counters);
        moment.backwards += self.deltas.backwards();
        let host = sample.scope("host");
        let change = |index: usize| self.deltas.change(index);
        // A kernel before 2.6.11 has no steal column: absent times are left out of the total, present ones must all be
        // known.
        let known = stat.counters[..TIMES].iter().filter(|time| time.is_some()).count();
        let total: Option<u64> = (0..known).map(change).sum();
        let share = |indexes: &[usize]| {
            let part: u64 = indexes.iter().map(|index| change(*index)).sum::<Option<u64>>()?;
            let total = total.filter(|total| *total > 0)?;
            Some(100.0 * part as f64 / total as f64)
        };
        host.real(&USER, share(&[0, 1]));
        host.real(&SYSTEM, share(&[2, 5, 6]));
        host.real(&INTERRUPT, share(&[5, 6]));
        host.real(&IOWAIT, share(&[4]));
        host.real(&STEAL, share(&[7]));
        host.real(&IDLE, share(&[3]));
        host.real(&SWITCHES, self.deltas.rate(TIMES));
        host.real(&INTERRUPTS, self.deltas.rate(TIMES + 1));
        host.real(&FORKS, self.deltas.rate(TIMES + 2));
        host.real(&RUNNING, stat.running.map(|count| count as f64));
        host.real(&BLOCKED, stat.blocked.map(|count| count as f64));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_line_and_the_scheduler_lines_are_read() {
        let stat = parse(b"cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 9 9 9\nintr 77 1 2\nctxt 55\nbtime 1\nprocesses 12\nprocs_running 3\nprocs_blocked 1\n")
            .unwrap();
        assert_eq!(stat.counters[..TIMES], [1, 2, 3, 4, 5, 6, 7, 8].map(Some));
        assert_eq!(stat.counters[TIMES..], [Some(55), Some(77), Some(12)]);
        assert_eq!((stat.running, stat.blocked), (Some(3), Some(1)));
    }

    #[test]
    fn a_file_without_cpu_line_is_not_understood() {
        assert_eq!(parse(b"ctxt 5\n"), None);
        assert_eq!(parse(b""), None);
    }
}
