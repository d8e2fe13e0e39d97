//! A process' context switches. Measured: voluntary and involuntary switches of all threads, from
//! /proc/PID/task/*/status (proc_pid_status(5)); the process' own status has only the main thread's. Costs three system
//! calls a thread, about 14 µs: so it is read every 10 s, and more rarely the more threads there are (collector.rs). Wrong:
//! a thread that began and ended between two readings, and the last switches of one that ended, are not counted.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use crate::collector::{Collector, CostLimiter, Failure, Family, Moment, Opened, Subject};
use crate::machine::{Machine, Process};
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;
use crate::text::{labelled, lines};

const fn metric(name: &'static str, better: Better, meaning: &'static str) -> Metric {
    Metric {
        name,
        scopes: &[Scope::Instance, Scope::Driver],
        better,
        meaning,
        source: "/proc/PID/task/*/status",
        wrong: "Over ten seconds or more, in one sample of that time; too low when threads come and go.",
    }
}

const VOLUNTARY: Metric = metric(
    "voluntary_switches_per_s",
    Better::None,
    "Times that threads gave up the CPU to wait: for a lock, a disk, a client.",
);
const INVOLUNTARY: Metric = metric(
    "involuntary_switches_per_s",
    Better::Lower,
    "Times that threads were taken off the CPU though they could run.",
);

/// The family.
pub const FAMILY: Family = Family {
    name: "process_switches",
    subject: Subject::Process(open),
    metrics: &[&[VOLUNTARY, INVOLUNTARY]],
};

type Switches = [u64; 2];

fn parse(content: &[u8]) -> Option<Switches> {
    let find = |label: &[u8]| lines(content).find_map(|line| labelled(line, label));
    Some([find(b"voluntary_ctxt_switches")?, find(b"nonvoluntary_ctxt_switches")?])
}

/// Growth over all threads: one that is new began at 0 since the last reading, one that went is left out.
fn growth(before: &HashMap<u64, Switches>, now: &HashMap<u64, Switches>) -> Switches {
    let mut sum = [0; 2];
    for (thread, switches) in now {
        let earlier = before.get(thread).copied().unwrap_or_default();
        for (total, (now, earlier)) in sum.iter_mut().zip(switches.iter().zip(earlier)) {
            // A number that was used again starts at 0, below what the thread before it had.
            *total += now.checked_sub(earlier).unwrap_or(*now);
        }
    }
    sum
}

struct ProcessSwitches {
    scope: String,
    prefix: &'static str,
    folder: PathBuf,
    limiter: CostLimiter,
    before: Option<(u64, HashMap<u64, Switches>)>,
}

fn open(machine: &Machine, process: &Process) -> Opened {
    let folder = process.folder(machine).join("task");
    fs::read_dir(&folder).map_err(|error| Failure::Gone(format!("{}: {error}", folder.display())))?;
    let (scope, prefix) = (process.scope(), process.prefix());
    Ok(Box::new(ProcessSwitches {
        scope,
        prefix,
        folder,
        limiter: CostLimiter::default(),
        before: None,
    }))
}

impl ProcessSwitches {
    fn read(folder: &PathBuf, buffer: &mut Vec<u8>) -> Result<HashMap<u64, Switches>, Failure> {
        let entries = fs::read_dir(folder).map_err(|error| Failure::Gone(format!("{}: {error}", folder.display())))?;
        let mut threads = HashMap::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(thread) = crate::text::number(name.as_encoded_bytes()) else {
                continue;
            };
            // A thread may end between the listing and the reading.
            let Ok(file) = PseudoFile::open(entry.path().join("status")) else {
                continue;
            };
            let Ok(content) = file.read(buffer) else {
                continue;
            };
            if let Some(switches) = parse(content) {
                threads.insert(thread, switches);
            }
        }
        if threads.is_empty() {
            return Err(Failure::Unreadable(format!(
                "{} has no readable thread",
                folder.display()
            )));
        }
        Ok(threads)
    }
}

impl Collector for ProcessSwitches {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let at_ns = moment.clock.monotonic_ns();
        let folder = &self.folder;
        let Some((threads, _)) = self.limiter.run(at_ns, || Self::read(folder, moment.buffer)) else {
            return Ok(());
        };
        let threads = threads?;
        if let Some((before_ns, before)) = &self.before {
            let elapsed_s = at_ns.saturating_sub(*before_ns) as f64 / 1e9;
            let scope = sample.scope(&self.scope);
            for (metric, switches) in [VOLUNTARY, INVOLUNTARY].iter().zip(growth(before, &threads)) {
                scope.of_process(self.prefix, metric, Some(switches as f64 / elapsed_s));
            }
        }
        self.before = Some((at_ns, threads));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_counts_are_read_and_not_mixed_up() {
        let text = b"Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(parse(text), Some([12, 3]));
        assert_eq!(parse(b"voluntary_ctxt_switches:\t12\n"), None);
    }

    #[test]
    fn new_threads_count_from_zero_and_ended_ones_do_not_make_it_negative() {
        let before = HashMap::from([(1, [100, 10]), (2, [50, 5]), (3, [9, 9])]);
        let now = HashMap::from([(1, [110, 11]), (3, [2, 1]), (4, [7, 1])]);
        assert_eq!(growth(&before, &now), [10 + 2 + 7, 1 + 1 + 1]);
    }
}
