//! Families that are made of a server's status: tables of variables, over one reading that all of them share.

use crate::deltas::Deltas;
use crate::metric::Metric;
use crate::sample::ScopeValues;

/// How a status variable becomes a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The sum of the variables' growth a second.
    Rate,
    /// The sum of the variables as they are.
    Gauge,
}

/// One metric that is a variable, or a sum of some.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Rate or gauge.
    pub kind: Kind,
    /// The variables; the metric is absent when one of them is.
    pub variables: &'static [&'static str],
    /// The metric.
    pub metric: Metric,
}

/// Metrics that need more than a sum.
#[derive(Debug, Clone, Copy)]
pub struct Derived {
    /// Variables that only grow.
    pub counters: &'static [&'static str],
    /// Variables that go up and down.
    pub gauges: &'static [&'static str],
    /// Adds the metrics.
    pub put: fn(&StatusView, &mut ScopeValues),
}

/// A family made of status variables.
#[derive(Debug, Clone, Copy)]
pub struct StatusFamily {
    /// The plain ones.
    pub entries: &'static [Entry],
    /// The others.
    pub derived: Option<Derived>,
}

/// One entry of a table: `status!(Rate "qps" = "Questions"; Higher; "meaning"; "when it is wrong")`.
#[macro_export]
macro_rules! status {
    ($kind:ident $name:literal = $first:literal $(+ $more:literal)*; $better:ident; $meaning:literal; $wrong:literal) => {
        $crate::mysql::status_family::Entry {
            kind: $crate::mysql::status_family::Kind::$kind,
            variables: &[$first $(, $more)*],
            metric: $crate::metric::Metric {
                name: $name,
                scopes: &[$crate::metric::Scope::Instance],
                better: $crate::metric::Better::$better,
                meaning: $meaning,
                source: concat!("SHOW GLOBAL STATUS: ", $first $(, " + ", $more)*),
                wrong: $wrong,
            },
        }
    };
}

/// The metrics of a table, for a family's list.
pub const fn metrics_of<const N: usize>(table: &[Entry; N]) -> [Metric; N] {
    let mut metrics = [table[0].metric; N];
    let mut index = 1;
    while index < N {
        metrics[index] = table[index].metric;
        index += 1;
    }
    metrics
}

/// Variables set to zero by FLUSH STATUS or a restart: when one goes down, every counter began anew.
const UPTIMES: [&str; 2] = ["Uptime", "Uptime_since_flush_status"];

/// All variables that the families need, in order of their names.
#[derive(Debug, Clone)]
pub struct Wanted {
    names: Vec<&'static str>,
    counters: Vec<bool>,
}

impl Wanted {
    /// The variables of these families, of the sources of redo (see [`crate::mysql::redo`]) and of the uptime.
    pub fn of(families: &[&'static StatusFamily]) -> Self {
        let mut all: Vec<(&'static str, bool)> = Vec::new();
        all.extend(UPTIMES.map(|name| (name, false)));
        all.extend(crate::mysql::redo::VARIABLES.map(|name| (name, false)));
        for family in families {
            for entry in family.entries {
                all.extend(entry.variables.iter().map(|name| (*name, entry.kind == Kind::Rate)));
            }
            if let Some(derived) = family.derived {
                all.extend(derived.counters.iter().map(|name| (*name, true)));
                all.extend(derived.gauges.iter().map(|name| (*name, false)));
            }
        }
        // True sorts last, so that a name that is anywhere a counter is one.
        all.sort_unstable();
        all.reverse();
        all.dedup_by_key(|(name, _)| *name);
        all.reverse();
        let (names, counters) = all.into_iter().unzip();
        Self { names, counters }
    }

    /// Place of a variable.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.names.binary_search_by(|known| (*known).cmp(name)).ok()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The server's own variables; names with a colon are filled by the probe.
    pub fn of_server(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.names.iter().copied().filter(|name| !name.contains(':'))
    }
}

/// The last reading of a server's status, and what changed since the one before.
#[derive(Debug)]
pub struct StatusView {
    wanted: Wanted,
    values: Vec<Option<u64>>,
    deltas: Deltas,
    uptimes: [Option<u64>; 2],
    read_at_ns: u64,
}

impl StatusView {
    /// A view without a reading.
    pub fn new(wanted: Wanted) -> Self {
        let count = wanted.count();
        Self {
            wanted,
            values: vec![None; count],
            deltas: Deltas::new(count),
            uptimes: [None; 2],
            read_at_ns: 0,
        }
    }

    /// Takes a reading, in the order of [`Wanted`]. Gives how many counters went backwards, uptimes among them; when an
    /// uptime did, all rates of this reading are absent, whatever each counter shows. Uptimes follow the wall clock: one
    /// that is longer than the time since the last reading did not begin anew, the clock was set.
    pub fn advance(&mut self, at_ns: u64, values: &[Option<u64>]) -> u32 {
        self.values.clear();
        self.values.extend_from_slice(values);
        self.values.resize(self.wanted.count(), None);
        self.deltas.advance(at_ns, &self.values);
        let uptimes = UPTIMES.map(|name| self.value(name));
        let most_s = at_ns.saturating_sub(self.read_at_ns) / 1_000_000_000 + 1;
        let went_back =
            |(now, before): &(&Option<u64>, &Option<u64>)| now.is_some_and(|now_s| now_s <= most_s) && now < before;
        let began_anew = uptimes.iter().zip(&self.uptimes).filter(went_back).count();
        if began_anew > 0 {
            self.deltas.discard();
        }
        (self.uptimes, self.read_at_ns) = (uptimes, at_ns);
        let counters = self.wanted.counters.iter().enumerate().filter(|(_, counter)| **counter);
        let backwards = counters.filter(|(index, _)| self.deltas.backwards_at(*index)).count();
        u32::try_from(began_anew + backwards).unwrap_or(u32::MAX)
    }

    /// A variable as it is.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.values[self.wanted.index(name)?]
    }

    /// A variable's growth a second.
    pub fn rate(&self, name: &str) -> Option<f64> {
        self.deltas.rate(self.wanted.index(name)?)
    }

    /// A variable's growth.
    pub fn change(&self, name: &str) -> Option<u64> {
        self.deltas.change(self.wanted.index(name)?)
    }

    /// Adds a family's metrics.
    pub fn put(&self, family: &StatusFamily, scope: &mut ScopeValues) {
        for entry in family.entries {
            let value = match entry.kind {
                Kind::Rate => entry.variables.iter().map(|name| self.rate(name)).sum(),
                Kind::Gauge => entry
                    .variables
                    .iter()
                    .map(|name| self.value(name).map(|value| value as f64))
                    .sum(),
            };
            scope.real(&entry.metric, value);
        }
        if let Some(derived) = family.derived {
            (derived.put)(self, scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FAMILY: StatusFamily = StatusFamily {
        entries: &[
            status!(Rate "tps" = "Com_commit" + "Com_rollback"; Higher; ""; ""),
            status!(Gauge "threads" = "Threads"; None; ""; ""),
        ],
        derived: None,
    };

    fn reading(wanted: &Wanted, pairs: &[(&str, u64)]) -> Vec<Option<u64>> {
        let mut values = vec![None; wanted.count()];
        for (name, value) in pairs {
            values[wanted.index(name).unwrap()] = Some(*value);
        }
        values
    }

    fn put(view: &StatusView) -> String {
        let mut sample = crate::sample::Sample::default();
        view.put(&FAMILY, sample.scope("instance:1"));
        serde_json::to_string(&sample).unwrap()
    }

    #[test]
    fn a_sum_with_a_missing_part_is_absent_and_a_gauge_may_fall() {
        let wanted = Wanted::of(&[&FAMILY]);
        let mut view = StatusView::new(wanted.clone());
        view.advance(
            0,
            &reading(&wanted, &[("Com_commit", 10), ("Com_rollback", 1), ("Threads", 9)]),
        );
        let backwards = view.advance(
            2_000_000_000,
            &reading(&wanted, &[("Com_commit", 30), ("Com_rollback", 3), ("Threads", 4)]),
        );
        assert_eq!(
            (put(&view).as_str(), backwards),
            (r#"{"instance:1":{"tps":11,"threads":4}}"#, 0)
        );
        view.advance(3_000_000_000, &reading(&wanted, &[("Com_commit", 40), ("Threads", 4)]));
        assert_eq!(put(&view), r#"{"instance:1":{"threads":4}}"#);
    }

    #[test]
    fn a_wall_clock_that_is_set_back_costs_no_rate() {
        let wanted = Wanted::of(&[&FAMILY]);
        let mut view = StatusView::new(wanted.clone());
        let at = |commits, uptime| {
            let names = ["Com_commit", "Com_rollback", "Uptime", "Uptime_since_flush_status"];
            let values = [commits, 1, uptime, uptime];
            reading(
                &wanted,
                &std::array::from_fn::<_, 4, _>(|index| (names[index], values[index])),
            )
        };
        view.advance(0, &at(10, 50));
        assert_eq!(view.advance(1_000_000_000, &at(15, 21)), 0);
        assert_eq!(put(&view), r#"{"instance:1":{"tps":5}}"#);
    }

    #[test]
    fn after_flush_status_no_rate_is_believed_even_of_counters_that_grew() {
        let wanted = Wanted::of(&[&FAMILY]);
        let mut view = StatusView::new(wanted.clone());
        let first = [
            ("Com_commit", 10),
            ("Com_rollback", 1),
            ("Uptime", 50),
            ("Uptime_since_flush_status", 50),
        ];
        view.advance(0, &reading(&wanted, &first));
        // Com_rollback grew beyond its old value within the second, Com_commit did not.
        let second = [
            ("Com_commit", 5),
            ("Com_rollback", 9),
            ("Uptime", 51),
            ("Uptime_since_flush_status", 0),
        ];
        assert_eq!(view.advance(1_000_000_000, &reading(&wanted, &second)), 2);
        assert_eq!(put(&view), "{}");
        let third = [
            ("Com_commit", 6),
            ("Com_rollback", 9),
            ("Uptime", 52),
            ("Uptime_since_flush_status", 1),
        ];
        assert_eq!(view.advance(2_000_000_000, &reading(&wanted, &third)), 0);
        assert_eq!(put(&view), r#"{"instance:1":{"tps":1}}"#);
    }
}
