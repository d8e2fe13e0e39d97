//! `dynomem`: sustained memory bandwidth, by the four kernels that STREAM defines, in a program of our own.
//!
//! Measured: bytes that the kernels read and write, per second, while every thread works on its own piece of three
//! arrays. As STREAM counts (McCalpin, stream.c 5.10): copy and scale move two words an element, add and triad three;
//! the first repetition is discarded and the best one reported; median and worst are given beside it. Cost: a second
//! or two of all memory channels. Wrong when: the arrays fit the caches (say four times the last level or more), or
//! other programs use the memory at the same time. What the caches fetch before a write is not counted, as in STREAM.

mod kernels;
mod measure;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

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
    dyno_core::panics::abort_on_panic();
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
    let report = measure::measure(&cpus, &touch, elements, arguments.repeats)?;
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
}
