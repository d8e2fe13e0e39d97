//! A warning where a load of short connections uses up the local ports.

use dyno_core::local_ports::LocalPorts;
use dyno_loop::{Address, LoadSettings, Think};

use super::settings::SqlSettings;

/// New connections a second that one connection of a closed loop makes at least: 5 ms each, which few servers need.
const MODEST_PER_S: f64 = 200.0;

/// Warns where every transaction is a connection, and there are too few ports for them.
pub fn warn(settings: &SqlSettings) {
    let Address::Tcp(server) = settings.load.address else {
        return;
    };
    if !settings.connects_each_time() {
        return;
    }
    let (per_s, duration_s) = expected(&settings.load);
    let shortage = LocalPorts::read().and_then(|ports| ports.shortage(server, per_s, duration_s));
    if let Some(shortage) = shortage {
        let each = match settings.load.shape.schedule {
            Some(_) => String::new(),
            None => format!(" at only {MODEST_PER_S:.0} a second on each connection,"),
        };
        dyno_core::tell!("dynoload: warning: workload connect:{each} {shortage}");
    }
}

/// New connections a second, and for how long. Those of a closed loop are not known: at least so many.
fn expected(load: &LoadSettings) -> (f64, f64) {
    let duration_s = (load.shape.warmup_ns + load.shape.duration_ns) as f64 / 1e9;
    let pause_s = match load.think {
        Think::No => 0.0,
        Think::Constant { pause_ns: ns } | Think::Exponential { mean_ns: ns } => ns as f64 / 1e9,
    };
    let per_s = match &load.shape.schedule {
        Some(schedule) => schedule.operations_by(duration_s) / duration_s,
        None => f64::from(load.shape.connections) / (1.0 / MODEST_PER_S + pause_s),
    };
    (per_s, duration_s)
}
