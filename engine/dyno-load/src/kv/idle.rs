//! idle_timeout: memcached closes connections without a request for so long, and no client can switch that off. A load that
//! would leave connections idle for longer is refused; it would measure lost connections.

use std::collections::VecDeque;
use std::sync::Arc;

use dyno_core::schedule::{ArrivalCursor, ArrivalSchedule};
use dyno_loop::Think;

use super::settings::KvSettings;
use crate::error::Error;

/// Planned operations that are looked at: the first ones, some milliseconds of CPU time.
const LOOKED_AT: u64 = 1 << 20;
/// One exponential pause in 22,000 is longer than so many means.
const MEANS: u64 = 10;
/// Slices are held for as long as others are loaded, which the caller decides.
const HOLD_S: f64 = 3600.0;

/// Refuses a load that `idle_timeout_s` of the server would cut; 0: the server has none. `holds`: connections of slices.
///
/// # Errors
/// With both times, and what to change.
pub fn check(settings: &KvSettings, idle_timeout_s: u64, holds: bool) -> Result<(), Error> {
    let idle_s = if holds { HOLD_S } else { longest_idle_s(settings) };
    if idle_timeout_s == 0 || idle_s < idle_timeout_s as f64 {
        return Ok(());
    }
    let why = if holds {
        "between slices they are idle for as long as other servers are loaded; start it without -o idle_timeout".into()
    } else {
        format!(
            "this load leaves them idle for up to {idle_s:.1} s; take fewer --connections, a higher --rate or a shorter \
             --think-time, or start it without -o idle_timeout"
        )
    };
    Err(Error::Server(format!(
        "the memcached at {} closes connections that are idle for {idle_timeout_s} s: {why}",
        settings.endpoint
    )))
}

/// How long a connection may be without a request while the load runs.
fn longest_idle_s(settings: &KvSettings) -> f64 {
    let (shape, think) = (&settings.load.shape, settings.load.think);
    let whole_ns = shape.warmup_ns + shape.duration_ns;
    let idle_ns = match (&shape.schedule, think) {
        (Some(plan), _) => longest_gap_ns(plan, shape.connections as usize * settings.depth as usize, whole_ns),
        (None, Think::Constant { pause_ns }) => pause_ns,
        (None, Think::Exponential { mean_ns }) => MEANS * mean_ns,
        (None, Think::No) => 0,
    };
    idle_ns.min(whole_ns) as f64 / 1e9
}

/// The longest time from one operation to the next of the same place: each is taken by the place that is free longest.
fn longest_gap_ns(plan: &Arc<ArrivalSchedule>, places: usize, whole_ns: u64) -> u64 {
    let mut cursor = ArrivalCursor::new(Arc::clone(plan), 0, 1);
    let mut last_of_places: VecDeque<u64> = std::iter::repeat_n(0, places).collect();
    let mut longest_ns = 0;
    for _ in 0..LOOKED_AT {
        let at_ns = cursor.next_arrival().intended_ns.min(whole_ns);
        longest_ns = longest_ns.max(at_ns - last_of_places.pop_front().unwrap_or(0));
        last_of_places.push_back(at_ns);
        if at_ns == whole_ns {
            // From now on no place gets another one.
            break;
        }
    }
    longest_ns
}

#[cfg(test)]
mod tests {
    use dyno_core::schedule::Arrivals;

    use super::*;

    fn gap_s(rate: &str, places: usize, whole_s: u64) -> f64 {
        let plan = ArrivalSchedule::parse(rate, Arrivals::Constant, 1).unwrap();
        longest_gap_ns(&Arc::new(plan), places, whole_s * 1_000_000_000) as f64 / 1e9
    }

    #[test]
    fn a_place_is_idle_until_all_others_have_had_their_turn() {
        assert_eq!(gap_s("1", 16, 60), 16.0);
        assert_eq!(gap_s("10", 16, 60), 1.6);
        assert_eq!(gap_s("1000", 16, 60), 0.016);
        // No connection is idle for longer than the load lasts.
        assert_eq!(gap_s("1", 100, 60), 60.0);
        // It counts where the rate is least.
        assert_eq!(gap_s("100@10s,0@20s,100", 1, 60), 20.01);
    }
}
