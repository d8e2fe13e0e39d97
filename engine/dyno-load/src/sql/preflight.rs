//! Checks of the server before the first second of load.

use std::collections::BTreeSet;

use dyno_core::local_ports::LocalPorts;
use dyno_loop::{Address, LoadSettings, Think};
use dyno_mysql::blocking::Client;

use super::data::rows;
use super::oltp::{self, RowText, TableOptions};
use super::server::failed;
use super::settings::{SqlSettings, SqlWorkload};
use super::tpcc;
use crate::error::Error;
use crate::server::Facts;

/// What a run needs of the server.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// The run.
    pub settings: &'a SqlSettings,
    /// Whether the workload has one table only.
    pub single_table: bool,
    /// Whether a server that is neither MySQL nor MariaDB will do.
    pub any_server: bool,
}

/// Reads the server's facts and checks that the run can be done.
///
/// # Errors
/// With the value, the limit, and what to try.
pub fn check(client: &mut Client, needs: &Needs<'_>) -> Result<Facts, Error> {
    let facts = read_facts(client)?;
    if facts.kind == "unknown" && !needs.any_server {
        return Err(Error::Server(format!(
            "the server is of an unknown kind (version '{}', comment '{}'): dynoload knows MySQL, MariaDB and Percona \
             Server; --any-server tries it nevertheless",
            facts.version, facts.version_comment
        )));
    }
    check_connections(client, &facts, needs)?;
    check_account(client, &needs.settings.options.user, needs.settings.connections())?;
    check_prepared_statements(client, needs)?;
    match &needs.settings.workload {
        SqlWorkload::Tpcc(context) => tpcc::check::warehouses_for(client, context.config.warehouses)?,
        SqlWorkload::Oltp(context) => check_oltp(client, context, needs, &facts)?,
        // Which tables a user's file needs is known to the server alone.
        SqlWorkload::Script(_) | SqlWorkload::File(_) | SqlWorkload::Captured(_) => {}
    }
    Ok(facts)
}

fn check_oltp(client: &mut Client, context: &oltp::Context, needs: &Needs<'_>, facts: &Facts) -> Result<(), Error> {
    let (name, tables) = (&context.definition.name, context.options.table.tables);
    if needs.single_table && tables > 1 {
        return Err(Error::User(format!(
            "{name} works on one table, --tables is {tables}; leave it at 1"
        )));
    }
    if name == "connect" {
        return Ok(());
    }
    check_tables(client, context)?;
    if facts.kind == "unknown" {
        // It may describe indexes in another way, or not at all.
        return Ok(());
    }
    (1..=tables).try_for_each(|table| check_shape(client, &context.options.table, table))
}

/// What the server reports about itself.
///
/// # Errors
/// When it does not answer.
pub fn read_facts(client: &mut Client) -> Result<Facts, Error> {
    let mut ask = |question: &str| client.query_text(question).map_err(|error| failed(question, &error));
    let version = ask("SELECT @@version")?.unwrap_or_default();
    let version_comment = ask("SELECT @@version_comment").unwrap_or_default().unwrap_or_default();
    let max_connections = ask("SELECT @@max_connections")
        .ok()
        .flatten()
        .and_then(|text| text.parse().ok());
    let has_innodb = |ask: &mut dyn FnMut(&str) -> Result<Option<String>, Error>| {
        let size = ask("SELECT @@innodb_buffer_pool_size").ok().flatten();
        size.is_some_and(|text| text.parse::<u64>().is_ok())
    };
    let kind = kind_of(&format!("{version} {version_comment}"), || has_innodb(&mut ask));
    Ok(Facts {
        kind: kind.to_string(),
        version,
        version_comment,
        max_connections,
    })
}

/// By the names that servers give themselves. Distributions leave theirs out ("8.0.36-0ubuntu0.22.04.1 (Ubuntu)"): what
/// has InnoDB and no other's name is MySQL.
fn kind_of(described: &str, has_innodb: impl FnOnce() -> bool) -> &'static str {
    let described = described.to_lowercase();
    let has = |names: &[&'static str]| names.iter().find(|name| described.contains(**name)).copied();
    if has(&[
        "tidb",
        "proxysql",
        "vitess",
        "doris",
        "starrocks",
        "dolt",
        "null server",
    ])
    .is_some()
    {
        return "unknown";
    }
    has(&["mariadb", "percona", "mysql"]).unwrap_or_else(|| if has_innodb() { "mysql" } else { "unknown" })
}

fn check_connections(client: &mut Client, facts: &Facts, needs: &Needs<'_>) -> Result<(), Error> {
    let Some(allowed) = facts.max_connections else {
        return Ok(());
    };
    let in_use = status(client, "Threads_connected")?.unwrap_or(1);
    let wanted = u64::from(needs.settings.connections());
    if wanted + in_use > allowed {
        return Err(Error::User(format!(
            "--connections {wanted} is more than the server allows: max_connections is {allowed}, {in_use} in use \
             (this one is 1); lower --connections, or raise max_connections"
        )));
    }
    Ok(())
}

/// A number of SHOW GLOBAL STATUS; none where the server has none of that name.
fn status(client: &mut Client, name: &str) -> Result<Option<u64>, Error> {
    let question = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let answer = client.query(&question).map_err(|error| failed(&question, &error))?;
    let value = |row: &Vec<Option<String>>| row.get(1)?.as_ref()?.parse().ok();
    Ok(answer.texts().first().and_then(value))
}

fn check_prepared_statements(client: &mut Client, needs: &Needs<'_>) -> Result<(), Error> {
    if !needs.settings.prepared {
        return Ok(());
    }
    let workload = &needs.settings.workload;
    let each = workload.definition().prepared_statements(workload.tables());
    let wanted = each * u64::from(needs.settings.connections());
    let allowed = client
        .query_text("SELECT @@max_prepared_stmt_count")
        .ok()
        .flatten()
        .and_then(|text| text.parse().ok());
    let Some(allowed) = allowed else { return Ok(()) };
    let in_use: u64 = status(client, "Prepared_stmt_count")?.unwrap_or(0);
    if wanted + in_use > allowed {
        return Err(Error::User(format!(
            "{} connections prepare {each} statements each, {wanted} in all; the server's max_prepared_stmt_count is \
             {allowed}, {in_use} in use: raise it, use fewer --tables or --connections, or --db-ps-mode disable",
            needs.settings.connections()
        )));
    }
    Ok(())
}

fn check_tables(client: &mut Client, context: &oltp::Context) -> Result<(), Error> {
    let options = &context.options.table;
    // oltp_insert without auto_inc starts from empty tables, and oltp_delete may go on until they are empty.
    let by_size = !["oltp_insert", "oltp_delete"].contains(&context.definition.name.as_str());
    for table in 1..=options.tables {
        let mut id = |which: &str| {
            let question = format!("SELECT {which}(id) FROM sbtest{table}");
            let id = client
                .query_text(&question)
                .map_err(|error| missing(&error, table, options))?;
            Ok::<u64, Error>(id.and_then(|text| text.parse().ok()).unwrap_or(0))
        };
        let (least, greatest) = (id("MIN")?, id("MAX")?);
        let size = u64::from(options.table_size);
        if by_size && (greatest < size || least > size) {
            return Err(Error::User(format!(
                "table sbtest{table} has ids from {least} to {greatest}, --table-size is {size}: statements would find no \
                 rows; set --table-size as it was prepared, or run `dynoload oltp cleanup` and `dynoload oltp prepare \
                 --tables {} --table-size {size}`",
                options.tables
            )));
        }
    }
    Ok(())
}

/// Refuses a table without the keys, the index and the kind of text that the options say; the seed may be any.
fn check_shape(client: &mut Client, options: &TableOptions, table: u32) -> Result<(), Error> {
    let found = rows::keys(client, table)?;
    let wanted = rows::wanted_keys(options);
    let differing = |these: &BTreeSet<String>, others: &BTreeSet<String>| {
        let names: Vec<&str> = these.difference(others).map(String::as_str).collect();
        names.join(" and ")
    };
    let (lacking, besides) = (differing(&wanted, &found), differing(&found, &wanted));
    let difference = match (lacking.as_str(), besides.as_str()) {
        // An index more may be what is under test.
        ("", _) => check_text(client, options, table)?,
        (_, "") => Some(format!("lacks {lacking}")),
        _ => Some(format!("has {besides}, not {lacking}")),
    };
    difference.map_or(Ok(()), |difference| {
        Err(Error::Server(format!(
            "table sbtest{table} {difference}: it is not as --secondary, --create-secondary and --row-text say, or its \
             preparation was interrupted; `dynoload oltp prepare --resume` completes it, `dynoload oltp cleanup` drops it"
        )))
    })
}

fn check_text(client: &mut Client, options: &TableOptions, table: u32) -> Result<Option<String>, Error> {
    let question = format!("SELECT c FROM sbtest{table} ORDER BY id LIMIT 1");
    let first = client
        .query_text(&question)
        .map_err(|error| failed(&question, &error))?;
    let found = first.map(|text| RowText::of(&text));
    let (found, wanted) = (found.unwrap_or(options.row_text), options.row_text);
    Ok((found != wanted).then(|| format!("has the text {}, not {}", found.name(), wanted.name())))
}

fn missing(error: &dyno_mysql::Error, table: u32, options: &TableOptions) -> Error {
    const NO_SUCH_TABLE: u16 = 1146;
    match error.server() {
        Some(server) if server.code == NO_SUCH_TABLE => Error::User(format!(
            "there is no table sbtest{table} (--tables is {}); make it with `dynoload oltp prepare --tables {} \
             --table-size {}`",
            options.tables, options.tables, options.table_size
        )),
        _ => failed(&format!("SELECT MAX(id) FROM sbtest{table}"), error),
    }
}

/// Privileges with which the server's own limit does not count in MariaDB. MySQL's counts for everybody.
const UNLIMITED: [&str; 3] = ["SUPER", "CONNECTION ADMIN", "ALL PRIVILEGES"];

/// Refuses more connections than the account's MAX_USER_CONNECTIONS, or else the server's max_user_connections, leaves.
///
/// # Errors
/// With the limit, what is in use, and what to try.
pub fn check_account(client: &mut Client, user: &str, wanted: u32) -> Result<(), Error> {
    // A session has the account's own limit, if it has one, and else the global one. 0: no limit.
    let mut read = |scope: &str| {
        let value = client.query_text(&format!("SELECT @@{scope}.max_user_connections"));
        // Servers of other kinds may lack the variable. MariaDB: -1 admits none but privileged accounts.
        value.ok().flatten().and_then(|text| text.parse::<i64>().ok())
    };
    let (Some(allowed), global) = (read("SESSION"), read("GLOBAL")) else {
        return Ok(());
    };
    if allowed <= 0 || (global == Some(allowed) && is_unlimited(client)?) {
        return Ok(());
    }
    let in_use = connections_of(client, user)?;
    if i64::from(wanted) + in_use <= allowed {
        return Ok(());
    }
    Err(Error::User(format!(
        "--connections {wanted} is more than the account '{user}' may have: max_user_connections is {allowed}, {in_use} in use \
         (this one is 1); lower --connections, or raise the account's MAX_USER_CONNECTIONS or the server's \
         max_user_connections"
    )))
}

fn is_unlimited(client: &mut Client) -> Result<bool, Error> {
    const QUESTION: &str = "SHOW GRANTS";
    let version = client.query_text("SELECT VERSION()");
    let version = version.map_err(|error| failed("SELECT VERSION()", &error))?;
    if !version.is_some_and(|version| version.to_lowercase().contains("mariadb")) {
        return Ok(false);
    }
    let grants = client.query(QUESTION).map_err(|error| failed(QUESTION, &error))?;
    Ok(grants
        .texts()
        .into_iter()
        .flatten()
        .flatten()
        .any(|grant| is_of_unlimited(&grant)))
}

fn is_of_unlimited(grant: &str) -> bool {
    let privileges = grant
        .strip_prefix("GRANT ")
        .and_then(|rest| rest.split_once(" ON *.* TO "));
    privileges.is_some_and(|(names, _)| names.split(',').any(|name| UNLIMITED.contains(&name.trim())))
}

/// Number of connections of this name; an account without PROCESS sees all of its own.
fn connections_of(client: &mut Client, user: &str) -> Result<i64, Error> {
    const QUESTION: &str = "SHOW PROCESSLIST";
    let list = client.query(QUESTION).map_err(|error| failed(QUESTION, &error))?;
    let is_own = |row: &&Vec<Option<String>>| row.get(1).is_some_and(|name| name.as_deref() == Some(user));
    Ok(list.texts().iter().filter(is_own).count() as i64)
}

/// New connections a second that one connection of a closed loop makes at least: 5 ms each, which few servers need.
const MODEST_PER_S: f64 = 200.0;

/// Warns where every transaction is a connection, and there are too few ports for them.
pub fn warn_of_local_ports(settings: &SqlSettings) {
    let Address::Tcp(server) = settings.load.address else {
        return;
    };
    if !settings.connects_each_time() {
        return;
    }
    let (per_s, duration_s) = expected(&settings.load);
    let shortage = LocalPorts::read().and_then(|ports| ports.shortage(server, per_s, duration_s));
    if let Some(shortage) = shortage {
        let each = match settings.load.shape.schedule {
            Some(_) => String::new(),
            None => format!(" at only {MODEST_PER_S:.0} a second on each connection,"),
        };
        dyno_core::tell!("dynoload: warning: workload connect:{each} {shortage}");
    }
}

/// New connections a second, and for how long. Those of a closed loop are not known: at least so many.
fn expected(load: &LoadSettings) -> (f64, f64) {
    let duration_s = (load.shape.warmup_ns + load.shape.duration_ns) as f64 / 1e9;
    let pause_s = match load.think {
        Think::No => 0.0,
        Think::Constant { pause_ns: ns } | Think::Exponential { mean_ns: ns } => ns as f64 / 1e9,
    };
    let per_s = match &load.shape.schedule {
        Some(schedule) => schedule.operations_by(duration_s) / duration_s,
        None => f64::from(load.shape.connections) / (1.0 / MODEST_PER_S + pause_s),
    };
    (per_s, duration_s)
}

#[cfg(test)]
mod tests {
    use super::{is_of_unlimited, kind_of};

    #[test]
    fn a_server_is_recognised_by_its_names_or_by_what_it_has() {
        for (described, has_innodb, kind) in [
            ("10.11.11-MariaDB-0+deb12u1 Debian 12", true, "mariadb"),
            ("8.0.36-28 Percona Server (GPL)", true, "percona"),
            ("8.4.3 MySQL Community Server - GPL", true, "mysql"),
            ("8.0.36-0ubuntu0.22.04.1 (Ubuntu)", true, "mysql"),
            ("8.0.36 Source distribution", true, "mysql"),
            ("9.7.4-2 a company's own build", true, "mysql"),
            ("8.0.11-TiDB-v7.5.0 TiDB Server", true, "unknown"),
            ("8.0.30-Vitess Version: 18", true, "unknown"),
            ("8.0.36 dynoload null server, not a database", true, "unknown"),
            ("8.0.36 something else", false, "unknown"),
        ] {
            assert_eq!(kind_of(described, || has_innodb), kind, "{described}");
        }
    }

    #[test]
    fn only_privileges_on_everything_are_without_limit() {
        for (grant, unlimited) in [
            ("GRANT ALL PRIVILEGES ON *.* TO `bench`@`%`", true),
            ("GRANT SELECT, SUPER ON *.* TO `bench`@`%` WITH GRANT OPTION", true),
            ("GRANT CONNECTION ADMIN ON *.* TO `bench`@`%`", true),
            ("GRANT SELECT ON `SUPERSHOP`.* TO `bench`@`%`", false),
            ("GRANT ALL PRIVILEGES ON `shop`.* TO `bench`@`%`", false),
        ] {
            assert_eq!(is_of_unlimited(grant), unlimited, "{grant}");
        }
    }
}
