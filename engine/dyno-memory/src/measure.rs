//! Threads, each on its CPU with its piece of the arrays, work in step; the slowest sets the time of a repetition.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use nix::sched::{sched_setaffinity, CpuSet};
use nix::unistd::Pid;
use serde::Serialize;

use crate::kernels::{expected, Kernel, Piece};

/// Version of the report's format.
const FORMAT: u32 = 1;

/// What one kernel reached.
#[derive(Serialize)]
pub struct Rate {
    /// In the best repetition, which is STREAM's figure.
    pub best_bytes_per_s: f64,
    /// In the repetition in the middle.
    pub median_bytes_per_s: f64,
    /// In the worst one.
    pub worst_bytes_per_s: f64,
}

/// The result of one measurement.
#[derive(Serialize)]
pub struct Report {
    format: u32,
    threads: usize,
    array_bytes: usize,
    repeats: usize,
    kernels: BTreeMap<&'static str, Rate>,
}

/// Run the kernels on the CPUs, one thread each, over memory first touched by `touch` (taken in turn).
///
/// Each thread works on `elements` elements of each array. Says so where a CPU cannot be used, and where an element
/// does not hold what the kernels must have computed.
pub fn measure(cpus: &[usize], touch: &[usize], elements: usize, repeats: usize) -> Result<Report, String> {
    let barrier = Barrier::new(cpus.len());
    let times = thread::scope(|scope| {
        let workers: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(index, &cpu)| {
                let (barrier, touch_cpu) = (&barrier, touch[index % touch.len()]);
                scope.spawn(move || work(barrier, cpu, touch_cpu, elements, repeats))
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect::<Result<Vec<_>, String>>()
    })?;
    let array_bytes = elements * cpus.len() * size_of::<f64>();
    let kernels = Kernel::ALL
        .iter()
        .enumerate()
        .map(|(index, kernel)| {
            let bytes = (kernel.words() * array_bytes) as f64;
            let mut rates: Vec<f64> = (1..repeats)
                .map(|round| bytes / duration_s(times.iter().map(|thread| thread[round][index])))
                .collect();
            rates.sort_by(f64::total_cmp);
            let rate = Rate {
                best_bytes_per_s: rates[rates.len() - 1],
                median_bytes_per_s: rates[rates.len() / 2],
                worst_bytes_per_s: rates[0],
            };
            (kernel.name(), rate)
        })
        .collect();
    Ok(Report {
        format: FORMAT,
        threads: cpus.len(),
        array_bytes,
        repeats,
        kernels,
    })
}

/// From the first thread's begin to the last one's end: a thread that woke late must not shorten the time.
fn duration_s(spans: impl Iterator<Item = Span>) -> f64 {
    let (begins, ends): (Vec<_>, Vec<_>) = spans.map(|span| (span.began, span.ended)).unzip();
    match (begins.into_iter().min(), ends.into_iter().max()) {
        (Some(began), Some(ended)) => (ended - began).as_secs_f64(),
        _ => f64::NAN,
    }
}

/// One thread's work on one kernel.
#[derive(Clone, Copy)]
struct Span {
    began: Instant,
    ended: Instant,
}

/// One thread: when it worked on each kernel in each repetition.
fn work(
    barrier: &Barrier,
    cpu: usize,
    touch_cpu: usize,
    elements: usize,
    repeats: usize,
) -> Result<Vec<Vec<Span>>, String> {
    let pinned = pin(touch_cpu);
    let mut piece = Piece::new(elements);
    let pinned = pinned.and_then(|()| pin(cpu));
    let mut rounds = Vec::with_capacity(repeats);
    // A thread that could not be pinned keeps in step all the same: the others would wait for it for ever.
    for _ in 0..repeats {
        let mut spans = Vec::with_capacity(Kernel::ALL.len());
        for kernel in Kernel::ALL {
            barrier.wait();
            let began = Instant::now();
            black_box(&mut piece).run(black_box(kernel));
            let ended = Instant::now();
            barrier.wait();
            spans.push(Span { began, ended });
        }
        rounds.push(spans);
    }
    pinned?;
    let wanted = expected(repeats);
    for index in [0, piece.len() / 2, piece.len() - 1] {
        if piece.element(index) != wanted {
            return Err(format!(
                "element {index} contains {:?}, not {wanted:?}",
                piece.element(index)
            ));
        }
    }
    Ok(rounds)
}

fn pin(cpu: usize) -> Result<(), String> {
    if cpu >= CpuSet::count() {
        return Err(format!("CPU {cpu}: beyond {}", CpuSet::count()));
    }
    let mut set = CpuSet::new();
    set.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| format!("CPU {cpu} cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::measure;

    #[test]
    fn rates_are_ordered_and_above_zero() {
        let report = measure(&[0], &[0], 1 << 16, 3).expect("CPU 0 is there");
        assert_eq!(report.kernels.len(), 4);
        for rate in report.kernels.values() {
            assert!(rate.worst_bytes_per_s > 0.0);
            assert!(rate.best_bytes_per_s >= rate.median_bytes_per_s);
            assert!(rate.median_bytes_per_s >= rate.worst_bytes_per_s);
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let words = measure(&[0, 1023], &[0], 1 << 12, 2)
            .err()
            .expect("CPU 1023 is not there");
        assert!(words.contains("CPU 1023"), "{words}");
    }
}
