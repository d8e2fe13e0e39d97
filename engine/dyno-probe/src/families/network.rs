//! Network interfaces. Measured: bytes, packets, drops and errors of each interface and their sum, from /proc/net/dev
//! (proc_pid_net(5)), or from /proc/PID/net/dev for an interface in another namespace. Costs one read a namespace.
//! Wrong: link-level bytes, so headers are in; the sum counts a packet twice that passes two chosen interfaces (a
//! bridge and its port, both ends of a veth pair).

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::deltas::Deltas;
use crate::machine::Machine;
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;
use crate::text::{lines, number, words};

const BOTH: &[Scope] = &[Scope::Network, Scope::Host];

const fn metric(name: &'static str, better: Better, meaning: &'static str) -> Metric {
    let wrong = "Of the host: the sum over the chosen interfaces without lo.";
    Metric {
        name,
        scopes: BOTH,
        better,
        meaning,
        source: "/proc/net/dev",
        wrong,
    }
}

/// Each metric and its column after the colon.
const COLUMNS: [(Metric, usize); 8] = [
    (metric("network_rx_bytes_per_s", Better::None, "Bytes received."), 0),
    (metric("network_tx_bytes_per_s", Better::None, "Bytes sent."), 8),
    (metric("network_rx_packets_per_s", Better::None, "Packets received."), 1),
    (metric("network_tx_packets_per_s", Better::None, "Packets sent."), 9),
    (
        metric("network_rx_drops_per_s", Better::Lower, "Packets received and dropped."),
        3,
    ),
    (
        metric(
            "network_tx_drops_per_s",
            Better::Lower,
            "Packets dropped before sending.",
        ),
        11,
    ),
    (
        metric("network_rx_errors_per_s", Better::Lower, "Bad packets received."),
        2,
    ),
    (
        metric(
            "network_tx_errors_per_s",
            Better::Lower,
            "Packets that could not be sent.",
        ),
        10,
    ),
];
const METRICS: [Metric; 8] = {
    let mut metrics = [COLUMNS[0].0; 8];
    let mut index = 1;
    while index < 8 {
        metrics[index] = COLUMNS[index].0;
        index += 1;
    }
    metrics
};

/// The family.
pub const FAMILY: Family = Family {
    name: "network",
    subject: Subject::Host(open),
    metrics: &[&METRICS],
};

/// Name and sixteen columns of one line; none for the two title lines.
fn parse_line(line: &[u8]) -> Option<(&[u8], [Option<u64>; 8])> {
    let colon = line.iter().rposition(|byte| *byte == b':')?;
    let name = words(&line[..colon]).next()?;
    let mut columns = [None; 16];
    for (slot, word) in columns.iter_mut().zip(words(&line[colon + 1..])) {
        *slot = number(word);
    }
    Some((name, COLUMNS.map(|(_, column)| columns[column])))
}

struct Watched {
    name: String,
    scope: String,
    deltas: Deltas,
    seen: bool,
}

/// One namespace's file. Without chosen names each interface is taken as it appears.
struct Namespace {
    file: PseudoFile,
    chosen: bool,
    interfaces: Vec<Watched>,
}

struct Network(Vec<Namespace>);

fn open(machine: &Machine) -> Opened {
    let file_of = |pid: Option<u32>| {
        let folder = pid.map_or(machine.proc_root.clone(), |pid| machine.proc_root.join(pid.to_string()));
        PseudoFile::open(folder.join("net/dev"))
    };
    if machine.interfaces.is_empty() {
        return Ok(Box::new(Network(vec![Namespace {
            file: file_of(None)?,
            chosen: false,
            interfaces: Vec::new(),
        }])));
    }
    let mut pids: Vec<_> = machine.interfaces.iter().map(|interface| interface.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let mut namespaces = Vec::new();
    for pid in pids {
        let of_namespace = machine.interfaces.iter().filter(|interface| interface.pid == pid);
        let interfaces = of_namespace.map(|interface| Watched::new(&interface.name)).collect();
        namespaces.push(Namespace {
            file: file_of(pid)?,
            chosen: true,
            interfaces,
        });
    }
    Ok(Box::new(Network(namespaces)))
}

impl Watched {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            scope: format!("network:{name}"),
            deltas: Deltas::new(COLUMNS.len()),
            seen: false,
        }
    }
}

type Totals = [Option<f64>; COLUMNS.len()];

impl Namespace {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample, totals: &mut Totals) -> Result<(), Failure> {
        let content = self.file.read(moment.buffer)?;
        let at_ns = moment.clock.monotonic_ns();
        for interface in &mut self.interfaces {
            interface.seen = false;
        }
        for (name, counters) in lines(content).filter_map(parse_line) {
            let found = self
                .interfaces
                .iter()
                .position(|interface| interface.name.as_bytes() == name);
            let (index, known) = match (found, std::str::from_utf8(name)) {
                (Some(index), _) => (index, true),
                (None, Ok(name)) if !self.chosen => {
                    self.interfaces.push(Watched::new(name));
                    (self.interfaces.len() - 1, false)
                }
                _ => continue,
            };
            let interface = &mut self.interfaces[index];
            interface.seen = true;
            interface.deltas.advance(at_ns, &counters);
            moment.backwards += interface.deltas.backwards();
            let scope = sample.scope(&interface.scope);
            for (column, (metric, _)) in COLUMNS.iter().enumerate() {
                let rate = interface.deltas.rate(column);
                scope.real(metric, rate);
                // An interface seen for the first time has no rate yet and does not spoil the sum; a reset one does.
                if interface.name != "lo" && (known || rate.is_some()) {
                    totals[column] = totals[column].zip(rate).map(|(total, rate)| total + rate);
                }
            }
        }
        match self.interfaces.iter().find(|interface| self.chosen && !interface.seen) {
            Some(missing) => {
                *totals = [None; COLUMNS.len()];
                Err(self.file.malformed(&format!("has no interface {}", missing.name)))
            }
            None => {
                self.interfaces.retain(|interface| interface.seen);
                Ok(())
            }
        }
    }
}

impl Collector for Network {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let mut totals = [Some(0.0); COLUMNS.len()];
        let mut result = Ok(());
        for namespace in &mut self.0 {
            if let Err(failure) = namespace.collect(moment, sample, &mut totals) {
                totals = [None; COLUMNS.len()];
                result = Err(failure);
            }
        }
        let others = |namespace: &Namespace| namespace.interfaces.iter().any(|interface| interface.name != "lo");
        if self.0.iter().any(others) {
            let host = sample.scope("host");
            for (metric, total) in METRICS.iter().zip(totals) {
                host.real(metric, total);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_and_sixteen_columns_even_without_a_blank_after_the_colon() {
        let (name, columns) = parse_line(
            b"  eth0:439355017   10820    1    2    0     0          0         0   660740    7317    3    4    0 0 0 0",
        )
        .unwrap();
        assert_eq!(name, b"eth0");
        assert_eq!(columns, [439_355_017, 660_740, 10_820, 7_317, 2, 4, 1, 3].map(Some));
        assert!(parse_line(b"Inter-|   Receive                 |  Transmit").is_none());
    }
}
