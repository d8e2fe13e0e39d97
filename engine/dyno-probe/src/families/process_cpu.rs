//! A process' CPU and faults. Measured: CPU time, page faults and threads of one process, from /proc/PID/stat
//! (proc_pid_stat(5)). Costs one read, in which the kernel adds up all threads: about 4 µs and 0.03 µs a thread. Wrong:
//! times are in ticks of mostly 10 ms; children of the process do not count.

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::deltas::Deltas;
use crate::machine::{Machine, Process};
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;
use crate::text::{number, words};

const fn metric(name: &'static str, better: Better, meaning: &'static str, wrong: &'static str) -> Metric {
    Metric {
        name,
        scopes: &[Scope::Instance, Scope::Driver],
        better,
        meaning,
        source: "/proc/PID/stat",
        wrong,
    }
}

const TICKS: &str = "In ticks, mostly of 10 ms: 1 % of a core at 1 s.";
const USER: Metric = metric(
    "cpu_user_pct",
    Better::None,
    "User CPU time of the process; one core busy is 100.",
    TICKS,
);
const SYSTEM: Metric = metric(
    "cpu_system_pct",
    Better::None,
    "CPU time of the process in the kernel; one core busy is 100.",
    TICKS,
);
const MINOR: Metric = metric(
    "minor_faults_per_s",
    Better::None,
    "Page faults served without a disk; includes memory that an allocator returned and used again.",
    "",
);
const MAJOR: Metric = metric(
    "major_faults_per_s",
    Better::Lower,
    "Page faults that had to read from a disk.",
    "",
);
const THREADS: Metric = metric("threads", Better::None, "Threads of the process.", "");

/// The family.
pub const FAMILY: Family = Family {
    name: "process_cpu",
    subject: Subject::Process(open),
    metrics: &[&[USER, SYSTEM, MINOR, MAJOR, THREADS]],
};

#[derive(Debug, PartialEq)]
struct Stat {
    state: u8,
    /// Minor faults, major faults, user ticks, system ticks.
    counters: [Option<u64>; 4],
    threads: Option<u64>,
}

/// Fields after the name, which may itself hold blanks and brackets: the last `)` ends it.
fn parse(content: &[u8]) -> Option<Stat> {
    let end = content.iter().rposition(|byte| *byte == b')')?;
    let mut fields = words(content.get(end + 1..)?);
    let state = *fields.next()?.first()?;
    let mut field = |skip: usize| fields.nth(skip).and_then(number);
    // Fields 10, 12, 14, 15 and 20 of proc_pid_stat(5); the state is field 3.
    let counters = [field(6), field(1), field(1), field(0)];
    let threads = field(4);
    counters[3]?;
    Some(Stat {
        state,
        counters,
        threads,
    })
}

struct ProcessCpu {
    process: Process,
    scope: String,
    file: PseudoFile,
    deltas: Deltas,
    ticks_per_s: f64,
}

fn open(machine: &Machine, process: &Process) -> Opened {
    let file = PseudoFile::open(process.folder(machine).join("stat"))?;
    Ok(Box::new(ProcessCpu {
        process: process.clone(),
        scope: process.scope(),
        file,
        deltas: Deltas::new(4),
        ticks_per_s: machine.ticks_per_s,
    }))
}

impl Collector for ProcessCpu {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let content = self.file.read(moment.buffer)?;
        let at_ns = moment.clock.monotonic_ns();
        let stat = parse(content).ok_or_else(|| self.file.malformed("is not as proc_pid_stat(5) says"))?;
        if matches!(stat.state, b'Z' | b'X') {
            return Err(Failure::Gone(format!(
                "process {} has ended (state {})",
                self.process.pid, stat.state as char
            )));
        }
        self.deltas.advance(at_ns, &stat.counters);
        moment.backwards += self.deltas.backwards();
        let role = self.process.prefix();
        let scope = sample.scope(&self.scope);
        let cpu = |index| self.deltas.rate(index).map(|ticks| 100.0 * ticks / self.ticks_per_s);
        scope.of_process(role, &USER, cpu(2));
        scope.of_process(role, &SYSTEM, cpu(3));
        scope.of_process(role, &MINOR, self.deltas.rate(0));
        scope.of_process(role, &MAJOR, self.deltas.rate(1));
        scope.of_process(role, &THREADS, stat.threads.map(|count| count as f64));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let text = b"77 (a) b (c) S 1 2 3 4 5 6 1000 7 20 8 300 40 9 9 20 0 15 0 100 200 300";
        let stat = parse(text).unwrap();
        assert_eq!(
            stat,
            Stat {
                state: b'S',
                counters: [Some(1000), Some(20), Some(300), Some(40)],
                threads: Some(15)
            }
        );
    }

    #[test]
    fn a_short_or_empty_file_is_not_understood() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 (x) S 1 2"), None);
        assert_eq!(parse(b"1 (x)"), None);
    }
}
