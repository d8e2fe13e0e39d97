//! script_held: a script slept, waited or computed on a thread that serves several connections.

use super::{Finding, QualityInputs, RunQuality};

/// Share of the threads' time that a script may wait on them.
const MOST_WAITING: f64 = 0.05;

/// The same that it may compute.
const MOST_COMPUTING: f64 = 0.5;

/// SUSPECT when scripts waited for more than 5 % of the threads' time, or held them for more than half: meanwhile the other
/// connections of the thread did nothing, and their answers were not read.
pub fn judge(inputs: &QualityInputs<'_>) -> Option<Finding> {
    let own = inputs.own_sql.as_ref()?;
    let usage = inputs.measured.usage;
    let thread_s = inputs.duration_s * f64::from(inputs.threads);
    let without_cpu = own.held_s - usage.cpu_wait_us as f64 / 1e6;
    let held = without_cpu / thread_s;
    let waiting = held - usage.cpu_us() as f64 / 1e6 / thread_s;
    if !own.threads_are_shared || (waiting <= MOST_WAITING && held <= MOST_COMPUTING) {
        return None;
    }
    let how = if waiting > MOST_WAITING {
        "asleep or waiting (usleep, os.execute, a further connection)"
    } else {
        "computing"
    };
    Some(Finding {
        rule: "script_held",
        level: RunQuality::Suspect,
        reason: format!(
            "the script held its thread for {:.0} % of the time, {how}: meanwhile the thread's other connections did \
             nothing, and latencies hold that; use --threads with one thread for each connection, or --think-time in place \
             of a sleep",
            own.held_s / thread_s * 100.0
        ),
    })
}
