//! Checks of the server before the first statement.

use std::collections::BTreeSet;

use dyno_mysql::blocking::Client;
use dyno_mysql::session_state::OWN_STATE;

use super::{Pace, ReplayPlan, ReplayRun};
use crate::error::Error;
use crate::server::Facts;
use crate::sql::account_limit;
use crate::sql::preflight::read_facts;
use crate::sql::server::{connect, failed};

/// Reads the server's facts; checks that the schemas are there and that the sessions have room.
///
/// # Errors
/// With the names, the limit, and what to try.
pub fn check(run: &ReplayRun, plan: &ReplayPlan) -> Result<Facts, Error> {
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
    Ok(facts)
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
    account_limit::check(client, &run.connection.user, wanted)?;
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
