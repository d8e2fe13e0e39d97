//! Files of one `key value` a line (/proc/meminfo, /proc/vmstat, /proc/PID/status): one table says which keys become
//! which metrics.

use crate::collector::{Collector, Failure, Moment, Opened};
use crate::deltas::Deltas;
use crate::machine::{Machine, Process};
use crate::metric::Metric;
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;
use crate::text::{lines, number, words};

/// How a key's number becomes a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Take {
    /// The number, times a factor (1024 for kB).
    Gauge(f64),
    /// The growth a second, times a factor.
    Rate(f64),
}

/// One key and its metric.
#[derive(Debug, Clone, Copy)]
pub struct Keyed {
    /// As in the file, without a colon.
    pub key: &'static str,
    /// What becomes of the number.
    pub take: Take,
    /// The metric.
    pub metric: Metric,
}

/// The metrics of a table, for a family's list.
pub const fn metrics_of<const N: usize>(table: &[Keyed; N]) -> [Metric; N] {
    let mut metrics = [table[0].metric; N];
    let mut index = 1;
    while index < N {
        metrics[index] = table[index].metric;
        index += 1;
    }
    metrics
}

/// Reads such a file by its table.
#[derive(Debug)]
pub struct KeyedFile {
    file: PseudoFile,
    table: &'static [Keyed],
    current: Vec<Option<u64>>,
    deltas: Deltas,
}

impl KeyedFile {
    /// Reads `file` by `table`.
    pub fn new(file: PseudoFile, table: &'static [Keyed]) -> Self {
        Self {
            file,
            table,
            current: vec![None; table.len()],
            deltas: Deltas::new(table.len()),
        }
    }

    /// Reads once and hands each metric that is there to `put`.
    ///
    /// # Errors
    /// When the file cannot be read, or holds none of the keys.
    pub fn read(&mut self, moment: &mut Moment<'_>, mut put: impl FnMut(&Metric, Option<f64>)) -> Result<(), Failure> {
        let content = self.file.read(moment.buffer)?;
        let at_ns = moment.clock.monotonic_ns();
        parse(content, self.table, &mut self.current);
        if self.current.iter().all(Option::is_none) {
            return Err(self.file.malformed("has none of the expected keys"));
        }
        self.deltas.advance(at_ns, &self.current);
        for (index, keyed) in self.table.iter().enumerate() {
            match keyed.take {
                Take::Gauge(factor) => put(&keyed.metric, self.current[index].map(|value| value as f64 * factor)),
                Take::Rate(factor) => {
                    moment.backwards += u32::from(self.deltas.backwards_at(index));
                    put(&keyed.metric, self.deltas.rate(index).map(|rate| rate * factor));
                }
            }
        }
        Ok(())
    }
}

/// A family that is such a file, of the host (without role) or of a process.
struct KeyedCollector {
    scope: String,
    role: &'static str,
    file: KeyedFile,
}

impl Collector for KeyedCollector {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let scope = sample.scope(&self.scope);
        self.file
            .read(moment, |metric, value| scope.of_process(self.role, metric, value))
    }
}

/// The collector of a file right under /proc.
///
/// # Errors
/// When the file cannot be opened.
pub fn open_host(machine: &Machine, name: &str, table: &'static [Keyed]) -> Opened {
    let file = KeyedFile::new(PseudoFile::open(machine.proc_root.join(name))?, table);
    Ok(Box::new(KeyedCollector {
        scope: "host".into(),
        role: "",
        file,
    }))
}

/// The collector of a file under /proc/PID.
///
/// # Errors
/// When the file cannot be opened.
pub fn open_process(machine: &Machine, process: &Process, name: &str, table: &'static [Keyed]) -> Opened {
    let file = KeyedFile::new(PseudoFile::open(process.folder(machine).join(name))?, table);
    Ok(Box::new(KeyedCollector {
        scope: process.scope(),
        role: process.prefix(),
        file,
    }))
}

fn parse(content: &[u8], table: &[Keyed], current: &mut [Option<u64>]) {
    current.fill(None);
    // Tables are in the file's order, so the search goes on from the key found last and mostly compares once a hit.
    let mut next = 0;
    for line in lines(content) {
        let mut words = words(line);
        let Some(key) = words.next() else { continue };
        let key = key.strip_suffix(b":").unwrap_or(key);
        let found = (next..table.len())
            .chain(0..next)
            .find(|index| table[*index].key.as_bytes() == key);
        if let Some(index) = found {
            current[index] = words.next().and_then(number);
            next = index + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Better, Scope};

    const fn keyed(key: &'static str) -> Keyed {
        let metric = Metric {
            name: "n",
            scopes: &[Scope::Host],
            better: Better::None,
            meaning: "",
            source: "",
            wrong: "",
        };
        Keyed {
            key,
            take: Take::Gauge(1.0),
            metric,
        }
    }

    #[test]
    fn keys_are_found_with_and_without_colon_in_any_order_and_the_missing_stay_absent() {
        let table = [keyed("MemFree"), keyed("Dirty"), keyed("Nothing"), keyed("oom_kill")];
        let mut current = [Some(9); 4];
        parse(
            b"oom_kill 3\nDirty:      12 kB\nMemFree:\t 7 kB\nMemFreeX: 8\n\n",
            &table,
            &mut current,
        );
        assert_eq!(current, [Some(7), Some(12), None, Some(3)]);
    }
}
