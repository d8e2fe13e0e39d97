//! TCP. Measured: segments and retransmissions of the whole network namespace, from /proc/net/snmp (kernel:
//! networking/snmp_counter.rst; RFC 1213). Costs one read. Wrong: all connections of the namespace count, not only the
//! server's; retransmissions that the other side makes are not seen here.

use crate::collector::{Collector, Failure, Family, Moment, Opened, Subject};
use crate::deltas::Deltas;
use crate::machine::Machine;
use crate::metric::{Better, Metric, Scope};
use crate::pseudo_file::PseudoFile;
use crate::sample::Sample;
use crate::text::{lines, number, words};

const fn metric(name: &'static str, better: Better, meaning: &'static str) -> Metric {
    let wrong = "All TCP connections of the namespace count.";
    Metric {
        name,
        scopes: &[Scope::Host],
        better,
        meaning,
        source: "/proc/net/snmp",
        wrong,
    }
}

const NAMES: [&[u8]; 4] = [b"RetransSegs", b"OutSegs", b"InSegs", b"InErrs"];
const METRICS: [Metric; 4] = [
    metric("tcp_retransmits_per_s", Better::Lower, "Segments retransmitted."),
    metric(
        "tcp_out_segments_per_s",
        Better::None,
        "Segments sent, without retransmissions.",
    ),
    metric("tcp_in_segments_per_s", Better::None, "Segments received."),
    metric("tcp_in_errors_per_s", Better::Lower, "Segments received in error."),
];

/// The family.
pub const FAMILY: Family = Family {
    name: "tcp",
    subject: Subject::Host(open),
    metrics: &[&METRICS],
};

/// The counters of the second `Tcp:` line, by the names in the first.
fn parse(content: &[u8]) -> Option<[Option<u64>; 4]> {
    let mut tcp = lines(content).filter(|line| line.starts_with(b"Tcp:"));
    let (names, values) = (tcp.next()?, tcp.next()?);
    let mut counters = [None; 4];
    for (name, value) in words(names).zip(words(values)) {
        if let Some(index) = NAMES.iter().position(|wanted| *wanted == name) {
            counters[index] = number(value);
        }
    }
    Some(counters)
}

struct Tcp {
    file: PseudoFile,
    deltas: Deltas,
}

fn open(machine: &Machine) -> Opened {
    let file = PseudoFile::open(machine.proc_root.join("net/snmp"))?;
    Ok(Box::new(Tcp {
        file,
        deltas: Deltas::new(NAMES.len()),
    }))
}

impl Collector for Tcp {
    fn collect(&mut self, moment: &mut Moment<'_>, sample: &mut Sample) -> Result<(), Failure> {
        let counters = parse(self.file.read(moment.buffer)?).ok_or_else(|| self.file.malformed("has no Tcp lines"))?;
        self.deltas.advance(moment.clock.monotonic_ns(), &counters);
        moment.backwards += self.deltas.backwards();
        let host = sample.scope("host");
        for (index, metric) in METRICS.iter().enumerate() {
            host.real(metric, self.deltas.rate(index));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_the_names_of_the_first_line() {
        let text =
            b"Ip: A B\nIp: 1 2\nTcp: RtoMin InSegs OutSegs RetransSegs InErrs\nTcp: 200 10 20 3 4\nUdp: X\nUdp: 1\n";
        assert_eq!(parse(text), Some([Some(3), Some(20), Some(10), Some(4)]));
        assert_eq!(parse(b"Tcp: InSegs\n"), None);
    }
}
