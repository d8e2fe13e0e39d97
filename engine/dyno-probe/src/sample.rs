//! One sample while it is filled: scopes, each with its metrics.
//!
//! The buffers are kept from sample to sample, so a steady run does not allocate here.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::metric::Metric;

#[derive(Debug, Clone, Copy)]
enum Value {
    Whole(u64),
    Real(f64),
}

/// The metrics of one scope (`host`, `disk:vda`, `instance:1`).
#[derive(Debug)]
pub struct ScopeValues {
    name: String,
    values: Vec<(&'static str, &'static str, Value)>,
}

impl ScopeValues {
    /// Adds a whole number.
    pub fn whole(&mut self, metric: &Metric, value: u64) {
        self.values.push(("", metric.name, Value::Whole(value)));
    }

    /// Adds a number; nothing when it is absent or not finite, for an absent metric is never 0.
    pub fn real(&mut self, metric: &Metric, value: Option<f64>) {
        self.put("", metric, value);
    }

    /// Adds a number of a process, whose metrics carry its role (`server_` or `driver_`).
    pub fn of_process(&mut self, role: &'static str, metric: &Metric, value: Option<f64>) {
        self.put(role, metric, value);
    }

    fn put(&mut self, prefix: &'static str, metric: &Metric, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return;
        };
        // Whole numbers up to 2^53 are exact in a double and shorter as integers.
        let value = if value.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&value) {
            Value::Whole(value as u64)
        } else {
            Value::Real((value * 1e4).round() / 1e4)
        };
        self.values.push((prefix, metric.name, value));
    }
}

/// All scopes of one sample, in the order of their first use.
#[derive(Debug, Default)]
pub struct Sample {
    scopes: Vec<ScopeValues>,
}

impl Sample {
    /// Empties the sample and keeps its buffers.
    pub fn clear(&mut self) {
        for scope in &mut self.scopes {
            scope.values.clear();
        }
    }

    /// The scope of that name, made when it is new.
    pub fn scope(&mut self, name: &str) -> &mut ScopeValues {
        let index = match self.scopes.iter().position(|scope| scope.name == name) {
            Some(index) => index,
            None => {
                self.scopes.push(ScopeValues {
                    name: name.to_owned(),
                    values: Vec::with_capacity(64),
                });
                self.scopes.len() - 1
            }
        };
        &mut self.scopes[index]
    }
}

struct Name(&'static str, &'static str);

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_empty() {
            serializer.serialize_str(self.1)
        } else {
            serializer.collect_str(&format_args!("{}{}", self.0, self.1))
        }
    }
}

impl Serialize for ScopeValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.values.len()))?;
        for (prefix, name, value) in &self.values {
            let name = Name(prefix, name);
            match value {
                Value::Whole(value) => map.serialize_entry(&name, value)?,
                Value::Real(value) => map.serialize_entry(&name, value)?,
            }
        }
        map.end()
    }
}

impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for scope in self.scopes.iter().filter(|scope| !scope.values.is_empty()) {
            map.serialize_entry(&scope.name, scope)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Better, Scope};

    const RSS: Metric = Metric {
        name: "rss_bytes",
        scopes: &[Scope::Instance],
        better: Better::Lower,
        meaning: "",
        source: "",
        wrong: "",
    };

    #[test]
    fn scopes_keep_their_order_and_empty_ones_are_left_out() {
        let mut sample = Sample::default();
        sample.scope("instance:1").of_process("server_", &RSS, Some(5.0));
        sample.scope("host").real(&RSS, None);
        sample.scope("disk:a").real(&RSS, Some(0.123_456));
        assert_eq!(
            serde_json::to_string(&sample).unwrap(),
            r#"{"instance:1":{"server_rss_bytes":5},"disk:a":{"rss_bytes":0.1235}}"#
        );
        sample.clear();
        assert_eq!(serde_json::to_string(&sample).unwrap(), "{}");
    }

    #[test]
    fn what_is_not_a_number_is_absent() {
        let mut sample = Sample::default();
        sample.scope("host").real(&RSS, Some(f64::NAN));
        sample.scope("host").real(&RSS, Some(f64::INFINITY));
        assert_eq!(serde_json::to_string(&sample).unwrap(), "{}");
    }
}
