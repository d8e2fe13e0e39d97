//! How many connections the account may have at the same time.

use dyno_mysql::blocking::Client;

use super::server::failed;
use crate::error::Error;

/// Privileges with which the server's own limit does not count; MySQL's and MariaDB's names.
const UNLIMITED: [&str; 4] = ["SUPER", "CONNECTION_ADMIN", "CONNECTION ADMIN", "ALL PRIVILEGES ON *.*"];

/// Refuses more connections than the account's MAX_USER_CONNECTIONS, or else the server's max_user_connections, leaves.
///
/// # Errors
/// With the limit, what is in use, and what to try.
pub fn check(client: &mut Client, user: &str, wanted: u32) -> Result<(), Error> {
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
    let grants = client.query(QUESTION).map_err(|error| failed(QUESTION, &error))?;
    Ok(grants.texts().into_iter().flatten().flatten().any(|grant| {
        let grant = grant.to_uppercase();
        UNLIMITED.iter().any(|privilege| grant.contains(privilege))
    }))
}

/// Number of connections of this name; an account without PROCESS sees all of its own.
fn connections_of(client: &mut Client, user: &str) -> Result<i64, Error> {
    const QUESTION: &str = "SHOW PROCESSLIST";
    let list = client.query(QUESTION).map_err(|error| failed(QUESTION, &error))?;
    let is_own = |row: &&Vec<Option<String>>| row.get(1).is_some_and(|name| name.as_deref() == Some(user));
    Ok(list.texts().iter().filter(is_own).count() as i64)
}
