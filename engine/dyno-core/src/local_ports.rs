//! The local TCP ports of this network namespace, which short connections use up.
//!
//! The side that closes a connection keeps its port for 60 s in the state TIME_WAIT; a port that is kept cannot be used for
//! another connection to the same server, unless net.ipv4.tcp_tw_reuse permits it after 1 s. Read from /proc/sys/net/ipv4
//! and /proc/net/sockstat. Sources: the kernel's Documentation/networking/ip-sysctl.rst, include/net/tcp.h
//! (`TCP_TIMEWAIT_LEN`).

use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

/// How long a closed connection keeps its port.
const TIME_WAIT_S: f64 = 60.0;
/// The same where `tcp_tw_reuse` permits to use it again: timestamps must have grown.
const REUSE_S: f64 = 1.0;
/// Above this share of the ports in use, a missing address means that none was free. The same error has other causes over
/// IPv6, which has none of these counts in it.
const USED_SHARE: f64 = 0.5;

/// The ports that the kernel chooses from, and when it uses one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalPorts {
    first: u32,
    last: u32,
    reserved: u32,
    /// 0: never; 1: always; 2: over loopback.
    reuse: u32,
}

impl LocalPorts {
    /// The settings of this network namespace; none where they cannot be read.
    pub fn read() -> Option<Self> {
        let setting = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        let reserved = setting("ip_local_reserved_ports").unwrap_or_default();
        let reuse = setting("tcp_tw_reuse").ok().and_then(|text| text.trim().parse().ok());
        Self::parse(&setting("ip_local_port_range").ok()?, &reserved, reuse.unwrap_or(0))
    }

    fn parse(range: &str, reserved: &str, reuse: u32) -> Option<Self> {
        let mut bounds = range.split_ascii_whitespace().map(|word| word.parse().ok());
        let (first, last): (u32, u32) = (bounds.next()??, bounds.next()??);
        // As in 8080,9148-9150.
        let within = |part: &str| -> Option<u32> {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
            Some((high.min(last) + 1).saturating_sub(low.max(first)))
        };
        Some(Self {
            first,
            last,
            reserved: reserved.trim().split(',').filter_map(within).sum(),
            reuse,
        })
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        (self.last + 1).saturating_sub(self.first + self.reserved)
    }

    /// How long one is not free after its connection to this server.
    fn kept_s(&self, server: SocketAddr) -> f64 {
        match self.reuse {
            1 => REUSE_S,
            2 if server.ip().is_loopback() => REUSE_S,
            _ => TIME_WAIT_S,
        }
    }

    /// What is wrong with `per_s` new connections to the server for `duration_s`; none where the ports suffice.
    pub fn shortage(&self, server: SocketAddr, per_s: f64, duration_s: f64) -> Option<String> {
        let kept_s = self.kept_s(server);
        let needed = per_s * duration_s.min(kept_s);
        (needed > f64::from(self.count())).then(|| {
            format!(
                "{per_s:.0} new connections a second need {needed:.0} local ports, for each is kept for {kept_s:.0} s; there are \
                 {self}: {REMEDY}"
            )
        })
    }
}

/// "200 (net.ipv4.ip_local_port_range is 32768 to 32967, …)".
impl fmt::Display for LocalPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, reuse, .. } = self;
        write!(
            f,
            "{} (net.ipv4.ip_local_port_range is {first} to {last}, ",
            self.count()
        )?;
        if self.reserved > 0 {
            write!(f, "{} of them reserved, ", self.reserved)?;
        }
        write!(f, "net.ipv4.tcp_tw_reuse is {reuse})")
    }
}

const REMEDY: &str = "widen the range, set net.ipv4.tcp_tw_reuse to 1, lower the rate, or connect over a Unix socket";

/// Whether the kernel found no free port for a connection.
pub fn is_exhausted(error: &Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable
        && LocalPorts::read().is_some_and(|ports| is_used_up(ports, in_use().unwrap_or(u64::MAX)))
}

fn is_used_up(ports: LocalPorts, in_use: u64) -> bool {
    in_use as f64 >= USED_SHARE * f64::from(ports.count())
}

/// TCP sockets of this network namespace, those in TIME_WAIT too; none where they are not counted.
fn in_use() -> Option<u64> {
    let text = |name: &str| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    count_sockets(&(text("sockstat") + &text("sockstat6")))
}

fn count_sockets(text: &str) -> Option<u64> {
    let lines = text.lines().filter(|line| line.starts_with("TCP"));
    let counts = lines.flat_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let pairs = words.windows(2).filter(|pair| matches!(pair[0], "inuse" | "tw"));
        pairs.filter_map(|pair| pair[1].parse().ok()).collect::<Vec<u64>>()
    });
    counts.reduce(|sum, count| sum + count)
}

/// The error of a connection, with its cause where no local port was free.
pub fn explained(error: &Error) -> String {
    match LocalPorts::read().filter(|_| is_exhausted(error)) {
        Some(ports) => format!(
            "no local port is free (EADDRNOTAVAIL): there are {ports}, and each closed connection keeps its port for up to \
             {TIME_WAIT_S:.0} s (TIME_WAIT); {REMEDY}"
        ),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(range: &str, reserved: &str, reuse: u32) -> LocalPorts {
        LocalPorts::parse(range, reserved, reuse).unwrap()
    }

    #[test]
    fn reserved_ports_are_not_counted() {
        assert_eq!(ports("32768\t60999\n", "\n", 2).count(), 28232);
        assert_eq!(ports("100\t299\n", "99-101,150,400\n", 2).count(), 197);
        assert_eq!(ports("7 7", "", 0).count(), 1);
        assert!(LocalPorts::parse("", "", 0).is_none());
    }

    #[test]
    fn the_time_that_a_port_is_kept_depends_on_its_reuse() {
        let (near, far) = ("127.0.0.1:1".parse().unwrap(), "10.0.0.1:1".parse().unwrap());
        let few = |reuse| ports("1000 1199", "", reuse);
        // 10 connections a second: 600 in a minute, 10 in a second.
        assert!(few(0).shortage(near, 10.0, 300.0).is_some());
        assert!(few(0).shortage(near, 10.0, 20.0).is_none());
        assert!(few(2).shortage(near, 10.0, 300.0).is_none());
        assert!(few(1).shortage(far, 10.0, 300.0).is_none());
        assert!(few(1).shortage(far, 201.0, 300.0).is_some());
        let words = few(2).shortage(far, 10.0, 300.0).unwrap();
        for word in [
            "600 local ports",
            "60 s",
            "are 200",
            "1000 to 1199",
            "tcp_tw_reuse is 2",
        ] {
            assert!(words.contains(word), "{words}");
        }
    }

    #[test]
    fn only_where_most_ports_are_in_use_were_they_the_cause() {
        let text = "sockets: used 300\nTCP: inuse 5 orphan 0 tw 190 alloc 7 mem 1\nUDP: inuse 900\nTCP6: inuse 4\n";
        assert_eq!(count_sockets(text), Some(199));
        assert_eq!(count_sockets(""), None);
        assert!(is_used_up(ports("1000 1199", "", 2), 199));
        assert!(!is_used_up(ports("32768 60999", "", 2), 199));
        let refused = Error::from(ErrorKind::ConnectionRefused);
        assert!(!is_exhausted(&refused));
        assert_eq!(explained(&refused), refused.to_string());
    }
}
