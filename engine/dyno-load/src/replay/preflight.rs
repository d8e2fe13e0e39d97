//! Checks of the server before the first statement.

use std::collections::{BTreeMap, BTreeSet};

use dyno_capture::reach::named_schemas;
use dyno_capture::UniqueKeys;
use dyno_mysql::blocking::Client;
use dyno_mysql::OWN_STATE;

use super::{Pace, ReplayPlan, ReplayRun};
use crate::error::Error;
use crate::server::Facts;
use crate::sql::preflight::{check_account, read_facts};
use crate::sql::server::{connect, failed};

/// Reads the server's facts, and with results the unique keys of its tables; checks that the schemas are there and that
/// the sessions have room.
///
/// # Errors
/// With the names, the limit, and what to try.
pub fn check(run: &ReplayRun, plan: &ReplayPlan) -> Result<(Facts, UniqueKeys), Error> {
    let mut client = connect(&run.connection.options(false, Some(OWN_STATE))?)?;
    let facts = read_facts(&mut client)?;
    if facts.kind == "unknown" && !run.any_server {
        return Err(Error::Server(format!(
            "the server is of an unknown kind (version '{}'): dynoload knows MySQL, MariaDB and Percona Server; \
             --any-server tries it nevertheless",
            facts.version
        )));
    }
    check_schemas(&mut client, plan)?;
    check_connections(&mut client, &facts, run, plan)?;
    let keys = match run.results {
        Some(_) => unique_keys(&mut client, &schemas_in_use(run, plan))?,
        None => UniqueKeys::new(),
    };
    Ok((facts, keys))
}

/// Columns of a row of [`keys_in`].
const KEY_COLUMNS: usize = 5;

/// The unique keys of the tables in these schemas.
///
/// # Errors
/// When the server does not list them.
pub fn unique_keys(client: &mut Client, schemas: &BTreeSet<String>) -> Result<UniqueKeys, Error> {
    const QUESTION: &str =
        "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, NULLABLE FROM information_schema.STATISTICS WHERE \
                            NON_UNIQUE = 0 AND TABLE_SCHEMA NOT IN ('mysql', 'sys') ORDER BY 1, 2, 3, SEQ_IN_INDEX";
    let mut rows = client
        .query(QUESTION)
        .map_err(|error| failed(QUESTION, &error))?
        .texts();
    // The null server's answers have other columns.
    rows.retain(|row| row.len() == KEY_COLUMNS);
    Ok(keys_in(&rows, schemas))
}

/// The schemas whose tables the statements may mean: default ones, and those that they name.
fn schemas_in_use(run: &ReplayRun, plan: &ReplayPlan) -> BTreeSet<String> {
    let named = plan
        .statements
        .iter()
        .flat_map(|statement| named_schemas(&statement.text))
        .map(|schema| schema.name);
    let default = plan.needed_schemas.iter().chain([&run.connection.database]).cloned();
    default.chain(named).collect()
}

/// The unique keys in these schemas; of tables of one name in several of them, those that all have. A row has schema,
/// table, key, column and whether it may be NULL, and precedes those of the next key.
fn keys_in(rows: &[Vec<Option<String>>], schemas: &BTreeSet<String>) -> UniqueKeys {
    let mut found = UniqueKeys::new();
    for of_table in rows.chunk_by(|left, right| left[..2] == right[..2]) {
        if !of_table[0][0].as_ref().is_some_and(|schema| schemas.contains(schema)) {
            continue;
        }
        let keys = of_table.chunk_by(|left, right| left[2] == right[2]).filter_map(|key| {
            // A part without a column is an expression.
            let column =
                |row: &Vec<Option<String>>| Some((row[3].as_ref()?.to_lowercase(), row[4].as_deref() == Some("YES")));
            key.iter().map(column).collect::<Option<BTreeMap<String, bool>>>()
        });
        let keys: BTreeSet<BTreeMap<String, bool>> = keys.collect();
        let table = of_table[0][1].clone().unwrap_or_default().to_lowercase();
        found
            .entry(table)
            .and_modify(|known| known.retain(|key| keys.contains(key)))
            .or_insert(keys);
    }
    found
}

fn check_schemas(client: &mut Client, plan: &ReplayPlan) -> Result<(), Error> {
    const QUESTION: &str = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA";
    let rows = client
        .query(QUESTION)
        .map_err(|error| failed(QUESTION, &error))?
        .texts();
    let present: BTreeSet<String> = rows.into_iter().flatten().flatten().collect();
    let missing: Vec<&str> = plan.needed_schemas.difference(&present).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::User(format!(
        "the server has no schema {}: the capture uses {} as default schema. Load a copy of the data, or name the copy's \
         schema with --schema {}=NAME",
        missing.join(", "),
        if missing.len() == 1 { "it" } else { "them" },
        missing[0]
    )))
}

fn check_connections(client: &mut Client, facts: &Facts, run: &ReplayRun, plan: &ReplayPlan) -> Result<(), Error> {
    // With a limit of its own, or as fast as possible, that limit counts; otherwise what the capture needs at a time.
    let wanted = match (run.connections, run.pace) {
        (Some(_), _) | (None, Pace::Max) => run.most_open(plan),
        (None, Pace::Times(_)) => plan.peak_sessions,
    };
    check_account(client, &run.connection.user, wanted)?;
    let Some(allowed) = facts.max_connections else {
        return Ok(());
    };
    if u64::from(wanted) < allowed {
        return Ok(());
    }
    Err(Error::User(format!(
        "{wanted} sessions are open at a time, and one more connection is needed; max_connections of the server is \
         {allowed}: raise it, or let sessions wait with --connections {}",
        allowed.saturating_sub(2).max(1)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_schemas_of_the_replay_say_which_keys_are_unique() {
        let row = |parts: [&str; 5]| parts.map(|part| Some(part.to_string())).to_vec();
        // A table of the same name in another application's schema, without the key.
        let rows = [
            row(["forum", "item", "PRIMARY", "Number", ""]),
            row(["shop", "item", "PRIMARY", "ID", ""]),
            row(["shop", "item", "sku", "shop", ""]),
            row(["shop", "item", "sku", "sku", "YES"]),
        ];
        let keys = |schemas: &[&str]| {
            let schemas = schemas.iter().map(ToString::to_string).collect();
            keys_in(&rows, &schemas)["item"].len()
        };
        assert_eq!(keys(&["shop"]), 2);
        let of_shop = keys_in(&rows, &["shop".to_string()].into());
        assert!(of_shop["item"].contains(&[("shop".into(), false), ("sku".into(), true)].into()));
        assert_eq!(
            keys(&["forum", "shop"]),
            0,
            "which of the two a statement means is not known"
        );
        assert!(keys_in(&rows, &BTreeSet::new()).is_empty());
    }
}
