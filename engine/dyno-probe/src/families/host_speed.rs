//! The host's speed at this moment. Measured: CPU time of a fixed small unit of work, by the speed meter
//! (`--speed-meter`), over the units since the sample before. Costs nothing here; the meter's own cost is in
//! `probe_cpu_pct`. Wrong: see [`crate::speed`].

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::machine::Machine;
use crate::metric::{Better, Metric, Scope};
use crate::sample::Sample;
use crate::speed::{SpeedMeter, Totals};

const UNIT: Metric = Metric {
    name: "speed_unit_ns",
    scopes: &[Scope::Host],
    better: Better::Lower,
    meaning:
        "Mean CPU time of a fixed small unit of work (integers, loads from the cache and from memory), run on every \
              CPU every 32 ms: larger while the host is slower. The meter takes 0.4 % of one core in all (measured).",
    source: "dynoprobe --speed-meter: CLOCK_THREAD_CPUTIME_ID, clock_gettime(2)",
    wrong:
        "Includes the effects of this host's own load on the other hardware thread, the memory bus and the frequency.",
};

/// The family.
pub const FAMILY: Family = Family {
    name: "host_speed",
    subject: Subject::Host(open),
    metrics: &[&[UNIT]],
};

struct Speed {
    meter: SpeedMeter,
    before: Totals,
}

fn open(machine: &Machine) -> Opened {
    match &machine.speed_meter {
        Err(reason) => Err(Failure::Gone(reason.clone())),
        Ok(meter) => Ok(Box::new(Speed {
            meter: meter.clone(),
            before: meter.totals(),
        })),
    }
}

impl Collector for Speed {
    fn collect(&mut self, _moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let now = self.meter.totals();
        sample.scope("host").real(&UNIT, now.unit_ns_since(self.before));
        self.before = now;
        Ok(())
    }
}
