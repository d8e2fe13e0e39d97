//! What a metric is: its name, where it is reported, what it means, and when it is wrong.

use serde::Serialize;

/// Which direction of change is an improvement, all else equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither: it explains, it does not judge.
    None,
}

/// The kind of thing a metric describes; a sample's scopes are named by it (`host`, `disk:vda`, `instance:1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The host that the probe runs on.
    Host,
    /// One block device.
    Disk,
    /// One network interface.
    Network,
    /// One watched server.
    Instance,
    /// One watched load program.
    Driver,
}

/// One documented metric. Its unit is in its name: [`Metric::unit`].
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name in a sample. A metric of a process is reported with `server_` or `driver_` before it.
    pub name: &'static str,
    /// Where it is reported.
    pub scopes: &'static [Scope],
    /// Which direction is an improvement.
    pub better: Better,
    /// One sentence: what it says.
    pub meaning: &'static str,
    /// The file, or the statement and its variables.
    pub source: &'static str,
    /// When it misleads; empty when no case is known.
    pub wrong: &'static str,
}

/// Units by the end of a name, the longest first.
const UNITS: &[(&str, &str)] = &[
    ("_bytes_per_s", "bytes/s"),
    ("_us_per_s", "us/s"),
    ("_per_s", "1/s"),
    ("_bytes", "bytes"),
    ("_pct", "percent"),
    ("_us", "us"),
    ("_ns", "ns"),
    ("_s", "s"),
    ("qps", "1/s"),
    ("tps", "1/s"),
];

impl Metric {
    /// The unit that the name ends with; `count` for a number of things.
    pub fn unit(&self) -> &'static str {
        UNITS
            .iter()
            .find(|(end, _)| self.name.ends_with(end))
            .map_or("count", |(_, unit)| unit)
    }

    /// Name in samples of that scope: metrics of the families that are read for a process carry its role.
    pub fn name_in(&self, scope: Scope, of_process: bool) -> String {
        match scope {
            Scope::Instance if of_process => format!("server_{}", self.name),
            Scope::Driver if of_process => format!("driver_{}", self.name),
            _ => self.name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &'static str) -> Metric {
        Metric {
            name,
            scopes: &[Scope::Host],
            better: Better::None,
            meaning: "",
            source: "",
            wrong: "",
        }
    }

    #[test]
    fn the_unit_is_the_longest_known_end_of_the_name() {
        assert_eq!(named("disk_read_bytes_per_s").unit(), "bytes/s");
        assert_eq!(named("reads_per_s").unit(), "1/s");
        assert_eq!(named("qps").unit(), "1/s");
        assert_eq!(named("uptime_s").unit(), "s");
        assert_eq!(named("speed_unit_ns").unit(), "ns");
        assert_eq!(named("threads_running").unit(), "count");
    }

    #[test]
    fn a_metric_of_a_process_carries_its_role() {
        assert_eq!(named("rss_bytes").name_in(Scope::Instance, true), "server_rss_bytes");
        assert_eq!(named("rss_bytes").name_in(Scope::Driver, true), "driver_rss_bytes");
        assert_eq!(named("qps").name_in(Scope::Instance, false), "qps");
    }
}
