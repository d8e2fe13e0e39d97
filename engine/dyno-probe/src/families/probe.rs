//! The probe itself. Measured: its own CPU time, all threads, user and kernel, by getrusage(2). Costs one system call.
//! Wrong: what the server spends on answering the probe, and what interrupts spend on its packets, is not in it.

use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::time::TimeValLike;

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::deltas::Deltas;
use crate::machine::Machine;
use crate::metric::{Better, Metric, Scope};
use crate::sample::Sample;

const CPU: Metric = Metric {
    name: "probe_cpu_pct",
    scopes: &[Scope::Host],
    better: Better::Lower,
    meaning: "CPU time of dynoprobe itself, user and kernel; one core busy is 100.",
    source: "getrusage(2)",
    wrong: "Excludes the CPU time that the server spends on replies.",
};

/// The family.
pub const FAMILY: Family = Family {
    name: "probe",
    subject: Subject::Host(open),
    metrics: &[&[CPU]],
};

/// User and system CPU time of this process in microseconds.
pub fn own_cpu_us() -> Option<[u64; 2]> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let whole = |microseconds: i64| u64::try_from(microseconds).ok();
    Some([
        whole(usage.user_time().num_microseconds())?,
        whole(usage.system_time().num_microseconds())?,
    ])
}

struct Probe(Deltas);

fn open(_machine: &Machine) -> Opened {
    Ok(Box::new(Probe(Deltas::new(1))))
}

impl Collector for Probe {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let used = own_cpu_us().map(|[user, system]| user + system);
        self.0.advance(moment.clock.monotonic_ns(), &[used]);
        sample.scope("host").real(&CPU, self.0.rate(0).map(|rate| rate / 1e4));
        Ok(())
    }
}
