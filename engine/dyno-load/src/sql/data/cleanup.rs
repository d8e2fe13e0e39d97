//! Dropping the tables that a preparation made, and no others.

use dyno_mysql::blocking::Client;
use dyno_mysql::Options;

use crate::error::Error;
use crate::sql::server::{explain, failed, in_hexadecimal, quoted, UNBOUNDED, UNKNOWN_DATABASE};

/// Engines whose tables have their rows elsewhere.
const WITHOUT_OWN_ROWS: [&str; 4] = ["MRG_MYISAM", "FEDERATED", "CONNECT", "SPIDER"];

/// A table as a preparation makes it.
#[derive(Debug)]
pub struct Prepared {
    /// Its name.
    pub name: String,
    /// Its columns, at least.
    pub columns: Vec<String>,
}

impl Prepared {
    /// A table of these columns.
    pub fn new(name: &str, columns: &[&str]) -> Self {
        Self {
            name: name.to_string(),
            columns: columns.iter().map(ToString::to_string).collect(),
        }
    }

    /// A table of sysbench's.
    pub fn sbtest(table: u32) -> Self {
        Self::new(&format!("sbtest{table}"), &["id", "k", "c", "pad"])
    }

    /// Whether it is there.
    ///
    /// # Errors
    /// When something else has its name, which is neither to be written nor to be dropped.
    pub fn is_there(&self, client: &mut Client) -> Result<bool, Error> {
        let question = format!(
            "SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {}",
            in_hexadecimal(&self.name)
        );
        let mut ask = |question: &str| client.query(question).map_err(|error| failed(question, &error));
        let answer = ask(&question)?.texts();
        let Some(row) = answer.first() else {
            return Ok(false);
        };
        let text = |place: usize| row.get(place).cloned().flatten().unwrap_or_default();
        let mut found = other_kind(&text(0), &text(1));
        if found.is_none() {
            let columns = ask(&format!("SHOW COLUMNS FROM {}", quoted(&self.name)))?.texts();
            let names: Vec<String> = columns.into_iter().filter_map(|row| row.into_iter().next()?).collect();
            found = self.lacking(&names);
        }
        match found {
            None => Ok(true),
            Some(found) => Err(Error::User(format!(
                "{} is {found} in this database, and no table of a preparation, which is what dynoload writes and drops; \
                 rename it, or use another --database",
                self.name
            ))),
        }
    }

    fn lacking(&self, names: &[String]) -> Option<String> {
        let is_missing = |column: &&String| !names.iter().any(|name| name.eq_ignore_ascii_case(column));
        let missing = self.columns.iter().find(is_missing)?;
        Some(format!("a table without the column {missing}"))
    }
}

/// What is no table with rows of its own.
fn other_kind(kind: &str, engine: &str) -> Option<String> {
    match kind {
        "VIEW" | "SYSTEM VIEW" => Some("a view".into()),
        "SEQUENCE" => Some("a sequence".into()),
        _ if WITHOUT_OWN_ROWS.iter().any(|name| name.eq_ignore_ascii_case(engine)) => {
            Some(format!("a table of the engine {engine}"))
        }
        _ => None,
    }
}

/// Drops sbtest1 to sbtestN.
///
/// # Errors
/// As [`drop_tables`].
pub fn cleanup(options: &Options, tables: u32) -> Result<(), Error> {
    drop_tables(options, (1..=tables).map(Prepared::sbtest))
}

/// Drops tables; those that are not there, or a database that is not, are no error.
///
/// # Errors
/// When the server is away or refuses, or something else has the name of one: then none is dropped.
pub fn drop_tables(options: &Options, tables: impl Iterator<Item = Prepared>) -> Result<(), Error> {
    let mut client = match Client::connect(options, UNBOUNDED) {
        Ok(client) => client,
        Err(dyno_mysql::Error::Server(error)) if error.code == UNKNOWN_DATABASE => return Ok(()),
        Err(error) => return Err(explain(options, &error)),
    };
    let mut found = Vec::new();
    for table in tables {
        if table.is_there(&mut client)? {
            found.push(table.name);
        }
    }
    for name in found {
        let sql = format!("DROP TABLE IF EXISTS {}", quoted(&name));
        client.exec(&sql).map_err(|error| failed(&sql, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_preparation_makes_is_named() {
        for (kind, engine, expected) in [
            ("BASE TABLE", "InnoDB", None),
            ("BASE TABLE", "MyISAM", None),
            ("BASE TABLE", "MRG_MyISAM", Some("a table of the engine MRG_MyISAM")),
            ("VIEW", "", Some("a view")),
            ("SEQUENCE", "InnoDB", Some("a sequence")),
            ("SYSTEM VERSIONED", "InnoDB", None),
        ] {
            assert_eq!(other_kind(kind, engine).as_deref(), expected, "{kind}");
        }
        let table = Prepared::new("sbtest1", &["id", "k"]);
        let names = |text: &str| -> Vec<String> { text.split(' ').map(String::from).collect() };
        assert_eq!(table.lacking(&names("ID k extra")), None);
        let shop = table.lacking(&names("id name")).unwrap();
        assert_eq!(shop, "a table without the column k");
    }
}
