//! What needs no repetition: result, counters and plan of a statement on each server.

use std::collections::BTreeMap;

use dyno_capture::{adds_up, extent, has_order, nondeterministic, Fingerprint, Freedom, UniqueKeys, Varying};
use dyno_mysql::constants::column_type;
use serde::Serialize;
use serde_json::Value;

use super::lane::Lane;
use crate::error::Error;
use crate::replay::add_row;

const STATUS: &str = "SHOW SESSION STATUS";
const WARNINGS: &str = "SHOW WARNINGS LIMIT 8";
/// Counters of a session that depend on data and plan alone.
const COUNTERS: &[&str] = &[
    "Created_tmp_disk_tables",
    "Created_tmp_tables",
    "Handler_delete",
    "Handler_read_first",
    "Handler_read_key",
    "Handler_read_last",
    "Handler_read_next",
    "Handler_read_prev",
    "Handler_read_rnd",
    "Handler_read_rnd_next",
    "Handler_update",
    "Handler_write",
    "Rows_read",
    "Select_full_join",
    "Select_full_range_join",
    "Select_scan",
    "Sort_merge_passes",
    "Sort_rows",
    "Sort_scan",
];

/// Why results may differ on equal data.
#[derive(Debug, Clone, Serialize)]
pub struct Varies {
    /// The reason.
    pub reason: String,
    /// order, contents or number of rows.
    pub of: &'static str,
}

/// One statement on one server.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Once {
    /// Rows returned.
    pub rows: u64,
    /// Rows changed.
    pub affected_rows: u64,
    /// Code and text of each warning raised, the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<(u16, String)>,
    /// Its error; 0 for none.
    pub error: u16,
    /// The error's text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Sum of the rows' fingerprints, whatever their order.
    pub checksum: Fingerprint,
    /// The rows' fingerprints in their order, where the statement has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Fingerprint>,
    /// Names of the columns and the numbers of their types.
    pub columns: Vec<(String, u8)>,
    /// Why another result would be none of the server's doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub varies: Option<Varies>,
    /// Growth of the session's counters; without those that did not grow.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// The text of EXPLAIN FORMAT=JSON, in which MariaDB 10.4 repeats names; the rows of EXPLAIN where there is none.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub plan: Value,
}

impl Lane {
    /// Executes it once, for its result alone or with counters and plan.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn once(&mut self, sql: &[u8], writes: bool, keys: &UniqueKeys, whole: bool) -> Result<Once, Error> {
        let mut found = Once::default();
        if whole {
            found.plan = self.plan(sql)?;
        }
        if writes {
            self.done("BEGIN")?;
        }
        let (mut checksum, mut order) = (0_u64, 0_u64);
        let before = whole.then(|| self.status()).transpose()?;
        let reply = self.client.inspect(
            sql,
            |columns| {
                let named = columns.iter().map(|column| (column.name.clone(), column.kind));
                found.columns.extend(named);
            },
            |row| add_row(&mut checksum, &mut order, row.payload()),
        );
        let reply = reply.map_err(|error| self.lost(&error))?;
        if reply.warnings > 0 && reply.error.is_none() {
            found.warnings = self.warnings()?;
        }
        if let Some(before) = before {
            let after = self.status()?;
            // A reading counts itself.
            let own = growth(&after, &self.status()?);
            found.counters = growth(&before, &after)
                .into_iter()
                .map(|(name, grown)| (own.get(&name).map_or(grown, |own| grown.saturating_sub(*own)), name))
                .filter(|(grown, _)| *grown > 0)
                .map(|(grown, name)| (name, grown))
                .collect();
        }
        if writes {
            self.done("ROLLBACK")?;
        }
        (found.rows, found.affected_rows) = (reply.rows, reply.affected_rows);
        found.checksum = Fingerprint(checksum);
        found.order = has_order(sql).then_some(Fingerprint(order));
        if let Some(error) = reply.error {
            (found.error, found.message) = (error.code, error.message);
        }
        let is_floating = |(_, kind): &(String, u8)| [column_type::FLOAT, column_type::DOUBLE].contains(kind);
        let last_digits = (found.columns.iter().any(is_floating) && adds_up(sql)).then(|| Varying {
            reason: "the last digits of a sum depend on its order".into(),
            freedom: Freedom::Contents,
        });
        let varying = nondeterministic(sql, keys, &extent(sql), reply.rows);
        let varying = varying.filter(|one| one.freedom > Freedom::Order || last_digits.is_none());
        found.varies = varying.or(last_digits).map(|varying| Varies {
            reason: varying.reason,
            of: match varying.freedom {
                Freedom::Order => "order",
                Freedom::Contents => "contents",
                Freedom::Number => "number",
            },
        });
        Ok(found)
    }

    /// Executes it with the server's own account of the execution, as text; none where the server has none.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn explain_execution(&mut self, sql: &[u8], writes: bool) -> Result<Option<String>, Error> {
        let form: &[u8] = if self.facts.kind == "mariadb" {
            b"ANALYZE FORMAT=JSON "
        } else {
            b"EXPLAIN ANALYZE "
        };
        if writes {
            self.done("BEGIN")?;
        }
        let found = match self.client.query(&[form, sql].concat()) {
            Ok(result) => result
                .texts()
                .into_iter()
                .next()
                .and_then(|row| row.into_iter().next().flatten()),
            Err(error) if error.server().is_some() => None,
            Err(error) => return Err(self.lost(&error)),
        };
        if writes {
            self.done("ROLLBACK")?;
        }
        Ok(found)
    }

    fn warnings(&mut self) -> Result<Vec<(u16, String)>, Error> {
        let result = self.client.query(WARNINGS).map_err(|error| self.lost(&error))?;
        let warned = result.texts().into_iter().filter_map(|row| {
            let mut row = row.into_iter().flatten().skip(1);
            Some((row.next()?.parse().ok()?, row.next()?))
        });
        Ok(warned.collect())
    }

    fn status(&mut self) -> Result<BTreeMap<String, u64>, Error> {
        let result = self.client.query(STATUS).map_err(|error| self.lost(&error))?;
        let counted = result.texts().into_iter().filter_map(|row| {
            let mut row = row.into_iter().flatten();
            let (name, value) = (row.next()?, row.next()?);
            COUNTERS.contains(&name.as_str()).then_some((name, value.parse().ok()?))
        });
        Ok(counted.collect())
    }

    /// The plan; null where the server cannot explain the statement.
    fn plan(&mut self, sql: &[u8]) -> Result<Value, Error> {
        for form in ["EXPLAIN FORMAT=JSON ", "EXPLAIN "] {
            let mut text = form.as_bytes().to_vec();
            text.extend_from_slice(sql);
            let result = match self.client.query(&text) {
                Ok(result) => result,
                Err(error) if error.server().is_some() => continue,
                Err(error) => return Err(self.lost(&error)),
            };
            let rows = result.texts();
            if let [row] = &rows[..] {
                if let [Some(text)] = &row[..] {
                    return Ok(Value::from(text.as_str()));
                }
            }
            let named = |row: Vec<Option<String>>| -> Value {
                result
                    .columns
                    .iter()
                    .cloned()
                    .zip(row.into_iter().map(Value::from))
                    .collect()
            };
            return Ok(rows.into_iter().map(named).collect());
        }
        Ok(Value::Null)
    }
}

fn growth(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = |(name, value): (&String, &u64)| Some((name.clone(), value.checked_sub(*before.get(name)?)?));
    after.iter().filter_map(grown).collect()
}
