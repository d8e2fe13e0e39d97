//! `dynomem`: sustained memory bandwidth, by the four kernels that STREAM defines, in a program of our own.
//!
//! Measured: bytes that the kernels read and write, per second, while every thread works on its own piece of three
//! arrays. As STREAM counts (McCalpin, stream.c 5.10): copy and scale move two words an element, add and triad three;
//! the first repetition is discarded and the best one reported; median and worst are given beside it. Cost: a second
//! or two of all memory channels. Wrong when: the arrays fit the caches (say four times the last level or more), or
//! other programs use the memory at the same time. What the caches fetch before a write is not counted, as in STREAM.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use clap::Parser;
use nix::sched::{sched_setaffinity, CpuSet};
use nix::unistd::Pid;
use serde::Serialize;

/// Sustained memory bandwidth: copy, scale, add, triad.
#[derive(Parser)]
#[command(name = "dynomem", version, about)]
struct Arguments {
    /// CPUs to work on, one thread each: 0,1,4-7
    #[arg(long)]
    cpus: String,
    /// CPUs that first touch the memory, and so choose its NUMA node; by default those that work
    #[arg(long)]
    touch_cpus: Option<String>,
    /// Bytes of one array, all threads together
    #[arg(long, default_value_t = 256 << 20)]
    array_bytes: usize,
    /// Repetitions of each kernel; the first is discarded
    #[arg(long, default_value_t = 10)]
    repeats: usize,
}

/// Runs the program. 0: measured; 2: a wrong argument, or the measurement failed.
pub fn main() -> ExitCode {
    dyno_core::streams::abort_on_panic();
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(line) => {
            // Whoever started the program and is gone by now does not miss it.
            let _ = writeln!(dyno_core::streams::stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            dyno_core::tell!("dynomem: error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<String, String> {
    let cpus = parse_cpus(&arguments.cpus)?;
    let touch = match &arguments.touch_cpus {
        Some(list) => parse_cpus(list)?,
        None => cpus.clone(),
    };
    if arguments.repeats < 2 {
        return Err(format!(
            "--repeats {}: at least 2, because the first is discarded",
            arguments.repeats
        ));
    }
    let elements = arguments.array_bytes / size_of::<f64>() / cpus.len();
    if elements < 1024 {
        return Err(format!(
            "--array-bytes {}: too small for {} threads",
            arguments.array_bytes,
            cpus.len()
        ));
    }
    let report = measure(&cpus, &touch, elements, arguments.repeats)?;
    serde_json::to_string(&report).map_err(|error| error.to_string())
}

/// The CPUs of a list such as `0,1,4-7`, in its order.
fn parse_cpus(list: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bounds = (first.trim().parse::<usize>(), last.trim().parse::<usize>());
        match bounds {
            (Ok(first), Ok(last)) if first <= last && last < 65_536 => cpus.extend(first..=last),
            _ => return Err(format!("{list}: not a list of CPUs such as 0,1,4-7")),
        }
    }
    Ok(cpus)
}

/// Version of the report's format.
const FORMAT: u32 = 1;

/// What one kernel reached.
#[derive(Serialize)]
struct Rate {
    /// In the best repetition, which is STREAM's figure.
    best_bytes_per_s: f64,
    /// In the repetition in the middle.
    median_bytes_per_s: f64,
    /// In the worst one.
    worst_bytes_per_s: f64,
}

/// The result of one measurement.
#[derive(Serialize)]
struct Report {
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
fn measure(cpus: &[usize], touch: &[usize], elements: usize, repeats: usize) -> Result<Report, String> {
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

/// The factor of scale and triad.
const SCALAR: f64 = 3.0;

/// One of the four kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// c = a
    Copy,
    /// b = s × c
    Scale,
    /// c = a + b
    Add,
    /// a = b + s × c
    Triad,
}

impl Kernel {
    /// All four in the order in which they are run.
    const ALL: [Self; 4] = [Self::Copy, Self::Scale, Self::Add, Self::Triad];

    /// Its name in reports.
    const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Scale => "scale",
            Self::Add => "add",
            Self::Triad => "triad",
        }
    }

    /// Words of eight bytes that one element moves.
    const fn words(self) -> usize {
        match self {
            Self::Copy | Self::Scale => 2,
            Self::Add | Self::Triad => 3,
        }
    }
}

/// One thread's piece of the three arrays; whoever makes it touches its memory first.
struct Piece {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Piece {
    /// Arrays of so many elements, each page written.
    fn new(elements: usize) -> Self {
        // vec![0.0; n] would leave pages untouched (calloc); other values write them here and now.
        Self {
            a: vec![1.0; elements],
            b: vec![2.0; elements],
            c: vec![0.5; elements],
        }
    }

    /// Run one kernel over the whole piece.
    fn run(&mut self, kernel: Kernel) {
        match kernel {
            Kernel::Copy => self.c.copy_from_slice(&self.a),
            Kernel::Scale => {
                for (b, c) in self.b.iter_mut().zip(&self.c) {
                    *b = SCALAR * c;
                }
            }
            Kernel::Add => {
                for ((c, a), b) in self.c.iter_mut().zip(&self.a).zip(&self.b) {
                    *c = a + b;
                }
            }
            Kernel::Triad => {
                for ((a, b), c) in self.a.iter_mut().zip(&self.b).zip(&self.c) {
                    // Not mul_add: without the CPU feature that is a call of a slow library function.
                    *a = b + SCALAR * c;
                }
            }
        }
    }

    /// The values of one element, to be held against what the kernels must have made of it.
    fn element(&self, index: usize) -> [f64; 3] {
        [self.a[index], self.b[index], self.c[index]]
    }

    /// Number of elements.
    fn len(&self) -> usize {
        self.a.len()
    }
}

/// What every element must hold after so many rounds of the four kernels.
fn expected(rounds: usize) -> [f64; 3] {
    let mut one = Piece::new(1);
    for _ in 0..rounds {
        for kernel in Kernel::ALL {
            one.run(kernel);
        }
    }
    one.element(0)
}

#[cfg(test)]
mod tests {
    use super::parse_cpus;

    #[test]
    fn a_list_of_cpus_is_read_in_its_order() {
        assert_eq!(parse_cpus("4-6,0"), Ok(vec![4, 5, 6, 0]));
    }

    #[test]
    fn nonsense_is_refused_with_its_text() {
        for list in ["", "a", "3-1", "1-", "99999999"] {
            assert!(parse_cpus(list).unwrap_err().contains(list));
        }
    }
    use super::{expected, measure, Kernel, Piece};

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

    #[test]
    fn a_round_computes_what_the_definitions_say() {
        // a=1: copy c=1; scale b=3; add c=1+3=4; triad a=3+3*4=15
        assert_eq!(expected(1), [15.0, 3.0, 4.0]);
    }

    #[test]
    fn every_element_of_a_piece_is_worked_on() {
        let mut piece = Piece::new(1001);
        for kernel in Kernel::ALL {
            piece.run(kernel);
        }
        assert!((0..piece.len()).all(|index| piece.element(index) == expected(1)));
    }
}
